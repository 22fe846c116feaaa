/* Allocation tokens: the functions that clang's -fsanitize=alloc-token calls instead of malloc and its kind. The lower
 * half of all tokens means types without pointers. The hardened profile keeps their blocks in slabs of their own.
 * Without the profile, a token has no effect. */
#include "hakmem.h"

#include "hardened.h"

extern void *_Znwm(size_t bytes), *_Znam(size_t bytes);
extern void *_ZnwmSt11align_val_t(size_t bytes, size_t alignment),
    *_ZnamSt11align_val_t(size_t bytes, size_t alignment);
extern void *_ZnwmRKSt9nothrow_t(size_t bytes, const void *nothrow), *_ZnamRKSt9nothrow_t(size_t, const void *nothrow);
extern void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t bytes, size_t alignment, const void *nothrow);
extern void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t bytes, size_t alignment, const void *nothrow);

/* From here on, the thread allocates for the type of the token. Returns the kind of type before. */
static bool begin(size_t token) {
  return HAK_UNLIKELY(hak_hard.on) && hak_hardened_type(hak_hardened_is_data(token));
}

static void end(bool before) {
  if (HAK_UNLIKELY(hak_hard.on)) {
    hak_hardened_type(before);
  }
}

#define LIST(...) __VA_ARGS__
/* The standard form has the token as its last argument, and the fast forms have it in their names. If an exception or a
 * signal handler leaves the call, the thread keeps the kind of this type; no block is less safe for that. */
#define FAST(type, token, name, function, parameters, arguments) \
  HAK_EXPORT type __alloc_token_##token##_##name(LIST parameters); \
  HAK_EXPORT type __alloc_token_##token##_##name(LIST parameters) { \
    bool before = begin(token); \
    type result = function arguments; \
    end(before); \
    return result; \
  }
#define TOKEN(type, name, function, parameters, arguments) \
  HAK_EXPORT type __alloc_token_##name(LIST parameters, size_t token); \
  HAK_EXPORT type __alloc_token_##name(LIST parameters, size_t token) { \
    bool before = begin(token); \
    type result = function arguments; \
    end(before); \
    return result; \
  } \
  FAST(type, 0, name, function, parameters, arguments) \
  FAST(type, 1, name, function, parameters, arguments)

TOKEN(void *, malloc, hak_malloc, (size_t bytes), (bytes))
TOKEN(void *, calloc, hak_calloc, (size_t number, size_t bytes), (number, bytes))
TOKEN(void *, realloc, hak_realloc, (void *block, size_t bytes), (block, bytes))
TOKEN(void *, reallocarray, hak_reallocarray, (void *block, size_t number, size_t bytes), (block, number, bytes))
TOKEN(void *, aligned_alloc, hak_aligned_alloc, (size_t alignment, size_t bytes), (alignment, bytes))
TOKEN(void *, memalign, hak_memalign, (size_t alignment, size_t bytes), (alignment, bytes))
TOKEN(int, posix_memalign, hak_posix_memalign, (void **block, size_t alignment, size_t bytes),
      (block, alignment, bytes))
TOKEN(void *, valloc, hak_valloc, (size_t bytes), (bytes))
TOKEN(void *, pvalloc, hak_pvalloc, (size_t bytes), (bytes))

#define NEW(name, parameters, arguments) TOKEN(void *, name, name, parameters, arguments)
NEW(_Znwm, (size_t bytes), (bytes))
NEW(_Znam, (size_t bytes), (bytes))
NEW(_ZnwmSt11align_val_t, (size_t bytes, size_t alignment), (bytes, alignment))
NEW(_ZnamSt11align_val_t, (size_t bytes, size_t alignment), (bytes, alignment))
NEW(_ZnwmRKSt9nothrow_t, (size_t bytes, const void *nothrow), (bytes, nothrow))
NEW(_ZnamRKSt9nothrow_t, (size_t bytes, const void *nothrow), (bytes, nothrow))
NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t alignment, const void *nothrow),
    (bytes, alignment, nothrow))
NEW(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t alignment, const void *nothrow),
    (bytes, alignment, nothrow))
