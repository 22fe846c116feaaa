/* Regions whose contents are known. For each letter on standard input it does as listed, then prints a line of JSON:
 * the address of a live block, of a freed one, and of a large one.
 *   a  fill all regions
 *   s  go on to allocate 100 blocks in a scope
 *   d  end all but one of them */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem.h"

enum { REQUESTS = 20, BLOCKS = 1000 };
static hak_region_t *cache, *tenant, *requests[REQUESTS];
static char *kept[BLOCKS], *large, *freed;
static char given_memory[1 << 20];

static char *fill(hak_region_t *region, size_t bytes) {
  char *block = hak_region_malloc(region, bytes);
  return memset(block, 0x5a, bytes);
}

static void allocate(void) {
  cache = hak_region_new(&(hak_region_options_t){.name = "cache \"1\"", .hard_limit = 64 << 20});
  tenant = hak_region_new(&(hak_region_options_t){.name = "tenant", .parent = cache});
  hak_region_t *given = hak_region_new(
      &(hak_region_options_t){.name = "given", .memory = given_memory, .memory_bytes = sizeof given_memory});
  for (size_t i = 0; i < BLOCKS; i++) {
    kept[i] = fill(cache, 1000);
    fill(given, 100);
  }
  freed = kept[1];
  hak_free(kept[1]);
  fill(tenant, 300000);
  large = fill(tenant, 5000000);
  for (int i = 0; i < REQUESTS; i++) {
    requests[i] = hak_region_new(&(hak_region_options_t){.name = "request"});
    fill(requests[i], 5000);
  }
  hak_region_retire(requests[0]);
}

static void scope(void) {
  if (hak_region_enter(tenant)) {
    for (int i = 0; i < 100; i++) {
      memset(malloc(10000), 1, 10000);
    }
    hak_region_leave(tenant);
  }
}

static void destroy(void) {
  hak_region_destroy(tenant);
  for (int i = 0; i < REQUESTS; i++) {
    (i == 1 ? hak_region_release : hak_region_destroy)(requests[i]);
  }
}

int main(void) {
  puts("ready");
  fflush(stdout);
  for (int letter; (letter = getchar()) != EOF;) {
    (letter == 'a' ? allocate : letter == 's' ? scope : destroy)();
    printf("{\"live\": %zu, \"freed\": %zu, \"large\": %zu}\n", (size_t)kept[0], (size_t)freed, (size_t)large);
    fflush(stdout);
  }
  return 0;
}
