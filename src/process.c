/* The life of the process: start, fork, exit. Layers below: all but the entry points. */
#include "arena.h"
#include "foreign.h"
#include "heap.h"
#include "lock.h"
#include "meta.h"
#include "options.h"
#include "stats.h"

#include <pthread.h>
#include <stdio.h>

extern const char hak_process_linked;
const char hak_process_linked = 1; /* see slow.c */

static void before_fork(void) {
  hak_heap_fork_lock();
  hak_slab_fork_lock();
  hak_arena_fork_lock();
  hak_meta_fork_lock();
  hak_lock_passes = true; /* other libraries' handlers may allocate while we hold every lock */
}

static void after_fork(bool in_child) {
  hak_lock_passes = false;
  hak_meta_fork_unlock(in_child);
  hak_arena_fork_unlock(in_child);
  hak_slab_fork_unlock(in_child);
  hak_heap_fork_unlock(in_child);
}

static void in_parent(void) {
  after_fork(false);
}

static void in_child(void) {
  after_fork(true);
}

/* Early among the constructors: fork handlers registered first run last before a fork and first after it. */
__attribute__((constructor(101))) static void start(int argc, char **argv, char **environment) {
  (void)argc;
  (void)argv;
  if (!HAK_MINIMAL) {
    hak_options_load(environment);
    hak_foreign_start();
  }
  pthread_atfork(before_fork, in_parent, in_child);
}

__attribute__((destructor(101))) static void end(void) {
  hak_heap_verify_mine("free"); /* a block freed twice is noticed here at the latest */
  if (!HAK_MINIMAL) {
    hak_stats_at_exit();
  }
}
