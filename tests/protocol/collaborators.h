/* Duty: everything below slab.c and sweep.c, made of nothing: locks that the explorer schedules, an arena with memory
 * for a few slabs that checks what is given back, a page map of that, a system that does nothing. All that depends on
 * the modules below the slabs stands here and in collaborators.c. Include before any header of src/: the locks take the
 * place of lock.h. */
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

#include "arena.h"
#include "slab.h"

enum { WORLD_SLABS = 3 }; /* there is memory for so many */

/* Once, before anything is explored. */
void world_make(void);
/* At the start of a run: no slab. */
void world_begin(void);
size_t world_used(void);

/* The handlers of a fork, as far as they concern the slabs. The child begins with the second. */
void world_before_fork(void);
void world_after_fork(void);

/* The program's side of a block. Taking one that somebody has, or that is in no slab, fails the run; so does whatever
 * gives its memory away while somebody has it. */
void world_took(void *block);
void world_frees(void *block);
bool world_has(const void *block);
/* Of a block that somebody had a moment ago; no step of the program. */
uint32_t world_class(const void *block);

/* No call is under way: every count equals its bits, every slab is where its state says. `counts`: false where a call
 * was cut off by a fork. Slabs with CURRENT set: `current` of them. */
void world_check(size_t current, bool counts);

#endif
