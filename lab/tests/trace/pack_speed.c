// pack_speed random|handed|shared LIVE MILLION [FILE]: measures the time of packing; all words are made before.
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pack/pack.h"

#define NS_PER_CLOCK 20
#define OPERATION_NS 25
#define CLASSES 64
#define SLICE_NS 200000

typedef struct {
  uint64_t *words;
  size_t count;
  unsigned since;
} stream_t;

typedef struct {
  uint64_t *addresses;
  size_t count, capacity;
} list_t;

typedef struct {
  uint64_t address;
  unsigned class;
} block_t;

static stream_t streams[2];
static list_t free_lists[2][CLASSES];
static uint64_t now, random_state = 1, fresh;

static uint64_t below(uint64_t limit) {
  uint64_t x = random_state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return (x ^ x >> 31) % limit;
}

static void word(unsigned thread, uint64_t value) {
  stream_t *stream = &streams[thread];
  if (stream->since++ % 32 == 0) {
    stream->words[stream->count++] = raw_word(now / NS_PER_CLOCK, RAW_SIZE_LIMIT + RAW_TIME);
  }
  stream->words[stream->count++] = value;
  now += below(2 * OPERATION_NS);
}

static block_t allocate(unsigned thread) {
  unsigned class = (unsigned)(below(CLASSES) * below(CLASSES) / CLASSES);
  list_t *list = &free_lists[thread][class];
  uint64_t address = list->count > 0 ? list->addresses[--list->count] : (fresh += 2 * (class + 1));
  word(thread, raw_word(address, (uint32_t)(16 * class + 1 + below(16))));
  return (block_t){address, class};
}

static void release(unsigned thread, unsigned shelf, block_t block) {
  list_t *list = &free_lists[shelf][block.class];
  word(thread, raw_word(block.address, RAW_SIZE_LIMIT + RAW_FREE));
  if (list->count == list->capacity) {
    list->capacity = list->capacity ? 2 * list->capacity : 64;
    list->addresses = realloc(list->addresses, list->capacity * sizeof(uint64_t));
  }
  list->addresses[list->count++] = block.address;
}

// Makes the words. handed: one thread frees the other's blocks in order; else threads free random blocks of their own.
static void make(const char *kind, size_t live, size_t operations) {
  block_t *blocks = calloc(live, sizeof *blocks);
  for (unsigned i = 0; i < 2; i++) {
    streams[i].words = malloc((operations + operations / 16 + 64) * sizeof(uint64_t));
  }
  bool handed = strcmp(kind, "handed") == 0;
  bool shared = strcmp(kind, "shared") == 0;
  for (size_t i = 0; i < operations / 2; i++) {
    size_t at = handed ? i % live : below(live);
    unsigned thread = shared ? at & 1 : 0;
    if (blocks[at].address != 0) {
      release(handed ? 1 : thread, thread, blocks[at]);
    }
    blocks[at] = allocate(thread);
  }
  free(blocks);
}

static double cpu_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

// Sets ends[i] to the number of words that the thread has written by the end of time slice i.
static void cuts(const stream_t *stream, size_t *ends, size_t slices) {
  size_t at = 0;
  for (size_t i = 0; i < slices; i++) {
    uint64_t clock = (i + 1) * SLICE_NS / NS_PER_CLOCK;
    while (at < stream->count &&
           ((stream->words[at] & 0xfffff) != RAW_SIZE_LIMIT + RAW_TIME || stream->words[at] >> RAW_CODE_BITS < clock)) {
      at++;
    }
    ends[i] = at;
  }
}

static int pack_all(pack_t *pack, size_t *const ends[2], size_t slices) {
  for (size_t i = 0; i < slices; i++) {
    for (uint32_t j = 0; j < 2; j++) {
      size_t from = i > 0 ? ends[j][i - 1] : 0;
      if (ends[j][i] > from && pack_words(pack, 0, j, streams[j].words + from, ends[j][i] - from) != 0) {
        return -1;
      }
    }
    if (pack_advance(pack, 0, (i + 1) * SLICE_NS / NS_PER_CLOCK) != 0) {
      return -1;
    }
  }
  return pack_process_end(pack, 0);
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: pack_speed random|handed|shared LIVE MILLION [FILE]\n");
    return 2;
  }
  make(argv[1], strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10) * 1000000);
  size_t slices = now / SLICE_NS + 1;
  size_t *ends[2] = {malloc(slices * sizeof(size_t)), malloc(slices * sizeof(size_t))};
  cuts(&streams[0], ends[0], slices);
  cuts(&streams[1], ends[1], slices);
  int fd = open(argc > 4 ? argv[4] : "/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  trace_writer_t *writer = trace_writer_open(fd);
  pack_t *pack = pack_open(writer, NS_PER_CLOCK);
  double begin = cpu_seconds();
  if (!pack || pack_process(pack, -1, 0) != 0 || pack_all(pack, ends, slices) != 0) {
    perror("pack_speed");
    return 1;
  }
  pack_counts_t counts;
  pack_counts(pack, 0, &counts);
  pack_close(pack);
  trace_writer_close(writer, true, "{}", 2);
  double seconds = cpu_seconds() - begin;
  double bytes = argc > 4 ? (double)lseek(fd, 0, SEEK_END) : 0;
  size_t words = streams[0].count + streams[1].count;
  printf("words_per_second=%.1fM operations=%lu bytes_per_operation=%.3f handed_over=%lu unknown=%lu lost=%lu\n",
         (double)words / seconds / 1e6, (unsigned long)counts.operations, bytes / (double)counts.operations,
         (unsigned long)counts.handed_over, (unsigned long)counts.unknown_frees, (unsigned long)counts.lost_frees);
  return 0;
}
