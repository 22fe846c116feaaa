/* The statistics under glibc's names. */
#include "hakmem.h"

#include "stats.h"

#include <errno.h>
#include <malloc.h>

#ifdef __GLIBC__
/* Fills the fields that have a meaning here; the others stay 0. As in glibc, only `hblks` and `hblkhd` count large
 * blocks. `arena + hblkhd` is the system memory in use, and `uordblks + hblkhd` is the program's part of it. */
HAK_EXPORT struct mallinfo2 mallinfo2(void) {
  int saved = errno;
  hak_stats_t *stats = hak_stats_take();
  struct mallinfo2 info = {0};
  if (stats) {
    size_t used = stats->arena.used_slices << HAK_SLICE_SHIFT; /* read a moment after `huge_bytes` */
    info.arena = used > stats->huge_bytes ? used - stats->huge_bytes : 0;
    info.uordblks = stats->live_bytes + stats->region_bytes;
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

/* Returns an error as its value, as in glibc, and sets errno as well, as the manual page says. */
HAK_EXPORT int malloc_info(int options, FILE *out) {
  if (options != 0) {
    return errno = EINVAL;
  }
  hak_stats_t *stats = hak_stats_take();
  if (!stats) {
    return errno = ENOMEM;
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
#endif
