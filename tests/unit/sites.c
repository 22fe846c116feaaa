/* The table of call sites: the counts of each stack are exact, the size is bounded, and many threads may add. */
#include "inspect/sites.h"

#include <pthread.h>
#include <string.h>

#include "check.h"
#include "child.h"
#include "inspect/records.h"
#include "prng.h"
#include "system.h"
#include "system/meta.h"

enum { THREADS = 4, STACKS = 500, DEPTH = 5, ROUNDS = 20000 };

static size_t stack_of(uint32_t number, uintptr_t pcs[HAK_SITE_FRAMES_MAX]) {
  size_t depth = 1 + number % DEPTH;
  for (size_t i = 0; i < depth; i++) {
    pcs[i] = 0x1000 + number * 16 + i * 7;
  }
  return depth;
}

static hak_site_t *site_of(uint32_t number) {
  uintptr_t pcs[HAK_SITE_FRAMES_MAX];
  return hak_site_of(pcs, stack_of(number, pcs), NULL);
}

static void add(hak_site_t *site, double weight_bytes, size_t block_bytes) {
  hak_lock(&hak_samples_lock);
  hak_site_add_locked(site, weight_bytes, block_bytes);
  hak_unlock(&hak_samples_lock);
}

static void take_away(hak_site_t *site, double weight_bytes, size_t block_bytes) {
  hak_lock(&hak_samples_lock);
  hak_site_remove_locked(site, weight_bytes, block_bytes);
  hak_unlock(&hak_samples_lock);
}

static size_t count_sites(void) {
  size_t count = 0;
  for (hak_site_t *site = NULL; (site = hak_site_next(site));) {
    count++;
  }
  return count;
}

static void a_stack_has_one_site(void) {
  for (uint32_t i = 0; i < STACKS; i++) {
    uintptr_t pcs[HAK_SITE_FRAMES_MAX];
    size_t depth = stack_of(i, pcs);
    CHECK(!hak_site_known(pcs, depth, NULL));
    hak_site_t *site = hak_site_of(pcs, depth, NULL);
    CHECK(site->frame_count == depth && site == hak_site_of(pcs, depth, NULL) &&
          site == hak_site_known(pcs, depth, NULL));
    for (size_t frame = 0; frame < depth; frame++) {
      CHECK(hak_site_frame_pc(site->frame[frame]) == pcs[frame]);
    }
  }
  CHECK(count_sites() == STACKS + 1); /* includes the site without a stack */
  for (size_t i = 0; i < hak_site_frames_count(); i++) {
    for (size_t j = 0; j < i; j++) {
      CHECK(hak_site_frame_pc(i) != hak_site_frame_pc(j));
    }
  }
}

static void stacks_that_begin_alike_differ(void) {
  const uintptr_t pcs[] = {1, 2, 3}, other[] = {1, 2, 4}, turned[] = {2, 1, 3};
  hak_site_t *site = hak_site_of(pcs, 3, NULL);
  CHECK(site != hak_site_of(pcs, 2, NULL) && site != hak_site_of(other, 3, NULL) &&
        site != hak_site_of(turned, 3, NULL));
  CHECK(site == hak_site_of(pcs, 3, NULL));
}

static void no_stack_is_a_site_too(void) {
  hak_site_t *none = hak_site_of(NULL, 0, NULL);
  CHECK(none && none->frame_count == 0 && none == hak_site_of(NULL, 0, NULL) && !hak_site_known(NULL, 0, NULL));
  add(none, 100, 10);
  CHECK(hak_site_counts(none).in_use_objects == 10);
}

static void what_is_freed_takes_away_what_was_added(void) {
  Prng prng = prng_seeded(7);
  static double weights[ROUNDS];
  static size_t sizes[ROUNDS];
  hak_site_t *site = site_of(1);
  double bytes = 0, objects = 0;
  for (size_t i = 0; i < ROUNDS; i++) {
    sizes[i] = 16 * (1 + prng_below(&prng, 4000));
    weights[i] = (double)sizes[i] * (1 + prng_below(&prng, 100000) / 7.0);
    add(site, weights[i], sizes[i]);
    bytes += weights[i];
    objects += weights[i] / (double)sizes[i];
  }
  hak_site_counts_t counts = hak_site_counts(site);
  CHECK(counts.bytes > bytes * (1 - 1e-6) && counts.bytes < bytes * (1 + 1e-6));
  CHECK(counts.objects > objects * (1 - 1e-6) && counts.objects < objects * (1 + 1e-6));
  CHECK(counts.in_use_bytes == counts.bytes && counts.in_use_objects == counts.objects);
  for (size_t i = ROUNDS; i-- > 0;) {
    take_away(site, weights[i], sizes[i]);
  }
  counts = hak_site_counts(site);
  CHECK(counts.in_use_bytes == 0 && counts.in_use_objects == 0 && counts.bytes > 0);
  CHECK(hak_sites_in_use() == 0 && hak_sites_allocated() == counts.bytes);
}

