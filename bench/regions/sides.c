// Each side takes its functions from the preloaded library by name, so one binary measures all.
#include "regions.h"

#include <dlfcn.h>
#include <unistd.h>

#include "hakmem.h"

enum { NAME_BYTES = 64, SPARE_BYTES = 1 << 20 };

static void *symbol(const char *name) {
  return dlsym(RTLD_DEFAULT, name);
}

static void *plain_take(void *heap, size_t bytes) {
  (void)heap;
  return malloc(bytes);
}

// hakmem

static struct {
  hak_region_t *(*make)(const hak_region_options_t *options);
  void *(*take)(hak_region_t *region, size_t bytes);
  void (*destroy)(hak_region_t *region), (*reset)(hak_region_t *region), (*retire)(hak_region_t *region);
  void (*limit)(hak_region_t *region, size_t soft, size_t hard);
  int (*walk)(hak_region_t *region, int (*visit)(void *block, size_t bytes, void *context), void *context);
  bool (*usage)(const hak_region_t *region, hak_region_usage_t *usage);
  unsigned (*utilisation)(const void *block);
} hak;

static void hak_start(void) {
  *(void **)&hak.make = symbol("hak_region_new");
  *(void **)&hak.take = symbol("hak_region_malloc");
  *(void **)&hak.destroy = symbol("hak_region_destroy");
  *(void **)&hak.reset = symbol("hak_region_reset");
  *(void **)&hak.limit = symbol("hak_region_limit");
  *(void **)&hak.walk = symbol("hak_region_walk");
  *(void **)&hak.usage = symbol("hak_region_usage");
  *(void **)&hak.utilisation = symbol("hak_utilisation");
  *(void **)&hak.retire = symbol("hak_region_retire");
}
static void *hak_make(void) {
  return hak.make(NULL);
}
static void *hak_take(void *heap, size_t bytes) {
  return hak.take(heap, bytes);
}
static void hak_end(void *heap) {
  hak.destroy(heap);
}
static void hak_reset(void *heap) {
  hak.reset(heap);
}
static int hak_visit(void *block, size_t bytes, void *context) {
  (void)block;
  sum_t *sum = context;
  sum->blocks++;
  sum->bytes += bytes;
  return 0;
}
static void hak_walk(void *heap, sum_t *sum) {
  hak.walk(heap, hak_visit, sum);
}
static uint64_t hak_live(void *heap) {
  hak_region_usage_t usage;
  return hak.usage(heap, &usage) ? usage.live_bytes : 0;
}
static bool hak_limit(void *heap, size_t bytes) {
  hak.limit(heap, 0, bytes);
  return true;
}

// Blocks move into a region, whose spans are filled from one end to the other. A region with many holes is left.
static void *hak_move_to(void *block, size_t bytes, uint32_t percent) {
  static hak_region_t *target;
  hak_region_usage_t usage;
  if (hak.utilisation(block) >= percent)
    return NULL;
  if (target != NULL && hak.usage(target, &usage) && usage.used_bytes > usage.live_bytes / 4 * 5 + SPARE_BYTES) {
    hak.retire(target);
    target = NULL;
  }
  target = target != NULL ? target : hak.make(NULL);
  return hak.take(target, bytes);
}

// mimalloc 3

typedef bool mi_visit_t(const void *heap, const void *area, void *block, size_t bytes, void *context);
static struct {
  void *(*make)(void), *(*take)(void *heap, size_t bytes);
  void (*destroy)(void *heap);
  bool (*walk)(void *heap, bool blocks, mi_visit_t *visit, void *context);
  bool (*under)(void *heap, void *block, size_t percent);
  void *(*main)(void);
} mi;

static void mi_start(void) {
  *(void **)&mi.make = symbol("mi_heap_new");
  *(void **)&mi.take = symbol("mi_heap_malloc");
  *(void **)&mi.destroy = symbol("mi_heap_destroy");
  *(void **)&mi.walk = symbol("mi_heap_visit_blocks");
  *(void **)&mi.under = symbol("mi_unsafe_heap_page_is_under_utilized");
  *(void **)&mi.main = symbol("mi_heap_main");
}
static void *mi_make(void) {
  return mi.make();
}
static void *mi_take(void *heap, size_t bytes) {
  return mi.take(heap, bytes);
}
static void mi_end(void *heap) {
  mi.destroy(heap);
}
static bool mi_visit(const void *heap, const void *area, void *block, size_t bytes, void *context) {
  (void)heap, (void)area;
  sum_t *sum = context;
  sum->blocks += block != NULL; // the first call of an area has no block
  sum->bytes += block != NULL ? bytes : 0;
  return true;
}
static void mi_walk(void *heap, sum_t *sum) {
  mi.walk(heap, true, mi_visit, sum);
}
static void *mi_move_to(void *block, size_t bytes, uint32_t percent) {
  return mi.under(mi.main(), block, percent) ? bench_malloc(bytes) : NULL;
}

