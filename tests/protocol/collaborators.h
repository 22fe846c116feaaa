/* Duty: stubs for everything below slab.c and sweep.c. These are locks that the explorer schedules, an arena with
 * memory for a few slabs, a page map for that memory, and a system that does nothing. The arena checks returned slabs.
 * All code that depends on the modules below the slabs is here and in collaborators.c. Include this before any header
 * of src/, since its locks replace lock.h. */
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

#include "blocks/slab.h"
#include "pages/arena.h"

enum { WORLD_SLABS = 3 }; /* there is memory for so many slabs */

/* Once, before anything is explored. */
void world_make(void);
/* At the start of a run: no slab. */
void world_begin(void);
size_t world_used(void);

/* The handlers of a fork, as far as they concern the slabs. The child calls the second one first. */
void world_before_fork(void);
void world_after_fork(void);

/* The program reports its blocks here. The run fails if a block is taken that is in use already, or in no slab; or if
 * its memory is given away while it is in use. */
void world_took(void *block);
void world_frees(void *block);
bool world_has(const void *block);
/* The class of a block that was in use a moment ago. This is no step of the program. */
uint32_t world_class(const void *block);

/* Call it while no call is under way. Checks that every count equals its bits, that every slab is where its state says,
 * and that `current` slabs are CURRENT. `counts`: false if a fork interrupted a call, so that counts may be wrong. */
void world_check(size_t current, bool counts);

#endif
