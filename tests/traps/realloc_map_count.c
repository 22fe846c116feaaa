/* realloc moves many blocks. The heap must leave the program a part of the mappings that the system allows.
 *
 * Each block has one page in use. An allocator that copies instead of moving may make more pages resident; then the
 * program stops. argument: bytes of a block before it grows to twice as many */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trap.h"

enum { BLOCKS = 24000, MAPPINGS_MAX = 18000, OWN_MAPPINGS = 1000, RESIDENT_MAX_KIB = 1 << 20, LOOK_EVERY = 100 };

static void count_line(const char *line, void *argument) {
  (void)line;
  ++*(size_t *)argument;
}

static size_t mappings(void) {
  size_t lines = 0;
  trap_each_line("/proc/self/maps", count_line, &lines);
  return lines;
}

static void *nothing(void *argument) {
  return argument;
}

static void own_mappings(void) {
  pthread_t thread;
  for (int i = 0; i < OWN_MAPPINGS; i++) {
    int protection = i % 2 ? PROT_READ : PROT_READ | PROT_WRITE; /* neighbours that the kernel cannot join */
    CHECK(mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
  }
  CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

int main(int count, char **arguments) {
  static char *blocks[BLOCKS];
  CHECK(count == 2);
  size_t bytes = strtoul(arguments[1], NULL, 10), moved = 0;
  trap_watchdog(60);
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(bytes);
    CHECK(blocks[i] != NULL);
    blocks[i][0] = (char)i;
    if (i % LOOK_EVERY == 0 && trap_rss_kib() > RESIDENT_MAX_KIB / 2) {
      trap_skip("the blocks themselves take too much memory");
    }
  }
  for (; moved < BLOCKS && (moved % LOOK_EVERY != 0 || trap_rss_kib() < RESIDENT_MAX_KIB); moved++) {
    blocks[moved] = hak_realloc(blocks[moved], 2 * bytes);
    CHECK(blocks[moved] != NULL);
    CHECK(blocks[moved][0] == (char)moved);
  }
  size_t lines = mappings();
  printf("%zu moves, %zu mappings, %zu KiB resident\n", moved, lines, trap_rss_kib());
  CHECK(lines < MAPPINGS_MAX);
  own_mappings();
  for (size_t i = 0; i < BLOCKS; i++) {
    hak_free(blocks[i]);
  }
  return 0;
}
