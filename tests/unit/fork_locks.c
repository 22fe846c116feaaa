/* A fork waits until no thread holds a lock of the heap, and its child can take each of them. */
#include <pthread.h>
#include <unistd.h>

#include "blocks/blocks.h"
#include "check.h"
#include "child.h"
#include "hakmem.h"
#include "inspect/records.h"
#include "pages/retain.h"
#include "system/meta.h"
#include "system/options.h"
#include "system/os.h"
#include "threads/depot.h"
#include "threads/heap.h"

static pthread_barrier_t locked;

/* Holds a lock until another thread waits for it. If a fork forgets the lock, this ends after a while. */
static void *hold_a_lock(void *lock) {
  enum { PATIENCE = 20000 };
  hak_lock(lock);
  pthread_barrier_wait(&locked);
  for (int i = 0; i < PATIENCE && !(atomic_load(&((hak_lock_t *)lock)->word) & HAK_LOCK_WAITERS); i++) {
    hak_os_yield();
  }
  hak_unlock(lock);
  return NULL;
}

static hak_lock_t *held;

static void it_is_free_in_the_child(void) {
  CHECK(hak_lock_try(held));
  hak_unlock(held);
  _exit(0); /* no exit handlers: the thread that held the lock was ending, perhaps with a lock of the sanitizer */
}

static void a_fork_waits_for(hak_lock_t *lock) {
  pthread_t thread;
  held = lock;
  CHECK(pthread_create(&thread, NULL, hold_a_lock, lock) == 0);
  pthread_barrier_wait(&locked);
  child_succeeds(it_is_free_in_the_child);
  CHECK(pthread_join(thread, NULL) == 0 && atomic_load(&lock->word) == 0);
}

static void *put(void *block) {
  CHECK(hak_depot_put(1, (hak_free_block_t *const *)(void *)&block, 1) == 0);
  return NULL;
}

/* The thread finds the only shard locked, and so opens another one. */
static void open_a_lane(void) {
  pthread_t thread;
  hak_free_block_t *block = hak_freed_take_one(1);
  CHECK(block && hak_depots_open() == HAK_CLASS_COUNT);
  hak_mark_free(block);
  hak_lock(&hak_depots[1].lock);
  CHECK(pthread_create(&thread, NULL, put, block) == 0);
  while (hak_depots_open() == HAK_CLASS_COUNT) {
    hak_os_yield();
  }
  hak_unlock(&hak_depots[1].lock);
  CHECK(pthread_join(thread, NULL) == 0);
}

/* In the child, the data under each lock is consistent, and no lock belongs to a thread of the parent. */
static void a_fork_waits_for_every_lock(void) {
  hak_lock_t *const locks[] = {&hak_heaps_lock, &hak_options_lock, &hak_arena.lock, &hak_meta_lock, &hak_samples_lock};
  CHECK(pthread_barrier_init(&locked, NULL, 2) == 0);
  for (size_t i = 0; i < sizeof locks / sizeof locks[0]; i++) {
    a_fork_waits_for(locks[i]);
  }
  open_a_lane();
  for (uint32_t i = 0; i < 2 * HAK_CLASS_COUNT; i++) {
    a_fork_waits_for(&hak_depots[i].lock);
  }
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    a_fork_waits_for(&hak_slab_classes[cls].lock);
  }
}

int main(void) {
  hak_free(hak_malloc(1)); /* links the code that a fork calls */
  child_succeeds(a_fork_waits_for_every_lock);
  return 0;
}
