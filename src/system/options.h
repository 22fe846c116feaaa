/* Duty: the options: one table (options.def), read once from the environment.
 * Data: hak_option_values. Start-up and hak_option_set write them (any thread; the last call wins), and any thread
 * reads them. The path to a cached block reads no option. Layers below: text, os. */
#pragma once

#include "lock.h"

#define HAK_OPTION_AUTO (-1)

typedef enum hak_profile {
  HAK_PROFILE_SPEED,
  HAK_PROFILE_BALANCED,
  HAK_PROFILE_LEAN,
  HAK_PROFILE_HARDENED, /* options have the defaults of SPEED */
} hak_profile_t;

typedef enum hak_unwinder { HAK_UNWIND_FRAMES, HAK_UNWIND_LIBUNWIND, HAK_UNWIND_LIBGCC } hak_unwinder_t;

typedef enum hak_huge_pages { HAK_HUGE_PAGES_OFF, HAK_HUGE_PAGES_DENSE } hak_huge_pages_t;

#define HAK_OPTION(id, name, kind, speed, balanced, lean, low, high, when, help) HAK_OPTION_##id,
typedef enum hak_option_id {
#include "options.def"
  HAK_OPTION_COUNT
} hak_option_id_t;
#undef HAK_OPTION

extern _Atomic int64_t hak_option_values[HAK_OPTION_COUNT];
extern bool hak_option_given[HAK_OPTION_COUNT]; /* whether the user set the option, rather than the profile */
extern hak_lock_t hak_options_lock;             /* held while an option changes */

/* The value of an option, in the unit of its row in options.def. */
HAK_INLINE int64_t hak_option(hak_option_id_t id) {
  return atomic_load_explicit(&hak_option_values[id], memory_order_relaxed);
}
HAK_INLINE size_t hak_option_size(hak_option_id_t id) {
  return (size_t)hak_option(id);
}
HAK_INLINE size_t hak_option_slices(hak_option_id_t id) {
  return hak_option_size(id) >> HAK_SLICE_SHIFT;
}

/* Set a number. */
void hak_option_put(hak_option_id_t id, int64_t value);

/* The value of a text option; empty if it is not set. */
const char *hak_option_text(hak_option_id_t id);

/* Read HAKMEM_… from the environment, and warn about unusable values. Called once, before main. */
void hak_options_load(char **environment);
