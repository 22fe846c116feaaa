/* jemalloc's extended functions, for programs that mix them with malloc. Otherwise, with this library preloaded, their
 * blocks would come from jemalloc and go to this library's free. The flags are those of <jemalloc/jemalloc.h>; those
 * that name an arena or a cache have no effect. */
#include "hakmem.h"

#include "base/base.h"

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

void *mallocx(size_t bytes, int flags) {
  size_t alignment = alignment_of(flags);
  if (alignment == HAK_BLOCK_MIN) {
    return flags & ZERO ? hak_calloc(1, bytes) : hak_malloc(bytes);
  }
  void *block = hak_memalign(alignment, bytes);
  return block && flags & ZERO ? memset(block, 0, bytes) : block;
}

/* With ZERO, the bytes beyond the old usable size are 0. */
void *rallocx(void *block, size_t bytes, int flags) {
  size_t had = hak_malloc_usable_size(block);
  void *moved;
  if (alignment_of(flags) == HAK_BLOCK_MIN) {
    moved = hak_realloc(block, bytes);
  } else {
    moved = hak_memalign(alignment_of(flags), bytes);
    if (moved) {
      memcpy(moved, block, had < bytes ? had : bytes);
      hak_free(block);
    }
  }
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
