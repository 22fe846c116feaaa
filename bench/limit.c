// The call limit: a preloadable library whose malloc returns the next block of a small ring and whose free does
// nothing. No allocator behind a function call can be faster. Live blocks may overlap, so it suits only random_mixed,
// with sizes up to RING_BLOCK_BYTES. Larger requests (libc's start-up) are cut from a static heap and never reused.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// 1,088 bytes are 17 cache lines: successive blocks fall into different sets of the cache.
enum { RING_BLOCKS = 64, RING_BLOCK_BYTES = 1088, HEAP_BYTES = 16 << 20, ALIGN = 16 };

static _Alignas(64) char ring[RING_BLOCKS * RING_BLOCK_BYTES];
static _Alignas(64) char heap[HEAP_BYTES];
static uint32_t ring_at;
static size_t heap_at;

void *malloc(size_t bytes);
void free(void *block);
void *calloc(size_t count, size_t bytes);
void *realloc(void *block, size_t bytes);
void *aligned_alloc(size_t align, size_t bytes);

static void *heap_cut(size_t align, size_t bytes) {
  size_t at = (heap_at + align - 1) & ~(align - 1);
  if (at > HEAP_BYTES || bytes > HEAP_BYTES - at) {
    errno = ENOMEM;
    return NULL;
  }
  heap_at = at + bytes;
  return heap + at;
}

void *malloc(size_t bytes) {
  if (__builtin_expect(bytes > RING_BLOCK_BYTES, 0))
    return heap_cut(ALIGN, bytes);
  uint32_t at = ring_at;
  ring_at = (at + 1) % RING_BLOCKS;
  return ring + (size_t)at * RING_BLOCK_BYTES;
}

void free(void *block) {
  (void)block;
}

void *calloc(size_t count, size_t bytes) {
  size_t all;
  if (__builtin_mul_overflow(count, bytes, &all)) {
    errno = ENOMEM;
    return NULL;
  }
  return heap_cut(ALIGN, all); // already zero: static memory that is never reused
}

// The size of the old block is unknown, so this copies up to the end of its place in the ring, or of the static heap.
void *realloc(void *block, size_t bytes) {
  char *to = heap_cut(ALIGN, bytes);
  if (to == NULL || block == NULL)
    return to;
  const char *from = block;
  size_t room = from >= ring && from < ring + sizeof ring ? RING_BLOCK_BYTES : (size_t)(heap + HEAP_BYTES - from);
  memmove(to, from, bytes < room ? bytes : room);
  return to;
}

void *aligned_alloc(size_t align, size_t bytes) {
  return heap_cut(align < ALIGN ? ALIGN : align, bytes);
}
