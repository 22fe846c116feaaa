/* A program in a steady state does not grow, however long it runs. This holds for its resident memory, its address
 * space, its number of mappings, and the allocator's own memory. arguments: a pattern of requests, below */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "prng.h"
#include "trap.h"

enum { SLOTS = 40, THREADS = 3, RSS_MAX_KIB = 1000, SPACE_MAX_KIB = 8 << 10, MAPPINGS_MAX = 10 };
#define MIB ((size_t)1 << 20)

typedef struct {
  size_t space_kib, rss_kib, mappings;
} Size;

static void add_line(const char *line, void *argument) {
  Size *size = argument;
  unsigned long begin, end;
  if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) {
    size->mappings++;
    size->space_kib += (end - begin) >> 10;
  }
}

/* Measures the memory without the part that is retained for later requests. */
static Size measure(void) {
  HAK(hak_trim)(0);
  Size size = {0, trap_rss_kib(), 0};
  trap_each_line("/proc/self/maps", add_line, &size);
  return size;
}

/* Only the ends are written, since page faults take time. */
static void *take(size_t bytes) {
  char *block = hak_malloc(bytes);
  CHECK(block != NULL);
  block[0] = block[bytes - 1] = 1;
  return block;
}

static void one_block(Prng *prng, size_t rounds) {
  (void)prng;
  for (size_t i = 0; i < rounds * 40; i++) {
    hak_free(take(200 * MIB));
  }
}

static void bursts(Prng *prng, size_t rounds) {
  for (size_t i = 0; i < rounds; i++) {
    void *blocks[20];
    for (size_t k = 0; k < 20; k++) {
      blocks[k] = take(5 * MIB + prng_below(prng, 55 << 20));
    }
    for (size_t k = 0; k < 20; k++) {
      hak_free(blocks[k]);
    }
  }
}

/* Blocks of any size that live for any time, some of them aligned. */
static void pool(Prng *prng, size_t rounds, size_t low, size_t high) {
  void *blocks[SLOTS] = {NULL};
  for (size_t i = 0; i < rounds * 20; i++) {
    void **slot = &blocks[prng_below(prng, SLOTS)];
    hak_free(*slot);
    *slot = NULL;
    if (prng_below(prng, 10) == 0) {
      CHECK(hak_posix_memalign(slot, 4 * MIB, low) == 0);
    } else if (prng_below(prng, 2) == 0) {
      *slot = take(low + prng_below(prng, (uint32_t)(high - low)));
    }
  }
  for (size_t i = 0; i < SLOTS; i++) {
    hak_free(blocks[i]);
  }
}

static void mixed(Prng *prng, size_t rounds) {
  pool(prng, rounds * 3, MIB, 40 * MIB);
}

static void small_too(Prng *prng, size_t rounds) {
  pool(prng, rounds * 5, 100, 3 * MIB);
}

static void growing(Prng *prng, size_t rounds) {
  for (size_t i = 0; i < rounds; i++) {
    char *block = NULL;
    for (size_t bytes = MIB; bytes < 100 * MIB; bytes += MIB + prng_below(prng, 8 << 20)) {
      block = hak_realloc(block, bytes);
      CHECK(block != NULL);
      block[bytes - 1] = 1;
    }
    hak_free(block);
  }
}

/* The program maps memory of its own, perhaps at addresses that the heap used before. */
static void beside_mappings(Prng *prng, size_t rounds) {
  enum { OWN = 16 };
  void *own[OWN] = {NULL};
  size_t bytes[OWN] = {0};
  for (size_t i = 0; i < rounds * 40; i++) {
    size_t k = prng_below(prng, OWN);
    void *first = take(MIB + prng_below(prng, 30 << 20)), *second = take(MIB + prng_below(prng, 30 << 20));
    hak_free(first);
    if (bytes[k]) {
      CHECK(munmap(own[k], bytes[k]) == 0);
    }
    bytes[k] = (1 + prng_below(prng, 5000)) * 4096;
    own[k] = mmap(NULL, bytes[k], PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(own[k] != MAP_FAILED);
    hak_free(second);
  }
  for (size_t k = 0; k < OWN; k++) {
    munmap(own[k], bytes[k]);
  }
}

static void *one_thread(void *argument) {
  Prng prng = {(uint64_t)(uintptr_t)argument};
  pool(&prng, 200, MIB, 20 * MIB);
  return NULL;
}

static void threads(Prng *prng, size_t rounds) {
  for (size_t i = 0; i < rounds; i += 50) {
    pthread_t ids[THREADS];
    for (size_t k = 0; k < THREADS; k++) {
      CHECK(pthread_create(&ids[k], NULL, one_thread, hide_pointer((const void *)(uintptr_t)(prng_next(prng) | 1))) ==
            0);
    }
    for (size_t k = 0; k < THREADS; k++) {
      CHECK(pthread_join(ids[k], NULL) == 0);
    }
  }
}

static const struct {
  const char *name;
  void (*run)(Prng *prng, size_t rounds);
} patterns[] = {{"one_block", one_block}, {"bursts", bursts},   {"mixed", mixed},
                {"small_too", small_too}, {"growing", growing}, {"beside_mappings", beside_mappings},
                {"threads", threads}};

int main(int count, char **arguments) {
  Prng prng = {7};
  CHECK(count == 2);
  trap_watchdog(90);
  size_t at = 0;
  while (strcmp(patterns[at].name, arguments[1]) != 0) {
    CHECK(++at < sizeof patterns / sizeof *patterns);
  }
  patterns[at].run(&prng, 60);
  Size before = measure();
  patterns[at].run(&prng, 240);
  Size after = measure();
  printf("%zu -> %zu KiB of addresses, %zu -> %zu KiB resident, %zu -> %zu mappings\n", before.space_kib,
         after.space_kib, before.rss_kib, after.rss_kib, before.mappings, after.mappings);
  /* The number of chunks that the caches of ended threads pin depends on the scheduler. It stays within 32 to 90 MiB of
   * addresses in 44 to 68 mappings, even after 40 times as many rounds. */
  size_t by_chance_kib = patterns[at].run == threads ? 80 << 10 : 0, by_chance = patterns[at].run == threads ? 20 : 0;
  CHECK(after.space_kib <= before.space_kib + SPACE_MAX_KIB + by_chance_kib);
  CHECK(after.rss_kib <= before.rss_kib + RSS_MAX_KIB);
  CHECK(after.mappings <= before.mappings + MAPPINGS_MAX + by_chance);
  return 0;
}
