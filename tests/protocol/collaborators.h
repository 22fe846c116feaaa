/* Duty: everything below slab.c and sweep.c, made of nothing: locks that the explorer schedules, an arena of a few
 * units that checks what is given back, a system that does nothing. All that depends on the modules below the slabs
 * stands here and in collaborators.c.
 * Include before any header of src/: the locks take the place of lock.h. */
#ifndef HAK_TEST_COLLABORATORS_H
#define HAK_TEST_COLLABORATORS_H

#include "explore.h"

#define HAK_LOCK_H
typedef struct hak_lock {
  ModelLock model;
} hak_lock_t;
#define HAK_LOCK_INIT \
  { \
    { 0 } \
  }
static inline void hak_lock(hak_lock_t *lock) {
  explore_lock(&lock->model);
}
static inline void hak_unlock(hak_lock_t *lock) {
  explore_unlock(&lock->model);
}
static inline void hak_lock_reset(hak_lock_t *lock) {
  lock->model.owner = 0;
}

#include "arena.h"
#include "slab.h"
#include "slab_internal.h"

enum { WORLD_UNITS = 3 };

/* Once, before anything is explored. */
void world_make(void);
/* At the start of a run: no slab, every unit free. */
void world_begin(void);
size_t world_used_units(void);

/* The program's side of a block. Taking one that somebody has, or that is in no slab, fails the run; so does whatever
 * gives its memory away while somebody has it. */
void world_took(void *block);
void world_frees(void *block);
bool world_has(const void *block);

/* No call is under way: every count equals its bits, every slab is where its state says. `counts`: false where a call
 * was cut off by a fork. Slabs with CURRENT set: `current` of them. */
void world_check(size_t current, bool counts);

#endif
