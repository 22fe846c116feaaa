// Programs that work in phases or build structures of small blocks.
#include "retention.h"

// A compiler's units differ in size. Each allocates chunks of 64 KiB for nodes, with strings and lists between them,
// and frees everything at its end.
static void run_compiler(const pattern_t *pattern) {
  enum { CHUNK = 64 * KIB, NODES_A_CHUNK = 40, UNITS = 5 };
  static const uint32_t percents[UNITS] = {30, 100, 10, 60, 20};
  static const sizes_t small = {16, 512, false};
  uint64_t most = pattern_bytes(pattern);
  bag_t bag = bag_open(most / CHUNK * (NODES_A_CHUNK + 1) + KIB, 31);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    uint64_t bytes = most * percents[round % UNITS] / PERCENT;
    measure_cycle_begin();
    while (bag.live_bytes < bytes) {
      bag_add(&bag, CHUNK);
      for (uint32_t i = 0; i < NODES_A_CHUNK; i++)
        bag_add(&bag, sizes_draw(small, &bag.random));
    }
    bag_drain(&bag, 0, NEWEST);
    measure_cycle_end();
  }
  bag_close(&bag);
}

typedef struct json {
  struct json **children;
  char *text;
  uint32_t count;
  uint32_t room;
} json_t;

static json_t *json_new(uint64_t *random) {
  json_t *node = bench_malloc(sizeof *node);
  uint32_t length = bench_log_size(bench_next(random), 8, 5);
  *node = (json_t){.text = bench_touched(length)};
  return node;
}

static void json_append(json_t *parent, json_t *child) {
  if (parent->count == parent->room) {
    parent->room = parent->room == 0 ? 4 : 2 * parent->room;
    parent->children = realloc(parent->children, parent->room * sizeof(json_t *));
    if (parent->children == NULL)
      bench_fail("retention: realloc returned NULL");
  }
  parent->children[parent->count++] = child;
}

static void json_free(json_t *node) {
  for (uint32_t i = 0; i < node->count; i++)
    json_free(node->children[i]);
  free(node->children);
  free(node->text);
  free(node);
}

// Each document takes from a tenth of the memory to all of it. It has lists of records, and records have fields. The
// parser also holds the text while it builds the document.
static void run_json(const pattern_t *pattern) {
  enum { NODE_BYTES = 150, FIELDS = 9, LISTS = 16 };
  uint64_t random = bench_seed(32);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    uint64_t bytes = pattern_bytes(pattern) * (1 + bench_random(&random, 10)) / 10;
    measure_cycle_begin();
    char *text = bench_filled(bytes / 3);
    json_t *root = json_new(&random);
    for (uint32_t i = 0; i < LISTS; i++)
      json_append(root, json_new(&random));
    for (uint64_t record = 0; record < bytes / (NODE_BYTES * (FIELDS + 1)); record++) {
      json_t *node = json_new(&random);
      for (uint32_t field = 0; field < FIELDS; field++)
        json_append(node, json_new(&random));
      json_append(root->children[bench_random(&random, LISTS)], node);
    }
    free(text);
    json_free(root);
    measure_cycle_end();
  }
}

// Each document is a text that grows by realloc, piece by piece; it then replaces an older document.
static void run_strings(const pattern_t *pattern) {
  enum { PIECES = 2000, PIECE_DOUBLINGS = 6, DOCUMENTS = 16 };
  uint64_t random = bench_seed(33), most = pattern_bytes(pattern) / DOCUMENTS;
  char *documents[DOCUMENTS] = {0};
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    for (uint32_t document = 0; document < DOCUMENTS; document++) {
      uint64_t length = 0, end = bench_log_size(bench_next(&random), (uint32_t)(most / 16), 4);
      char *text = NULL;
      while (length < end) {
        uint64_t piece = bench_log_size(bench_next(&random), (uint32_t)(end / PIECES + 1), PIECE_DOUBLINGS);
        char *grown = realloc(text, length + piece);
        if (grown == NULL)
          bench_fail("retention: realloc returned NULL");
        text = grown;
        memset(text + length, 'x', piece);
        length += piece;
      }
      free(documents[document]);
      documents[document] = text;
    }
    measure_cycle_end();
  }
  for (uint32_t document = 0; document < DOCUMENTS; document++)
    free(documents[document]);
}

