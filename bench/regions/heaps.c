// Ports in which blocks of several heaps live side by side.
#include "regions.h"

#include <pthread.h>

typedef struct {
  void *block;
  uint32_t bytes;
} entry_t;

// Every CACHE_EVERY blocks of a query, an entry of the cache replaces another.
enum { WAVES = 24, QUERY_BLOCKS = 40000, CACHE_BLOCKS = 20000, CACHE_EVERY = 8 };

static void caches(const side_t *side) {
  void **query = bench_map(QUERY_BLOCKS * sizeof(void *)), **cache = bench_map(CACHE_BLOCKS * sizeof(void *));
  uint64_t random = bench_seed(1), tables_kib = bench_rss_kib();
  void *heap = side->make();
  for (uint32_t wave = 0; wave < WAVES; wave++) {
    for (uint32_t i = 0; i < QUERY_BLOCKS; i++) {
      uint32_t bytes = bench_log_size(bench_next(&random), 32, 9);
      query[i] = bench_malloc(bytes);
      fill(query[i], bytes, wave);
      if (i % CACHE_EVERY != 0)
        continue;
      void **place = &cache[bench_random(&random, CACHE_BLOCKS)];
      free(*place);
      bytes = bench_log_size(bench_next(&random), 32, 6);
      *place = side_take(side, heap, bytes);
      fill(*place, bytes, wave);
    }
    for (uint32_t i = 0; i < QUERY_BLOCKS; i++)
      free(query[i]);
  }
  uint64_t peak_kib = bench_peak_kib();
  give_pages_back();
  uint64_t after_kib = bench_rss_kib();
  printf(" peak_kib=%llu after_kib=%llu", (unsigned long long)(peak_kib - tables_kib),
         (unsigned long long)(after_kib - tables_kib));
}

// Each stage copies what it gets into blocks of its own, then frees the others; the last one only reads them.
enum { STAGES = 3, BATCHES = 600, BATCH = 256, DEPTH = 4 };

typedef struct {
  entry_t items[BATCH];
} batch_t;

static struct stage {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  batch_t *waiting; // DEPTH of them
  uint32_t put, got;
  void *heap;
  uint64_t gauge;
} stages[STAGES];
static const side_t *pipeline_side;

static void pass_on(struct stage *stage, const batch_t *batch) {
  pthread_mutex_lock(&stage->lock);
  while (stage->put - stage->got == DEPTH)
    pthread_cond_wait(&stage->changed, &stage->lock);
  stage->waiting[stage->put++ % DEPTH] = *batch;
  pthread_cond_signal(&stage->changed);
  pthread_mutex_unlock(&stage->lock);
}

static void receive(struct stage *stage, batch_t *batch) {
  pthread_mutex_lock(&stage->lock);
  while (stage->put == stage->got)
    pthread_cond_wait(&stage->changed, &stage->lock);
  *batch = stage->waiting[stage->got++ % DEPTH];
  pthread_cond_signal(&stage->changed);
  pthread_mutex_unlock(&stage->lock);
}