static void whole_numbers_stay_whole(void) {
  hak_site_t *site = site_of(2);
  for (size_t i = 0; i < ROUNDS; i++) {
    add(site, 48, 48);
  }
  CHECK(hak_site_counts(site).bytes == 48.0 * ROUNDS && hak_site_counts(site).objects == ROUNDS);
  for (size_t i = 1; i < ROUNDS; i++) {
    take_away(site, 48, 48);
  }
  CHECK(hak_site_counts(site).in_use_bytes == 48 && hak_site_counts(site).in_use_objects == 1);
}

static void in_a_child_what_is_live_is_inherited(void) {
  hak_site_t *site = site_of(2), *freed = site_of(3), *later = site_of(4);
  for (int i = 0; i < 10; i++) {
    add(site, 48, 48);
    add(freed, 48, 48);
    take_away(freed, 48, 48);
  }
  take_away(site, 48, 48);
  hak_lock(&hak_samples_lock);
  hak_sites_fork_child_locked();
  hak_unlock(&hak_samples_lock);
  hak_site_counts_t n = hak_site_counts(site);
  CHECK(n.bytes == 0 && n.objects == 0 && n.in_use_bytes == 9 * 48 && n.in_use_objects == 9);
  CHECK(n.inherited_bytes == 9 * 48 && hak_sites_inherited() == 9 * 48 && hak_site_counts(freed).bytes == 0);
  add(site, 48, 48);
  add(later, 48, 48);
  n = hak_site_counts(site);
  CHECK(n.bytes == 48 && n.objects == 1 && n.in_use_bytes == 10 * 48 && n.inherited_bytes == 9 * 48);
  for (int i = 0; i < 8; i++) {
    take_away(site, 48, 48);
  }
  n = hak_site_counts(site);
  CHECK(n.in_use_bytes == 2 * 48 && n.inherited_bytes == 2 * 48 && n.bytes == 48);
  CHECK(hak_site_counts(later).bytes == 48 && hak_site_counts(later).inherited_bytes == 0);
}

static void the_table_has_an_end(void) {
  uintptr_t pcs[HAK_SITE_FRAMES_MAX];
  hak_site_t *nowhere = hak_site_of(NULL, 0, NULL), *site = NULL;
  uint32_t made = 0;
  for (; site != nowhere && made < 10U << 20; made++) {
    for (uintptr_t i = 0; i < HAK_SITE_FRAMES_MAX; i++) {
      pcs[i] = 1 + made % 7 + i * 1000 + (i == 3 ? made * 1000000ULL : 0);
    }
    site = hak_site_of(pcs, HAK_SITE_FRAMES_MAX, NULL);
  }
  CHECK(site == nowhere && made > 1000 && hak_meta_bytes() < HAK_SITES_BYTES_MAX + (1 << 20));
  for (uintptr_t i = 0; i < HAK_SITE_FRAMES_MAX; i++) {
    pcs[i] = 1 + i * 1000;
  }
  CHECK(hak_site_of(pcs, HAK_SITE_FRAMES_MAX, NULL) != nowhere); /* a stack that has a site keeps it */
}

static void without_memory_there_is_no_new_site(void) {
  hak_site_t *first = site_of(1);
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  uint32_t i = 2;
  while (i < 100000 && site_of(i) != hak_site_of(NULL, 0, NULL)) {
    i++;
  }
  CHECK(i < 100000 && site_of(1) == first);
  system_allow();
  CHECK(site_of(i) != hak_site_of(NULL, 0, NULL));
}

static void *add_many(void *argument) {
  Prng prng = prng_seeded((uintptr_t)argument);
  for (size_t i = 0; i < ROUNDS; i++) {
    hak_site_t *site = site_of(prng_below(&prng, STACKS));
    add(site, 64, 32);
    if (i % 2) {
      take_away(site, 64, 32);
    }
    if (i % 64 == 0) {
      for (hak_site_t *each = NULL; (each = hak_site_next(each));) {
        CHECK(each->frame_count == 0 || hak_site_frame_pc(each->frame[each->frame_count - 1]) != 0);
        CHECK(hak_site_counts(each).in_use_bytes >= 0);
      }
    }
  }
  return NULL;
}

static void threads_may_add_at_once(void) {
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&threads[i], NULL, add_many, (void *)(i + 1)) == 0);
  }
  for (size_t i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  CHECK(count_sites() == STACKS + 1);
  CHECK(hak_sites_allocated() == 64.0 * THREADS * ROUNDS && hak_sites_in_use() == 32.0 * THREADS * ROUNDS);
}

int main(void) {
  child_succeeds(a_stack_has_one_site);
  child_succeeds(stacks_that_begin_alike_differ);
  child_succeeds(no_stack_is_a_site_too);
  child_succeeds(what_is_freed_takes_away_what_was_added);
  child_succeeds(whole_numbers_stay_whole);
  child_succeeds(in_a_child_what_is_live_is_inherited);
  child_succeeds(the_table_has_an_end);
  child_succeeds(without_memory_there_is_no_new_site);
  child_succeeds(threads_may_add_at_once);
  return 0;
}
