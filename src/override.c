/* The standard names. malloc and free are the fast paths themselves; the rest calls the hak_ functions. */
#include "hakmem.h"

#include "fast.h"
#include "process.h"
#include "stats.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>

/* Tells foreign.c that callers reach this library under the standard names. */
extern const bool hak_override_present;
const bool hak_override_present = true;

HAK_EXPORT void free_sized(void *block, size_t bytes);
HAK_EXPORT void free_aligned_sized(void *block, size_t alignment, size_t bytes);

HAK_EXPORT HAK_ENTRY void *malloc(size_t bytes) {
  return hak_fast_alloc(bytes);
}

HAK_EXPORT HAK_ENTRY void free(void *block) {
  hak_fast_free(block);
}

#define FORWARD(type, name, parameters, ...) \
  HAK_EXPORT type name parameters { \
    return hak_##name(__VA_ARGS__); \
  }
FORWARD(void *, calloc, (size_t count, size_t bytes), count, bytes)
FORWARD(void *, realloc, (void *block, size_t bytes), block, bytes)
FORWARD(void *, reallocarray, (void *block, size_t count, size_t bytes), block, count, bytes)
FORWARD(void, free_sized, (void *block, size_t bytes), block, bytes)
FORWARD(void, free_aligned_sized, (void *block, size_t alignment, size_t bytes), block, alignment, bytes)
FORWARD(void *, aligned_alloc, (size_t alignment, size_t bytes), alignment, bytes)
FORWARD(void *, memalign, (size_t alignment, size_t bytes), alignment, bytes)
FORWARD(int, posix_memalign, (void **block, size_t alignment, size_t bytes), block, alignment, bytes)
FORWARD(void *, valloc, (size_t bytes), bytes)
FORWARD(void *, pvalloc, (size_t bytes), bytes)
FORWARD(size_t, malloc_usable_size, (void *block), block)

HAK_EXPORT int malloc_trim(size_t keep_bytes) {
  return hak_trim(keep_bytes);
}

/* The fields of glibc that have a meaning here; the others stay 0. */
HAK_EXPORT struct mallinfo2 mallinfo2(void) {
  int saved = errno;
  hak_stats_t *stats = hak_stats_take();
  struct mallinfo2 info = {0};
  if (stats) {
    info.arena = stats->arena.used_slices << HAK_SLICE_SHIFT;
    info.uordblks = stats->live_bytes + stats->huge_bytes;
    info.fordblks = stats->free_bytes + stats->cached_bytes;
    info.hblks = stats->huge_blocks;
    info.hblkhd = stats->huge_bytes;
    info.keepcost = stats->arena.dirty_slices << HAK_SLICE_SHIFT;
  }
  hak_stats_give(stats);
  errno = saved;
  return info;
}

static int clamp_int(size_t n) {
  return n < INT32_MAX ? (int)n : INT32_MAX;
}

HAK_EXPORT struct mallinfo mallinfo(void) {
  struct mallinfo2 wide = mallinfo2();
  return (struct mallinfo){.arena = clamp_int(wide.arena),
                           .uordblks = clamp_int(wide.uordblks),
                           .fordblks = clamp_int(wide.fordblks),
                           .hblks = clamp_int(wide.hblks),
                           .hblkhd = clamp_int(wide.hblkhd),
                           .keepcost = clamp_int(wide.keepcost)};
}

HAK_EXPORT void malloc_stats(void) {
  hak_stats_print(stderr);
}

HAK_EXPORT int malloc_info(int options, FILE *out) {
  if (options != 0) {
    errno = EINVAL;
    return -1;
  }
  hak_stats_t *stats = hak_stats_take();
  if (!stats) {
    errno = ENOMEM;
    return -1;
  }
  fputs("<malloc version=\"1\">\n", out);
  for (int c = 1; c < HAK_CLASS_COUNT; c++) {
    const hak_class_stats_t *class = &stats->classes[c];
    if (class->slabs > 0 || class->live_blocks + class->cached_blocks > 0) {
      fprintf(out, "<class size=\"%zu\" slabs=\"%zu\" live=\"%zu\" cached=\"%zu\" free=\"%zu\"/>\n", class->block_bytes,
              class->slabs, class->live_blocks, class->cached_blocks, class->free_blocks);
    }
  }
  fprintf(out, "<total type=\"large\" count=\"%zu\" size=\"%zu\"/>\n", stats->huge_blocks, stats->huge_bytes);
  fprintf(out, "<system type=\"current\" size=\"%zu\"/>\n", stats->arena.mapped_slices << HAK_SLICE_SHIFT);
  fputs("</malloc>\n", out);
  hak_stats_give(stats);
  return 0;
}

/* 1: it has an effect. Bins, brk and arenas, which glibc's other parameters tune, do not exist here. */
HAK_EXPORT int mallopt(int parameter, int value) {
  int saved = errno;
  char text[24];
  if (parameter != M_TRIM_THRESHOLD || value < 0) {
    return 0;
  }
  snprintf(text, sizeof text, "%d", value);
  int failed = hak_option_set("RETAIN", text);
  errno = saved;
  return failed == 0;
}

/* What every library's pthread_atfork leads to, perhaps before our constructor runs. Weak: libc's own is the one in a
 * program without shared libraries. */
HAK_EXPORT __attribute__((weak)) int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                                                       void *module) {
  hak_register_t next;
  *(void **)&next = dlsym(RTLD_NEXT, "__register_atfork");
  return next ? hak_process_register(next, prepare, parent, child, module) : ENOMEM;
}
