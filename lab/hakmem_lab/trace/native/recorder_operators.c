// C++'s new and delete. Those of the C++ library come through malloc, where they are recorded; an allocator's own ones
// do not, and are recorded here. Every operator gets all the registers that the longest one takes.
#include "recorder.h"
#include "recorder_next.h"

#include <stdlib.h>

typedef void *(*make_t)(size_t bytes, size_t second, const void *third);
typedef void (*drop_t)(void *block, size_t second, size_t third);

typedef struct {
  void *function; // NULL: not looked for yet
  bool records;
} operator_t;

void *recorder_malloc(size_t bytes);
void *recorder_memalign(size_t alignment, size_t bytes);
void recorder_free(void *block);

// What stands in where a program has no C++ library that could be found.
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

static inline void *make(operator_t *what, const char *name, void *standin, bool has_alignment, size_t bytes,
                         size_t second, const void *third) {
  void *function = what->function;
  if (UNLIKELY(function == NULL))
    function = look(what, name, standin);
  void *block = ((make_t)function)(bytes, second, third);
  if (!what->records || UNLIKELY(block == NULL))
    return block;
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
    function = look(what, name, (void *)drop_plain);
  if (what->records && LIKELY(block != NULL)) {
    if (UNLIKELY(recorder_maybe_large(block)))
      recorder_large_gone(block);
    recorder_put(recorder_word(block, RAW_SIZE_LIMIT + RAW_FREE));
  }
  ((drop_t)function)(block, second, third);
}

#define MAKE(name, standin, has_alignment) \
  EXPORT void *name(size_t bytes, size_t second, const void *third) { \
    static operator_t what; \
    return make(&what, #name, (void *)(standin), has_alignment, bytes, second, third); \
  }
#define DROP(name) \
  EXPORT void name(void *block, size_t second, size_t third) { \
    static operator_t what; \
    drop(&what, #name, block, second, third); \
  }

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
