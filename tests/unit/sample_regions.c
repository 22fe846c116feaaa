/* Samples of blocks of regions: each is counted under the region's name, until the block ends in whatever way. */
#include <pthread.h>
#include <string.h>

#include "check.h"
#include "hakmem.h"
#include "inspect/records.h"
#include "inspect/sample.h"
#include "inspect/sites.h"
#include "prng.h"
#include "regions/regions.h"

enum { BLOCKS = 300, STEPS = 20000, THREADS = 4, ALL = 1, MEAN = 4096 };

static double in_use(const char *label) {
  double bytes = 0;
  for (const hak_site_t *site = NULL; (site = hak_site_next(site));) {
    bytes += site->label && strcmp(site->label->name, label) == 0 ? hak_site_counts(site).in_use_bytes : 0;
  }
  return bytes;
}

static double allocated(const char *label) {
  double bytes = 0;
  for (const hak_site_t *site = NULL; (site = hak_site_next(site));) {
    bytes += site->label && strcmp(site->label->name, label) == 0 ? hak_site_counts(site).bytes : 0;
  }
  return bytes;
}

static void expect(const hak_region_t *region, const char *label) {
  hak_region_usage_t usage;
  CHECK(hak_region_usage(region, &usage));
  CHECK(in_use(label) == (double)usage.live_bytes);
}

static hak_region_t *region_of(const char *name) {
  return hak_region_new(&(hak_region_options_t){.name = name});
}

/* With a mean of 1, what is in use is what lives. */
static void every_end_is_noticed(void) {
  static void *blocks[BLOCKS];
  Prng prng = {1};
  CHECK(hak_sample_start(ALL));
  hak_region_t *region = region_of("ends");
  for (int step = 0; step < STEPS; step++) {
    void **each = &blocks[prng_next(&prng) % BLOCKS];
    size_t bytes = prng_next(&prng) % 40 == 0 ? prng_next(&prng) % 3000000 : prng_next(&prng) % 2000;
    if (step % 4000 == 3999) {
      hak_region_reset(region);
      memset(blocks, 0, sizeof blocks);
      CHECK(in_use("ends") == 0);
    } else if (*each && prng_next(&prng) % 2 == 0) {
      CHECK((*each = hak_realloc(*each, bytes + 1)) != NULL);
    } else if (*each) {
      hak_free(*each);
      *each = NULL;
    } else if (prng_next(&prng) % 2 == 0) {
      CHECK((*each = hak_region_aligned_alloc(region, 64, bytes)) != NULL);
    } else {
      CHECK(hak_region_enter(region) && (*each = hak_malloc(bytes + 1)) != NULL);
      hak_region_leave(region);
    }
    if (step % 100 == 0) {
      expect(region, "ends");
      hak_check();
    }
  }
  expect(region, "ends");
  hak_region_t *child = hak_region_new(&(hak_region_options_t){.name = "child", .parent = region});
  CHECK(hak_region_calloc(child, 1, 5000000) && in_use("child") >= 5000000);
  hak_region_destroy(region);
  CHECK(in_use("ends") == 0 && in_use("child") == 0 && allocated("ends") > 0);
}

static void released_blocks_keep_the_name(void) {
  hak_region_t *region = region_of("kept");
  void *small = hak_region_malloc(region, 100), *large = hak_region_malloc(region, 100000);
  double was = in_use("kept");
  CHECK(was >= 100100);
  hak_region_release(region);
  CHECK(in_use("kept") == was);
  hak_free(small);
  hak_free(large);
  CHECK(in_use("kept") == 0);
}

static void given_memory_counts(void) {
  static char memory[100000];
  hak_region_options_t options = {.name = "given", .memory = memory, .memory_bytes = sizeof memory};
  hak_region_t *region = hak_region_new(&options);
  CHECK(hak_region_malloc(region, 1000) && in_use("given") >= 1000);
  hak_region_destroy(region);
  CHECK(in_use("given") == 0);
}

static void ordinary_blocks_have_no_name(void) {
  CHECK(hak_region_malloc(region_of(NULL), 100) && in_use("[unnamed]") >= 100);
  double all = hak_sites_in_use();
  void *block = hak_malloc(100);
  double named = 0;
  for (hak_site_label_t *label = NULL; (label = hak_site_label_next(label));) {
    named += in_use(label->name);
  }
  CHECK(hak_sites_in_use() > all && hak_sites_in_use() - named >= 100);
  hak_free(block);
}

static void names_are_bounded(void) {
  char name[32];
  size_t count = 0;
  for (int i = 0; i < 2 * HAK_SITE_LABELS_MAX; i++) {
    (void)snprintf(name, sizeof name, "tenant %d", i);
    hak_region_t *region = region_of(name);
    CHECK(hak_region_malloc(region, 100) != NULL);
    hak_region_destroy(region);
  }
  for (hak_site_label_t *label = NULL; (label = hak_site_label_next(label));) {
    count++;
  }
  CHECK(count == HAK_SITE_LABELS_MAX + 1 && allocated("[other regions]") > 0 && in_use("[other regions]") == 0);
  CHECK(allocated("tenant 0") >= 100 && allocated("ends") > 0);
}

/* The blocks of a region that all threads use; and a region that each of them makes and ends. */
static hak_region_t *shared;

static void *churn(void *argument) {
  void *blocks[BLOCKS] = {NULL};
  Prng prng = {(uint64_t)(size_t)argument};
  for (int round = 0; round < 20; round++) {
    hak_region_t *own = region_of("own");
    for (int i = 0; i < BLOCKS; i++) {
      CHECK(hak_region_malloc(own, prng_next(&prng) % 5000) != NULL);
      hak_free(blocks[i]);
      CHECK((blocks[i] = hak_region_malloc(shared, prng_next(&prng) % 5000)) != NULL);
    }
    hak_region_destroy(own);
  }
  for (int i = 0; i < BLOCKS; i++) {
    hak_free(blocks[i]);
  }
  return NULL;
}

static void the_estimate_is_near_with_threads(void) {
  pthread_t threads[THREADS];
  CHECK(hak_sample_start(MEAN));
  shared = region_of("shared");
  double before = allocated("own");
  for (size_t i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)) == 0);
  }
  for (size_t i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  hak_region_usage_t usage;
  CHECK(hak_region_usage(shared, &usage) && in_use("shared") == 0 && in_use("own") == 0);
  /* 60 MB and 15,000 samples for each name; seven standard deviations are 6 %. */
  double ratio = allocated("shared") / (double)usage.allocated_bytes;
  CHECK(ratio > 0.93 && ratio < 1.07 && allocated("own") > before);
  hak_region_destroy(shared);
}

int main(void) {
  every_end_is_noticed();
  released_blocks_keep_the_name();
  given_memory_counts();
  ordinary_blocks_have_no_name();
  the_estimate_is_near_with_threads();
  CHECK(hak_sample_start(ALL));
  names_are_bounded();
  hak_sample_stop();
  hak_check();
  return 0;
}
