// The interface of malloc. An allocation is recorded after the allocator's call, a free before it, so that no address
// is recorded as live twice.
#include "next.h"
#include "recorder.h"

#include <errno.h>
#include <string.h>

#define ALIAS(name) EXPORT __attribute__((alias("recorder_" #name)))

COLD static void *large(void *block, size_t bytes, uint32_t kind) {
  recorder_count(bytes);
  if (kind == RAW_FREE && bytes < RAW_SIZE_LIMIT) // malloc's short form
    recorder_put(recorder_word(block, (uint32_t)bytes));
  else
    recorder_put_pair(recorder_word(block, RAW_SIZE_LIMIT + (kind == RAW_FREE ? RAW_LARGE : kind)), bytes + 1);
  recorder_large_new(block, bytes);
  return block;
}

static inline void *allocated(void *block, size_t bytes) {
  if (UNLIKELY(block == NULL))
    return NULL;
  if (LIKELY(bytes < TRACE_TOUCH_BYTES)) {
    recorder_count(bytes);
    return recorder_put_of(recorder_word(block, (uint32_t)bytes), block);
  }
  return large(block, bytes, RAW_FREE);
}

static void aligned(void *block, size_t alignment, size_t bytes) {
  if (block == NULL)
    return;
  recorder_count(bytes);
  unsigned logarithm = alignment > 1 ? 63u - (unsigned)__builtin_clzll(alignment) : 0;
  recorder_put_pair(recorder_word(block, RAW_SIZE_LIMIT + RAW_ALIGNED), ((uint64_t)bytes << 6 | logarithm) + 1);
  if (bytes >= TRACE_TOUCH_BYTES)
    recorder_large_new(block, bytes);
}

COLD static void *special(void *block) {
  if (next_is_reserve(block))
    return NULL;
  recorder_large_gone(block);
  return block;
}

// Records a free. Returns the block, or NULL if there is nothing to free.
static inline void *freed(void *block) {
  if (LIKELY(block != NULL) && UNLIKELY(recorder_maybe_special(block)))
    block = special(block);
  return LIKELY(block != NULL) ? recorder_put_of(recorder_word(block, RAW_SIZE_LIMIT + RAW_FREE), block) : NULL;
}

void *recorder_malloc(size_t bytes) {
  return allocated(next.malloc(bytes), bytes);
}

void recorder_free(void *block) {
  block = freed(block);
  if (LIKELY(block != NULL))
    next.free(block);
}

void *recorder_calloc(size_t count, size_t bytes) {
  void *block = next.calloc(count, bytes);
  if (LIKELY(block != NULL)) {
    if (LIKELY(count * bytes < TRACE_TOUCH_BYTES)) {
      recorder_count(count * bytes);
      recorder_put_pair(recorder_word(block, RAW_SIZE_LIMIT + RAW_CALLOC), count * bytes + 1);
    } else {
      large(block, count * bytes, RAW_CALLOC);
    }
  }
  return block;
}

void *recorder_realloc(void *old, size_t bytes) {
  if (old == NULL)
    return recorder_malloc(bytes);
  if (UNLIKELY(bytes == 0)) { // frees the block; some allocators return an empty one
    void *empty = freed(old) ? next.realloc(old, 0) : NULL;
    return allocated(empty, 0);
  }
  if (UNLIKELY(recorder_maybe_special(old)))
    recorder_large_gone(old);
  recorder_put(recorder_word(old, RAW_SIZE_LIMIT + RAW_REALLOC_FROM));
  void *block = next.realloc(old, bytes);
  if (LIKELY(block != NULL))
    recorder_count(bytes);
  recorder_put_pair(recorder_word(block, RAW_SIZE_LIMIT + RAW_REALLOC_TO), bytes + 1);
  if (block != NULL && bytes >= TRACE_TOUCH_BYTES)
    recorder_large_new(block, bytes);
  return block;
}

void *recorder_reallocarray(void *old, size_t count, size_t bytes) {
  size_t product;
  if (__builtin_mul_overflow(count, bytes, &product)) {
    errno = ENOMEM;
    return NULL;
  }
  return recorder_realloc(old, product);
}

void *recorder_memalign(size_t alignment, size_t bytes) {
  void *block = next.memalign(alignment, bytes);
  aligned(block, alignment, bytes);
  return block;
}

void *recorder_aligned_alloc(size_t alignment, size_t bytes) {
  void *block = next.aligned_alloc(alignment, bytes);
  aligned(block, alignment, bytes);
  return block;
}

int recorder_posix_memalign(void **block, size_t alignment, size_t bytes) {
  int error = next.posix_memalign(block, alignment, bytes);
  if (error == 0)
    aligned(*block, alignment, bytes);
  return error;
}

void *recorder_valloc(size_t bytes) {
  void *block = next.valloc(bytes);
  aligned(block, recorder_page_bytes(), bytes);
  return block;
}

void *recorder_pvalloc(size_t bytes) {
  void *block = next.pvalloc(bytes);
  size_t page = recorder_page_bytes();
  aligned(block, page, (bytes + page - 1) & ~(page - 1));
  return block;
}

void recorder_free_sized(void *block, size_t bytes) {
  if (freed(block))
    next.free_sized(block, bytes);
}

void recorder_free_aligned_sized(void *block, size_t alignment, size_t bytes) {
  if (freed(block))
    next.free_aligned_sized(block, alignment, bytes);
}

// strdup and strndup of the C library call malloc, but those of an allocator may not, so they are replaced.
static char *copied(const char *text, size_t length) {
  char *copy = recorder_malloc(length + 1);
  if (copy == NULL)
    return NULL;
  memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

char *recorder_strdup(const char *text) {
  return copied(text, strlen(text));
}

char *recorder_strndup(const char *text, size_t most) {
  return copied(text, strnlen(text, most));
}

ALIAS(malloc) void *malloc(size_t);
ALIAS(free) void free(void *);
ALIAS(free) void cfree(void *);
ALIAS(calloc) void *calloc(size_t, size_t);
ALIAS(realloc) void *realloc(void *, size_t);
ALIAS(reallocarray) void *reallocarray(void *, size_t, size_t);
ALIAS(memalign) void *memalign(size_t, size_t);
ALIAS(aligned_alloc) void *aligned_alloc(size_t, size_t);
ALIAS(posix_memalign) int posix_memalign(void **, size_t, size_t);
ALIAS(valloc) void *valloc(size_t);
ALIAS(pvalloc) void *pvalloc(size_t);
ALIAS(strdup) char *strdup(const char *);
ALIAS(strndup) char *strndup(const char *, size_t);
ALIAS(free_sized) void free_sized(void *, size_t);
ALIAS(free_aligned_sized) void free_aligned_sized(void *, size_t, size_t);
