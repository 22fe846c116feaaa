/* A complete allocator that never reuses memory, to preload or to link. FAKE_SPIN: milliseconds of processor time to
 * waste at the start. FAKE_DEADLY: a malloc of exactly this many bytes ends the process. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { HEAP_BYTES = 1 << 28, GRAIN = 16 };

static char *heap;
static size_t used;

static void *take(size_t alignment, size_t bytes) {
  if (!heap) {
    heap = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  size_t start = (__atomic_load_n(&used, __ATOMIC_RELAXED) + GRAIN + alignment - 1) & ~(alignment - 1);
  used = start + ((bytes + GRAIN - 1) & ~(size_t)(GRAIN - 1));
  *(size_t *)(heap + start - sizeof(size_t)) = bytes;
  return heap + start;
}

void *malloc(size_t bytes) {
  const char *deadly = getenv("FAKE_DEADLY");
  if (deadly && bytes == (size_t)atol(deadly)) {
    abort();
  }
  return take(GRAIN, bytes);
}
void free(void *block) {
  (void)block;
}
void *calloc(size_t count, size_t bytes) {
  return take(GRAIN, count * bytes);
}
void *realloc(void *block, size_t bytes) {
  void *moved = take(GRAIN, bytes);
  if (block) {
    size_t old = ((size_t *)block)[-1];
    memcpy(moved, block, old < bytes ? old : bytes);
  }
  return moved;
}
void *aligned_alloc(size_t alignment, size_t bytes) {
  return take(alignment < GRAIN ? GRAIN : alignment, bytes);
}
void *memalign(size_t alignment, size_t bytes) {
  return aligned_alloc(alignment, bytes);
}
int posix_memalign(void **out, size_t alignment, size_t bytes) {
  *out = aligned_alloc(alignment, bytes);
  return 0;
}
size_t malloc_usable_size(void *block) {
  return block ? ((size_t *)block)[-1] : 0;
}

__attribute__((constructor)) static void spin(void) {
  const char *ms = getenv("FAKE_SPIN");
  struct timespec t = {0, 0};
  while (ms && t.tv_sec * 1000 + t.tv_nsec / 1000000 < atol(ms)) {
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  }
}