// jemalloc 5. A number of an arena begins at 1 here, so that no arena is NULL.

typedef int control_t(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);
static struct {
  control_t *control;
  void *(*take)(size_t bytes, int flags);
  void (*give)(void *block, int flags);
} je;

static void je_start(void) {
  *(void **)&je.control = symbol("mallctl");
  *(void **)&je.take = symbol("mallocx");
  *(void **)&je.give = symbol("dallocx");
}
static void *je_make(void) {
  unsigned arena = 0;
  size_t bytes = sizeof arena;
  if (je.control("arenas.create", &arena, &bytes, NULL, 0) != 0)
    bench_fail("regions: jemalloc made no arena");
  return (void *)(uintptr_t)(arena + 1);
}
static void *je_take(void *heap, size_t bytes) {
  return je.take(bytes, (int)((unsigned)(uintptr_t)heap << 20) | 1 << 8); // in that arena, without a thread's cache
}
static void je_arena(void *heap, const char *what) {
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "arena.%u.%s", (unsigned)(uintptr_t)heap - 1, what);
  if (je.control(name, NULL, NULL, NULL, 0) != 0)
    bench_fail("regions: jemalloc does not end an arena");
}
static void je_end(void *heap) {
  je_arena(heap, "destroy");
}
static void je_reset(void *heap) {
  je_arena(heap, "reset");
}
// As the hint that Redis added to jemalloc decides, with the figures that jemalloc 5 gives itself.
static void *je_move_to(void *block, size_t bytes, uint32_t percent) {
  (void)percent;
  struct {
    void *slabcur;
    size_t nfree, nregs, size, bin_nfree, bin_nregs;
  } slab = {0};
  size_t out = sizeof slab;
  if (je.control("experimental.utilization.query", &slab, &out, &block, sizeof block) != 0)
    bench_fail("regions: jemalloc does not tell how full a slab is");
  uint64_t used = slab.nregs - slab.nfree, bin_used = slab.bin_nregs - slab.bin_nfree;
  bool stays =
      slab.nfree == 0 || slab.slabcur == block || used * slab.bin_nregs > (bin_used + bin_used / 8) * slab.nregs;
  return stays ? NULL : je.take(bytes, 1 << 8);
}
static void je_move_done(void *old) {
  if (old != NULL)
    je.give(old, 1 << 8);
}

static const side_t sides[] = {
    {"region", "hak_region_new", hak_start, hak_make, hak_take, hak_end, hak_reset, hak_walk, hak_live, hak_limit,
     hak_move_to, NULL},
    {"heap", "mi_heap_main", mi_start, mi_make, mi_take, mi_end, NULL, mi_walk, NULL, NULL, mi_move_to, NULL},
    {"arena", "mallocx", je_start, je_make, je_take, je_end, je_reset, NULL, NULL, NULL, je_move_to, je_move_done},
};

// With whatever function the library has for that.
void give_pages_back(void) {
  bool (*trim)(size_t keep) = NULL;
  void (*collect)(bool force) = NULL;
  control_t *control = NULL;
  *(void **)&trim = symbol("hak_trim");
  *(void **)&collect = symbol("mi_collect");
  *(void **)&control = symbol("mallctl");
  if (trim != NULL)
    trim(0);
  else if (collect != NULL)
    collect(true);
  else if (control != NULL)
    control("arena.4096.purge", NULL, NULL, NULL, 0); // 4096: all arenas
}

static void *plain_make(void) {
  static char heap;
  return &heap;
}

const side_t *side_of(bool plain) {
  static const side_t one_by_one = {.name = "plain", .make = plain_make, .take = plain_take};
  for (uint32_t i = 0; !plain && i < sizeof sides / sizeof *sides; i++)
    if (symbol(sides[i].symbol) != NULL) {
      sides[i].start();
      return &sides[i];
    }
  return &one_by_one;
}