// A game loads a level's assets, then allocates a little in each frame. A tenth of the assets stays for the next level.
static void run_levels(const pattern_t *pattern) {
  enum { FRAMES = 100 };
  static const sizes_t assets[] = {{256, 16 * KIB, false}, {64 * KIB, 4 * MIB, false}, {4 * KIB, 256 * KIB, false}};
  static const sizes_t frame = {32, 8 * KIB, false};
  uint64_t peak = pattern_bytes(pattern);
  bag_t bag = bag_for(peak, assets[0], 34), work = bag_for(MIB, frame, 35);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    bag_fill(&bag, peak, assets[round % 3]);
    for (uint32_t i = 0; i < FRAMES; i++) {
      bag_fill(&work, MIB, frame);
      bag_drain(&work, 0, OLDEST);
    }
    bag_drain(&bag, peak / 10, ANY);
    measure_cycle_end();
  }
  bag_close(&work);
  bag_close(&bag);
}

// A garbage-collected runtime. The nursery is filled with chunks and freed, and its survivors are copied to the old
// space. When the old space is full, its survivors are copied to a new space before the old one is freed.
static void run_collector(const pattern_t *pattern) {
  enum { CHUNK = MIB, NURSERY = 16 };
  uint64_t limit = pattern_bytes(pattern) / CHUNK / 2;
  bag_t nursery = bag_open(NURSERY, 36), old = bag_open(limit + 2, 37), next = bag_open(limit + 2, 38);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    while (old.count < limit) {
      while (nursery.count < NURSERY)
        bag_add(&nursery, CHUNK);
      bag_add(&old, CHUNK);
      bag_add(&old, CHUNK);
      bag_drain(&nursery, 0, OLDEST);
    }
    while (next.count < limit / 3)
      bag_add(&next, CHUNK);
    bag_drain(&old, 0, OLDEST);
    bag_t emptied = old;
    old = next;
    next = emptied;
    measure_cycle_end();
  }
  bag_close(&nursery);
  bag_close(&old);
  bag_close(&next);
}

// Two programs in one process take turns: lists of small blocks, then large buffers.
static void run_alternate(const pattern_t *pattern) {
  static const sizes_t small = {32, 128, false}, large = {MIB, 4 * MIB, true};
  uint64_t peak = pattern_bytes(pattern);
  bag_t lists = bag_for(peak / 2, small, 39), buffers = bag_for(peak, large, 40);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    bag_fill(&lists, peak / 2, small);
    bag_drain(&lists, 0, OLDEST);
    bag_fill(&buffers, peak, large);
    bag_drain(&buffers, 0, OLDEST);
    measure_cycle_end();
  }
  bag_close(&lists);
  bag_close(&buffers);
}

// Every phase allocates blocks of another size, then frees blocks down to the part that the pattern keeps. A round
// visits all sizes.
static void run_phases(const pattern_t *pattern) {
  enum { SMALLEST = 64 };
  static const uint32_t lows[] = {200, 4096, 512, 131072, SMALLEST, 16384, 1500, 1048576, 700, 12288};
  uint64_t peak = pattern_bytes(pattern);
  bag_t bag = bag_open(peak / SMALLEST + KIB, 41);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    for (size_t i = 0; i < sizeof lows / sizeof *lows; i++) {
      bag_fill(&bag, peak, (sizes_t){lows[i], 2 * lows[i], true});
      bag_drain(&bag, peak * pattern->keep_percent / PERCENT, pattern->order);
    }
    measure_cycle_end();
  }
  bag_close(&bag);
}

const pattern_t program_patterns[] = {
    {.name = "compiler",
     .run = run_compiler,
     .mib = 200,
     .rounds = 16,
     .what = "units of 20-200 MiB, each freed at its end"},
    {.name = "json",
     .run = run_json,
     .mib = 80,
     .rounds = 6,
     .what = "documents of 8-80 MiB, parsed and freed as trees"},
    {.name = "strings",
     .run = run_strings,
     .mib = 128,
     .rounds = 10,
     .what = "texts that grow by pieces to 0.5-8 MiB, 16 live"},
    {.name = "levels",
     .run = run_levels,
     .mib = 250,
     .rounds = 12,
     .what = "a game: assets of other sizes every level"},
    {.name = "collector",
     .run = run_collector,
     .mib = 300,
     .rounds = 20,
     .what = "a collecting runtime of 1 MiB chunks"},
    {.name = "alternate",
     .run = run_alternate,
     .mib = 200,
     .rounds = 5,
     .what = "100 MiB of lists and 200 MiB of large buffers in turn"},
    {.name = "phases-64",
     .run = run_phases,
     .mib = 64,
     .rounds = 1,
     .order = OLDEST,
     .what = "64 MiB of another size in every phase, all freed between"},
    {.name = "phases-200",
     .run = run_phases,
     .mib = 200,
     .rounds = 1,
     .keep_percent = 10,
     .order = ANY,
     .what = "200 MiB of another size in every phase, a tenth stays"},
    {0},
};
