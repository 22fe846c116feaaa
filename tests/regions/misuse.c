/* misuse NUMBER: what must end the process with one line. */
#include "check.h"
#include "hakmem.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* As a crash reporter does, it allocates. */
static void leave(int unused) {
  (void)unused;
  void *volatile block = hak_malloc(100);
  hak_free(block);
  _exit(block ? 0 : 3);
}

static int destroy_it(void *block, size_t bytes, void *region) {
  (void)block, (void)bytes;
  hak_region_destroy(region);
  return 0;
}

/* A soft limit's callback frees the block that grows. */
static bool free_that(hak_region_t *region, size_t bytes, hak_region_limit_kind_t limit, void *block) {
  (void)region, (void)bytes, (void)limit;
  hak_free(block);
  return true;
}

static char memory[100000];

int main(int argc, char **argv) {
  CHECK(argc == 2 && signal(SIGABRT, leave) != SIG_ERR);
  hak_region_t *region = hak_region_new(NULL), *other = hak_region_new(NULL);
  char *block = hak_region_malloc(region, 100), *large = hak_region_malloc(region, 100000), *later;
  CHECK(hak_region_malloc(region, 3000) != NULL); /* which keeps the span of small blocks */
  CHECK(block && large);
  switch (atoi(argv[1])) {
  case 0: /* twice */
    hak_free(hide_pointer(block));
    hak_free(hide_pointer(block));
    break;
  case 1: /* inside a block */
    hak_free(hide_pointer(block + 16));
    break;
  case 2:
    hak_free(hide_pointer(large + 4096));
    break;
  case 3: /* a large one, twice */
    hak_free(hide_pointer(large));
    hak_free(hide_pointer(large));
    break;
  case 4: /* after the end */
    hak_region_destroy(region);
    hak_region_malloc(region, 10);
    break;
  case 5:
    hak_region_release(region);
    hak_region_destroy(region);
    break;
  case 6: /* a block of a region that is gone */
    hak_region_destroy(region);
    hak_free(hide_pointer(block));
    break;
  case 7: /* the wrong order */
    CHECK(hak_region_enter(region) && hak_region_enter(other));
    hak_region_leave(region);
    break;
  case 8:
    hak_region_leave(region);
    break;
  case 9: /* a thread is inside */
    CHECK(hak_region_enter(region));
    hak_region_destroy(region);
    break;
  case 10: /* a free block is written to */
    later = hak_region_malloc(region, 100);
    hak_free(hide_pointer(block));
    hak_free(hide_pointer(later));
    memset(hide_pointer(later), 0x41, 16);
    hak_region_malloc(region, 100);
    hak_region_malloc(region, 100);
    break;
  case 11: /* a reset block */
    hak_region_reset(region);
    hak_free(hide_pointer(block));
    break;
  case 12:
    hak_region_retire(other);
    hak_region_enter(other);
    break;
  case 13: /* a walk is under way */
    hak_region_walk(region, destroy_it, region);
    break;
  case 14: /* inside a scope, so that the handler's requests would go to the region */
    CHECK(hak_region_enter(region));
    hak_free(hide_pointer(block));
    hak_free(hide_pointer(block));
    break;
  case 15: /* the process has no end */
    hak_region_destroy(hak_region_process());
    break;
  case 16:
    hak_region_walk(hak_region_process(), destroy_it, region);
    break;
  case 17:
    hak_region_on_limit(region, free_that, large);
    hak_region_limit(region, 1, 0);
    later = hak_realloc(hide_pointer(large), 300000);
    CHECK(later != NULL);
    break;
  case 18: /* a large free block is written to, and passed over */
    region = hak_region_new(&(hak_region_options_t){.memory = memory, .memory_bytes = sizeof memory});
    block = hak_region_malloc(region, 20000);
    CHECK(block && hak_region_malloc(region, 60000) != NULL);
    hak_free(hide_pointer(block));
    memset(hide_pointer(block), 0x41, 16);
    later = hak_region_malloc(region, 30000);
    CHECK(later == NULL);
    break;
  default:
    CHECK(false);
  }
  return 2; /* nothing was noticed */
}