// A hash of each byte: about 1 ns a byte, as for parsing or encoding.
static uint64_t work_on(const entry_t *item) {
  uint64_t hash = 0xcbf29ce484222325u;
  const unsigned char *bytes = item->block;
  for (uint32_t i = 0; i < item->bytes; i++)
    hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

static void step(struct stage *stage, batch_t *batch, bool first, bool last, uint64_t *random) {
  for (uint32_t i = 0; i < BATCH; i++) {
    entry_t *item = &batch->items[i], in = *item;
    if (first)
      in.bytes = bench_log_size(bench_next(random), 64, 6);
    if (!last) {
      item->block = side_take(pipeline_side, stage->heap, in.bytes);
      item->bytes = in.bytes;
      if (first)
        fill(item->block, in.bytes, i);
      else
        memcpy(item->block, in.block, in.bytes);
    }
    stage->gauge += work_on(item) & 1;
    if (!first)
      free(in.block);
  }
  if (!last && pipeline_side->live != NULL)
    stage->gauge += pipeline_side->live(stage->heap);
}

static void *stage_main(void *argument) {
  struct stage *stage = argument;
  static _Thread_local batch_t batch;
  bool first = stage == stages, last = stage == stages + STAGES - 1;
  uint64_t random = bench_seed(1);
  for (uint32_t n = 0; n < BATCHES; n++) {
    if (!first)
      receive(stage, &batch);
    step(stage, &batch, first, last, &random);
    if (!last)
      pass_on(stage + 1, &batch);
  }
  return NULL;
}

static void pipeline(const side_t *side) {
  pthread_t ids[STAGES];
  pipeline_side = side;
  for (uint32_t i = 0; i < STAGES; i++) {
    pthread_mutex_init(&stages[i].lock, NULL);
    pthread_cond_init(&stages[i].changed, NULL);
    stages[i].waiting = bench_map(DEPTH * sizeof(batch_t));
    stages[i].heap = side->make();
  }
  for (uint32_t i = 0; i < STAGES; i++)
    if (pthread_create(&ids[i], NULL, stage_main, &stages[i]) != 0)
      bench_fail("regions: cannot create a thread");
  for (uint32_t i = 0; i < STAGES; i++)
    pthread_join(ids[i], NULL);
}

// As free-threaded CPython: memory, objects, and two heaps of objects that its collector visits. Most objects die
// young: of eight that are replaced, seven are among the last YOUNG ones.
enum { HEAPS = 4, WALKED = 2, OBJECTS = 50000, CYCLES = 20, REPLACED = 200000, YOUNG = 2000 };

static void walk(const side_t *side) {
  entry_t *objects = bench_map((size_t)HEAPS * OBJECTS * sizeof *objects);
  uint64_t random = bench_seed(1), tables_kib = bench_rss_kib(), walk_ns = 0;
  void *heaps[HEAPS];
  sum_t sum = {0};
  for (uint32_t i = 0; i < HEAPS; i++)
    heaps[i] = side->make();
  for (uint32_t cycle = 0; cycle < CYCLES; cycle++) {
    for (uint32_t i = 0; i < REPLACED; i++) {
      uint32_t at = bench_random(&random, i % 8 == 0 ? HEAPS * OBJECTS : YOUNG);
      free(objects[at].block);
      objects[at].bytes = 16 + 16 * bench_random(&random, bench_random(&random, 2) ? 6 : 32);
      objects[at].block = side_take(side, heaps[at % HEAPS], objects[at].bytes);
      fill(objects[at].block, objects[at].bytes, i);
    }
    uint64_t start = thread_ns();
    for (uint32_t i = 0; side->walk != NULL && i < WALKED; i++)
      side->walk(heaps[i], &sum);
    walk_ns += thread_ns() - start;
  }
  printf(" walk_ns_block=%.2f blocks=%llu peak_kib=%llu", (double)walk_ns / (double)(sum.blocks + 1),
         (unsigned long long)sum.blocks, (unsigned long long)(bench_peak_kib() - tables_kib));
}

// As a cache of short values of which most are evicted; then blocks of sparse slabs move, in some passes.
enum { VALUES = 800000, KEPT_PERCENT = 25, PASSES = 4, SPARSE_PERCENT = 85 };

static uint64_t move_all(const side_t *side, entry_t *values) {
  uint64_t moved = 0;
  for (uint32_t i = 0; i < VALUES; i++) {
    entry_t *value = &values[i];
    void *fresh = value->block ? side->move_to(value->block, value->bytes, SPARSE_PERCENT) : NULL;
    if (fresh == NULL)
      continue;
    memcpy(fresh, value->block, value->bytes);
    if (side->move_done)
      side->move_done(value->block);
    else
      free(value->block);
    value->block = fresh;
    moved++;
  }
  if (side->move_done)
    side->move_done(NULL);
  return moved;
}

static void defrag(const side_t *side) {
  if (side->move_to == NULL)
    bench_fail("regions: this library does not tell how full a slab is");
  entry_t *values = bench_map(VALUES * sizeof *values);
  uint64_t random = bench_seed(1), tables_kib = bench_rss_kib(), live = 0, moved = 0;
  for (uint32_t i = 0; i < VALUES; i++) {
    values[i].bytes = 40 + bench_random(&random, 110);
    values[i].block = bench_malloc(values[i].bytes);
    fill(values[i].block, values[i].bytes, i);
  }
  uint64_t full_kib = bench_rss_kib();
  for (uint32_t i = 0; i < VALUES; i++) {
    bool kept = bench_random(&random, 100) < KEPT_PERCENT;
    live += kept ? values[i].bytes : 0;
    if (!kept) {
      free(values[i].block);
      values[i].block = NULL;
    }
  }
  give_pages_back();
  uint64_t evicted_kib = bench_rss_kib(), start = process_ns();
  for (uint32_t pass = 0; pass < PASSES; pass++)
    moved += move_all(side, values);
  uint64_t move_ns = process_ns() - start;
  give_pages_back();
  uint64_t after_kib = bench_rss_kib();
  printf(" live_kib=%llu full_kib=%llu evicted_kib=%llu after_kib=%llu moved=%llu move_ms=%.1f",
         (unsigned long long)live / 1024, (unsigned long long)(full_kib - tables_kib),
         (unsigned long long)(evicted_kib - tables_kib), (unsigned long long)(after_kib - tables_kib),
         (unsigned long long)moved, (double)move_ns / 1e6);
}

const port_t heap_ports[] = {
    {"caches", caches}, {"pipeline", pipeline}, {"walk", walk}, {"defrag", defrag}, {NULL, NULL}};
