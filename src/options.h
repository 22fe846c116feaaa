/* Duty: the options: one table (options.def), read once from the environment, and what follows from it.
 * Data: hak_options, derived from the values; written at start-up and by hak_option_set (any thread, last one
 * wins), read anywhere. No option is read on the way to a cached block. Layers below: text, os. */
#ifndef HAK_OPTIONS_H
#define HAK_OPTIONS_H

#include "geometry.h"
#include "lock.h"

#define HAK_OPTION_AUTO (-1)

typedef enum hak_profile { HAK_PROFILE_SPEED, HAK_PROFILE_BALANCED, HAK_PROFILE_LEAN } hak_profile_t;

typedef enum hak_huge_pages { HAK_HUGE_PAGES_OFF, HAK_HUGE_PAGES_DENSE } hak_huge_pages_t;

typedef struct hak_options {
  _Atomic bool unified_cache, os_stats, stats, keep_deepbind;
  _Atomic int huge_pages;                      /* HAK_OPTION_AUTO, or a hak_huge_pages_t */
  _Atomic int64_t band_blocks[HAK_BAND_COUNT]; /* HAK_OPTION_AUTO or a fixed capacity */
  _Atomic size_t cache_class_bytes;
  _Atomic size_t warm_pool_slices, retain_slices, retain_percent, retain_learned_slices;
  _Atomic size_t memory_limit_slices; /* 0: none */
  _Atomic size_t huge_pages_from_slices;
  _Atomic uint64_t decay_ms;
} hak_options_t;

extern hak_options_t hak_options;
extern hak_lock_t hak_options_lock; /* of changes */

/* Read HAKMEM_… from the environment; warns about what it cannot use. Called once, before main. */
void hak_options_load(char **environment);

/* As hak_option_get and hak_option_set in hakmem.h: 0 or an errno value. */
int hak_options_get(const char *name, char *value, size_t capacity);
int hak_options_set(const char *name, const char *value);

#endif
