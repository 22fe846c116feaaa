/* jemalloc's extended functions, for programs that mix them with malloc. Otherwise, with this library preloaded, their
 * blocks would come from jemalloc and go to this library's free. The flags are those of <jemalloc/jemalloc.h>. An arena
 * that mallctl created is a region; other arenas are the ordinary heap. Flags that name a cache have no effect. */
#include "hakmem.h"

#include "mallctl.h"

#include <errno.h>
#include <string.h>

enum { ALIGNMENT_MASK = 63, ZERO = 64 };

HAK_EXPORT void *mallocx(size_t bytes, int flags);
HAK_EXPORT void *rallocx(void *block, size_t bytes, int flags);
HAK_EXPORT size_t xallocx(void *block, size_t bytes, size_t extra_bytes, int flags);
HAK_EXPORT size_t sallocx(const void *block, int flags);
HAK_EXPORT void dallocx(void *block, int flags);
HAK_EXPORT void sdallocx(void *block, size_t bytes, int flags);
HAK_EXPORT size_t nallocx(size_t bytes, int flags);

static size_t alignment_of(int flags) {
  size_t alignment = (size_t)1 << (flags & ALIGNMENT_MASK);
  return alignment > HAK_BLOCK_MIN ? alignment : HAK_BLOCK_MIN;
}

static void *take(hak_region_t *region, size_t bytes, int flags) {
  size_t alignment = alignment_of(flags);
  if (alignment == HAK_BLOCK_MIN && flags & ZERO) {
    return hak_region_calloc(region, 1, bytes);
  }
  void *block = hak_region_aligned_alloc(region, alignment, bytes);
  return block && flags & ZERO ? memset(block, 0, bytes) : block;
}

HAK_COLD static void *take_in_arena(size_t bytes, int flags) {
  hak_region_t *region;
  if (!hak_mallctl_arena(flags, &region)) {
    errno = ENOMEM;
    return NULL;
  }
  return region ? take(region, bytes, flags) : mallocx(bytes, flags & (ALIGNMENT_MASK | ZERO));
}

void *mallocx(size_t bytes, int flags) {
  size_t alignment = alignment_of(flags);
  if (HAK_UNLIKELY(hak_mallctl_names_arena(flags))) {
    return take_in_arena(bytes, flags);
  }
  if (alignment == HAK_BLOCK_MIN) {
    return flags & ZERO ? hak_calloc(1, bytes) : hak_malloc(bytes);
  }
  void *block = hak_memalign(alignment, bytes);
  return block && flags & ZERO ? memset(block, 0, bytes) : block;
}

static void *resize(hak_region_t *region, void *block, size_t had, size_t bytes, size_t alignment) {
  if (alignment == HAK_BLOCK_MIN) {
    return region ? hak_region_realloc(region, block, bytes) : hak_realloc(block, bytes);
  }
  region = region ? region : hak_region_of(block);
  void *moved = region ? hak_region_aligned_alloc(region, alignment, bytes) : hak_memalign(alignment, bytes);
  if (moved) {
    memcpy(moved, block, had < bytes ? had : bytes);
    hak_free(block);
  }
  return moved;
}

/* With ZERO, the bytes beyond the old usable size are 0. A block of a region stays in it, unless flags name another. */
void *rallocx(void *block, size_t bytes, int flags) {
  size_t had = hak_malloc_usable_size(block);
  hak_region_t *region = NULL;
  if (hak_mallctl_names_arena(flags) && !hak_mallctl_arena(flags, &region)) {
    errno = ENOMEM;
    return NULL;
  }
  void *moved = resize(region, block, had, bytes, alignment_of(flags));
  if (moved && flags & ZERO && bytes > had) {
    memset((char *)moved + had, 0, bytes - had);
  }
  return moved;
}

/* Returns the block's size, which it never changes. Callers compare it with the size that they need. */
size_t xallocx(void *block, size_t bytes, size_t extra_bytes, int flags) {
  (void)bytes, (void)extra_bytes, (void)flags;
  return hak_malloc_usable_size(block);
}

size_t sallocx(const void *block, int flags) {
  (void)flags;
  return hak_malloc_usable_size(block);
}

void dallocx(void *block, int flags) {
  (void)flags;
  hak_free(block);
}

/* Callers may name the usable size in place of the requested one, so it is not checked. */
void sdallocx(void *block, size_t bytes, int flags) {
  (void)bytes, (void)flags;
  hak_free(block);
}

/* The least usable size of a block for such a request; 0: no block is so large. A block may have exactly the requested
 * size (hardened profile, guarded blocks). */
size_t nallocx(size_t bytes, int flags) {
  (void)flags;
  return bytes <= PTRDIFF_MAX ? bytes : 0;
}
