// Programs that work on large buffers.
#include "retention.h"

// An image passes through stages; each stage reads the previous buffer and writes a new one. Images differ in size.
static void run_images(const pattern_t *pattern) {
  enum { STAGES = 5 };
  uint64_t random = bench_seed(51);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    uint64_t bytes = sizes_draw(pattern->sizes, &random);
    measure_cycle_begin();
    char *before = bench_filled(bytes / 8), *mask = bench_filled(bytes / 3);
    for (uint32_t stage = 0; stage < STAGES; stage++) {
      char *after = bench_filled(stage % 2 == 0 ? bytes : bytes / 2);
      free(before);
      before = after;
    }
    free(mask);
    free(before);
    measure_cycle_end();
  }
}

// Frames of one size wait in a queue; every frame takes some scratch buffers. Streams of three resolutions in turn.
static void run_video(const pattern_t *pattern) {
  enum { QUEUE = 24, FRAMES = 120, SCRATCH = 3 };
  static const uint32_t resolutions[] = {MIB, 12 * MIB, 3 * MIB};
  char *queue[QUEUE] = {0};
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    uint64_t bytes = scaled(resolutions[round % 3]);
    measure_cycle_begin();
    for (uint32_t frame = 0; frame < FRAMES; frame++) {
      char *scratch[SCRATCH];
      for (uint32_t i = 0; i < SCRATCH; i++)
        scratch[i] = bench_filled(bytes / (2 + i));
      free(queue[frame % QUEUE]);
      queue[frame % QUEUE] = bench_filled(bytes);
      for (uint32_t i = 0; i < SCRATCH; i++)
        free(scratch[i]);
    }
    for (uint32_t i = 0; i < QUEUE; i++) {
      free(queue[i]);
      queue[i] = NULL;
    }
    measure_cycle_end();
  }
}

// Expressions over matrices of 8 MB: r = (a + b) * c - a. Each operator allocates a temporary matrix.
static void run_matrix(const pattern_t *pattern) {
  enum { EXPRESSIONS = 10, BYTES = 8 * 1000 * 1000 };
  uint64_t bytes = scaled(BYTES);
  char *a = bench_filled(bytes), *b = bench_filled(bytes), *c = bench_filled(bytes);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    for (uint32_t i = 0; i < EXPRESSIONS; i++) {
      char *sum = bench_filled(bytes), *product = bench_filled(bytes);
      free(sum);
      char *result = bench_filled(bytes);
      free(product);
      free(a);
      a = b;
      b = c;
      c = result;
    }
    measure_cycle_end();
  }
  free(a);
  free(b);
  free(c);
}

// Compressor streams, closed and opened again at random. Each has a state and windows of fixed sizes, and an output
// buffer that doubles as it grows.
static void run_windows(const pattern_t *pattern) {
  enum { PARTS = 6, STREAMS = 64, TURNS = 200 };
  static const uint32_t parts[PARTS] = {5936, 64 * KIB, 64 * KIB, 128 * KIB, 64 * KIB, 32 * KIB};
  static char *streams[STREAMS][PARTS];
  uint64_t random = bench_seed(52);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    uint32_t open = 8u << round % 4;
    for (uint32_t turn = 0; turn < TURNS; turn++) {
      char **stream = streams[bench_random(&random, open)];
      for (uint32_t part = 0; part < PARTS; part++) {
        free(stream[part]);
        stream[part] = bench_filled(parts[part]);
      }
      char *output = NULL;
      for (uint64_t bytes = 16 * KIB; bytes <= 64u * KIB << bench_random(&random, 4); bytes *= 2) {
        free(output);
        output = bench_filled(bytes);
      }
      free(output);
    }
    for (uint32_t i = 0; i < STREAMS * PARTS; i++) {
      free(streams[i / PARTS][i % PARTS]);
      streams[i / PARTS][i % PARTS] = NULL;
    }
    measure_cycle_end();
  }
}

// Several vectors grow in turn by a factor, given in percent; then all are freed.
static void grow_vectors(const pattern_t *pattern, uint64_t factor_percent) {
  enum { VECTORS = 8, FIRST = 256 };
  uint64_t most = pattern_bytes(pattern) / VECTORS;
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    char *vectors[VECTORS] = {0};
    measure_cycle_begin();
    for (uint64_t bytes = FIRST, filled = 0; bytes <= most; filled = bytes, bytes = bytes * factor_percent / PERCENT)
      for (uint32_t i = 0; i < VECTORS; i++) {
        char *grown = realloc(vectors[i], bytes);
        if (grown == NULL)
          bench_fail("retention: realloc returned NULL");
        memset(grown + filled, 1, bytes - filled);
        vectors[i] = grown;
      }
    for (uint32_t i = 0; i < VECTORS; i++)
      free(vectors[i]);
    measure_cycle_end();
  }
}

