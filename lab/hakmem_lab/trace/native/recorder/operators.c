// C++'s new and delete. Operators of the C++ library call malloc, which records them. Some operators of allocators do
// not; a call that did not move the thread's cursor has recorded nothing, so it is recorded here. Every operator is
// called with the arguments of the longest one, since further registers do no harm.
#include "next.h"
#include "recorder.h"

#include <stdlib.h>

typedef void *(*make_t)(size_t bytes, size_t second, const void *third);
typedef void (*drop_t)(void *block, size_t second, size_t third);

enum { PROBE_BYTES = 64 };

typedef struct {
  void *function; // NULL: not looked for yet
  bool records;   // it may not call malloc, so it may need a record here
} operator_t;

void *recorder_malloc(size_t bytes);
void *recorder_memalign(size_t alignment, size_t bytes);
void recorder_free(void *block);

// Replacements for operators of a C++ library that cannot be found.
static void *make_plain(size_t bytes, size_t second, const void *third) {
  (void)second;
  (void)third;
  void *block = recorder_malloc(bytes ? bytes : 1);
  if (block == NULL)
    abort();
  return block;
}

static void *make_aligned(size_t bytes, size_t alignment, const void *third) {
  (void)third;
  void *block = recorder_memalign(alignment, bytes ? bytes : 1);
  if (block == NULL)
    abort();
  return block;
}

static void drop_plain(void *block, size_t second, size_t third) {
  (void)second;
  (void)third;
  recorder_free(block);
}

COLD static void *look(operator_t *what, const char *name, void *standin) {
  next_find();
  void *found = next_operator(name);
  what->records = next_is_allocators(found);
  return what->function = found != NULL ? found : standin;
}

// A delete must be recorded before its call, so it is tried out first, on a block for which any alignment and size are
// right.
COLD static void *look_at_drop(operator_t *what, const char *name) {
  void *function = look(what, name, (void *)drop_plain);
  void *block = what->records ? recorder_memalign(PROBE_BYTES, PROBE_BYTES) : NULL;
  if (block != NULL) {
    const uint64_t *before = recorder_self->cursor;
    ((drop_t)function)(block, PROBE_BYTES, PROBE_BYTES);
    what->records = recorder_self->cursor == before;
    if (what->records)
      recorder_put(recorder_word(block, RAW_SIZE_LIMIT + RAW_FREE));
  }
  return function;
}

static inline void *make(operator_t *what, const char *name, void *standin, bool has_alignment, size_t bytes,
                         size_t second, const void *third) {
  void *function = what->function;
  if (UNLIKELY(function == NULL))
    function = look(what, name, standin);
  const uint64_t *before = recorder_self->cursor;
  void *block = ((make_t)function)(bytes, second, third);
  if (!what->records || recorder_self->cursor != before || UNLIKELY(block == NULL))
    return block;
  recorder_count(bytes);
  if (has_alignment)
    recorder_put_pair(recorder_word(block, RAW_SIZE_LIMIT + RAW_ALIGNED),
                      ((uint64_t)bytes << 6 | (unsigned)__builtin_ctzll(second)) + 1);
  else if (LIKELY(bytes < RAW_SIZE_LIMIT))
    recorder_put(recorder_word(block, (uint32_t)bytes));
  else
    recorder_put_pair(recorder_word(block, RAW_SIZE_LIMIT + RAW_LARGE), bytes + 1);
  if (UNLIKELY(bytes >= TRACE_TOUCH_BYTES))
    recorder_large_new(block, bytes);
  return block;
}

static inline void drop(operator_t *what, const char *name, void *block, size_t second, size_t third) {
  void *function = what->function;
  if (UNLIKELY(function == NULL))
    function = look_at_drop(what, name);
  if (what->records && LIKELY(block != NULL)) {
    if (UNLIKELY(recorder_maybe_special(block)))
      recorder_large_gone(block);
    recorder_put(recorder_word(block, RAW_SIZE_LIMIT + RAW_FREE));
  }
  ((drop_t)function)(block, second, third);
}

// Each operator has a hidden name, too, which leads here even if another library's operator comes first.
#define MAKE(name, standin, has_alignment) \
  void *recorder_##name(size_t bytes, size_t second, const void *third) { \
    static operator_t what; \
    return make(&what, #name, (void *)(standin), has_alignment, bytes, second, third); \
  } \
  EXPORT __attribute__((alias("recorder_" #name))) void *name(size_t bytes, size_t second, const void *third);
#define DROP(name) \
  void recorder_##name(void *block, size_t second, size_t third) { \
    static operator_t what; \
    drop(&what, #name, block, second, third); \
  } \
  EXPORT __attribute__((alias("recorder_" #name))) void name(void *block, size_t second, size_t third);

MAKE(_Znwm, make_plain, false)
MAKE(_Znam, make_plain, false)
MAKE(_ZnwmRKSt9nothrow_t, make_plain, false)
MAKE(_ZnamRKSt9nothrow_t, make_plain, false)
MAKE(_ZnwmSt11align_val_t, make_aligned, true)
MAKE(_ZnamSt11align_val_t, make_aligned, true)
MAKE(_ZnwmSt11align_val_tRKSt9nothrow_t, make_aligned, true)
MAKE(_ZnamSt11align_val_tRKSt9nothrow_t, make_aligned, true)
DROP(_ZdlPv)
DROP(_ZdaPv)
DROP(_ZdlPvm)
DROP(_ZdaPvm)
DROP(_ZdlPvRKSt9nothrow_t)
DROP(_ZdaPvRKSt9nothrow_t)
DROP(_ZdlPvSt11align_val_t)
DROP(_ZdaPvSt11align_val_t)
DROP(_ZdlPvmSt11align_val_t)
DROP(_ZdaPvmSt11align_val_t)
DROP(_ZdlPvSt11align_val_tRKSt9nothrow_t)
DROP(_ZdaPvSt11align_val_tRKSt9nothrow_t)
