/* pressed SECONDS FILE ROW: the heap stays at 95 to 100 % of its limit while blocks come and go. The count of the limit
 * is within 1 % of the bytes that the kernel counts, in the mean: ROW of FILE ("anon" of memory.stat, "Anonymous:" of
 * /proc/self/smaps_rollup). */
#include "check.h"
#include "hakmem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKS = 1 << 16, SPENT_MS = 15, ROUND_MS = 100, ROUNDS = 30 };

static hak_region_t *process;
static struct {
  void *block;
  size_t bytes;
} all[BLOCKS];
static size_t first, last; /* the oldest block, and behind the newest */
static unsigned long asked, seed = 1, refused;

static unsigned long draw(void) {
  seed = seed * 6364136223846793005UL + 1442695040888963407UL;
  return seed >> 33;
}

/* Up to 8 KiB, and now and then up to 1 MiB. */
static size_t draw_bytes(void) {
  return draw() % 100 == 0 ? draw() % (1 << 20) + 1 : (draw() % 8192 >> draw() % 8) + 1;
}

static void drop_oldest(void) {
  hak_free(all[first % BLOCKS].block);
  first++;
}

static bool on_limit(hak_region_t *region, size_t bytes, hak_region_limit_kind_t limit, void *unused) {
  (void)unused;
  CHECK(region == process && limit == HAK_REGION_HARD);
  asked++;
  size_t freed = 0;
  for (; first < last && freed < 4 * bytes + 65536; drop_oldest()) {
    freed += all[first % BLOCKS].bytes;
  }
  return true;
}

static void add(void) {
  size_t bytes = draw_bytes();
  if (last - first == BLOCKS) {
    drop_oldest();
  }
  char *block = hak_malloc(bytes);
  if (!block) { /* what was freed did not fit together */
    refused++;
    return;
  }
  memset(block, 1, hak_malloc_usable_size(block)); /* the count has the whole pages of a block */
  all[last % BLOCKS].block = block;
  all[last % BLOCKS].bytes = bytes;
  last++;
}

static double now_ms(clockid_t clock) {
  struct timespec now;
  CHECK(clock_gettime(clock, &now) == 0);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* In bytes. */
static double read_row(const char *file, const char *name) {
  char row[256];
  double number = -1;
  FILE *stream = fopen(file, "r");
  CHECK(stream);
  while (number < 0 && fgets(row, sizeof row, stream)) {
    size_t length = strlen(name);
    if (strncmp(row, name, length) == 0 && strchr(" \t", row[length])) {
      number = strtod(row + length, NULL) * (strstr(row, "kB") ? 1024 : 1);
    }
  }
  fclose(stream);
  CHECK(number >= 0);
  return number;
}

int main(int argc, char **argv) {
  CHECK(argc == 4);
  process = hak_region_process();
  hak_region_on_limit(process, on_limit, NULL);
  double end = now_ms(CLOCK_MONOTONIC) + strtod(argv[1], NULL) * 1e3, least = 1e9, worst = 0, sum = 0;
  int rounds = 0;
  bool full = false;
  while (rounds < ROUNDS || now_ms(CLOCK_MONOTONIC) < end) { /* a busy machine only makes them slow */
    double stop = now_ms(CLOCK_PROCESS_CPUTIME_ID) + SPENT_MS;
    while (!full || now_ms(CLOCK_PROCESS_CPUTIME_ID) < stop) {
      for (int i = 0; i < 100; i++) {
        add();
      }
      full |= asked > 0;
    }
    hak_region_usage_t usage;
    CHECK(hak_region_usage(process, &usage) && usage.limit_bytes > 0);
    double anon = read_row(argv[2], argv[3]), used = (double)usage.used_bytes;
    double share = used / (double)usage.limit_bytes, off = used > anon ? used / anon - 1 : anon / used - 1;
    least = share < least ? share : least;
    worst = off > worst ? off : worst;
    sum += off;
    rounds++;
    nanosleep(&(struct timespec){0, (ROUND_MS - SPENT_MS) * 1000000L}, NULL);
  }
  printf("asked %lu times, refused %lu; at least %.2f %% of the limit; count and pages differ by %.2f %%, at most %.2f "
         "%%\n",
         asked, refused, least * 100, sum / rounds * 100, worst * 100);
  fflush(stdout);
  CHECK(asked > 10 && refused < asked);
  CHECK(least >= 0.95 && sum / rounds <= 0.01 && worst <= 0.03);
  return 0;
}