static void run_vectors_double(const pattern_t *pattern) {
  grow_vectors(pattern, 2 * PERCENT);
}

static void run_vectors_half(const pattern_t *pattern) {
  grow_vectors(pattern, PERCENT + PERCENT / 2);
}

typedef struct entry {
  struct entry *next;
  uint64_t key;
  char value[40];
} entry_t;

// A chained hash table that doubles its slots when it is full; each cycle builds it and frees it.
static void run_rehash(const pattern_t *pattern) {
  enum { FIRST_SLOTS = 1024 };
  uint64_t entries = pattern_bytes(pattern) / (sizeof(entry_t) + 2 * sizeof(void *)), random = bench_seed(53);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    uint64_t slots = FIRST_SLOTS;
    entry_t **table = calloc(slots, sizeof(void *));
    for (uint64_t count = 0; table != NULL && count < entries; count++) {
      if (count == slots) {
        entry_t **grown = calloc(2 * slots, sizeof(void *));
        for (uint64_t slot = 0; grown != NULL && slot < slots; slot++)
          for (entry_t *entry = table[slot], *next; entry != NULL; entry = next) {
            next = entry->next;
            entry->next = grown[entry->key % (2 * slots)];
            grown[entry->key % (2 * slots)] = entry;
          }
        free(table);
        table = grown;
        slots *= 2;
        if (table == NULL)
          break;
      }
      entry_t *entry = bench_malloc(sizeof *entry);
      uint64_t key = bench_next(&random);
      *entry = (entry_t){table[key % slots], key, {0}};
      table[key % slots] = entry;
    }
    for (uint64_t slot = 0; table != NULL && slot < slots; slot++)
      for (entry_t *entry = table[slot], *next; entry != NULL; entry = next) {
        next = entry->next;
        free(entry);
      }
    free(table);
    measure_cycle_end();
  }
}

// An external sort: first runs of records with an array of pointers to them, then a merge through large buffers.
static void run_sort(const pattern_t *pattern) {
  enum { RUNS = 4, MERGE_BUFFERS = 16 };
  static const sizes_t record = {40, 400, true};
  uint64_t peak = pattern_bytes(pattern);
  bag_t records = bag_for(peak, record, 54);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    for (uint32_t run = 0; run < RUNS; run++) {
      bag_fill(&records, peak * 9 / 10, record);
      char *pointers = bench_filled(records.count * sizeof(void *));
      bag_drain(&records, 0, ANY);
      free(pointers);
    }
    char *buffers[MERGE_BUFFERS];
    for (uint32_t i = 0; i < MERGE_BUFFERS; i++)
      buffers[i] = bench_filled(peak / 2 / MERGE_BUFFERS);
    for (uint32_t i = 0; i < MERGE_BUFFERS; i++)
      free(buffers[i]);
    measure_cycle_end();
  }
  bag_close(&records);
}

const pattern_t data_patterns[] = {
    {.name = "images",
     .run = run_images,
     .rounds = 60,
     .sizes = {3 * MIB, 30 * MIB, true},
     .what = "images of 3-30 MiB pass through five stages"},
    {.name = "video",
     .run = run_video,
     .rounds = 6,
     .what = "streams of 1, 12 and 3 MiB a frame in turn, 24 frames queued"},
    {.name = "matrix", .run = run_matrix, .rounds = 20, .what = "expressions over matrices of 8 MB with temporaries"},
    {.name = "windows", .run = run_windows, .rounds = 24, .what = "8-64 compressor streams with windows and outputs"},
    {.name = "vectors-double",
     .run = run_vectors_double,
     .mib = 256,
     .rounds = 5,
     .what = "8 vectors double to 32 MiB side by side, freed, again"},
    {.name = "vectors-half",
     .run = run_vectors_half,
     .mib = 256,
     .rounds = 5,
     .what = "8 vectors grow by half to 32 MiB side by side, freed, again"},
    {.name = "rehash", .run = run_rehash, .mib = 80, .rounds = 4, .what = "a hash table of 80 MiB, built and dropped"},
    {.name = "sort",
     .run = run_sort,
     .mib = 100,
     .rounds = 2,
     .what = "sorts runs of 100 MiB, then merges through buffers"},
    {0},
};
