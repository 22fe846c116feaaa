/* The process from start through forks to exit. */
#include "process.h"

#include "foreign.h"
#include "regions/regions.h"
#include "threads/threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

extern const char hak_process_linked;
const char hak_process_linked = 1; /* see slow.c */

/* Held while fork handlers are registered; its owner may allocate. */
static hak_lock_t registering HAK_START_DATA = HAK_LOCK_INIT;

/* The regions whose locks the fork under way takes. */
static _Thread_local hak_region_t *newest_region __attribute__((tls_model("initial-exec")));

/* Visit every lock, in the order in which a fork takes them; or only those that a thread may have taken, so that a
 * small program's pages are enough. */
static void each_lock(bool all, void (*visit)(hak_lock_t *lock, bool flag), bool flag) {
  visit(&registering, flag);
  hak_region_each_lock(newest_region, visit, flag); /* under a region's lock, its samples are dropped */
  hak_hook_sampler.part.each_lock(visit, flag);
  visit(&hak_heaps_lock, flag);
  visit(&hak_options_lock, flag);
  hak_hook_hardened.part.each_lock(visit, flag);
  for (uint32_t i = 0; (all || hak_depot_is_used()) && i < hak_depots_open(); i++) {
    visit(&hak_depots[i].lock, flag);
  }
  for (uint32_t c = 1; c < HAK_SLAB_KINDS; c++) {
    if (all || hak_slab_was_made(c)) {
      visit(&hak_slab_classes[c].lock, flag);
    }
  }
  visit(&hak_mixed_lock, flag);
  visit(&hak_arena.lock, flag);
  visit(&hak_meta_lock, flag);
}

/* A signal handler may fork while the interrupted code holds locks. */
static _Thread_local bool holds_some __attribute__((tls_model("initial-exec")));

static void note_mine(hak_lock_t *lock, bool forks) {
  holds_some |= forks ? hak_lock_note_fork(lock) : hak_lock_is_mine(lock);
}

/* For a signal handler, which may interrupt a fork. */
static bool holds_a_lock(void) {
  bool saved = holds_some;
  hak_region_t *saved_newest = newest_region;
  holds_some = hak_lock_passes > 0;
  newest_region = hak_region_newest();
  each_lock(false, note_mine, false);
  bool answer = holds_some;
  holds_some = saved;
  newest_region = saved_newest;
  return answer;
}

/* In a fork, libc takes the lock of its list of streams after the handlers ran. The owner of that lock may wait for a
 * stream whose owner allocates. So a fork must take it before the heap's locks. A thread that takes it twice must
 * release it twice. */
void _IO_list_lock(void) __attribute__((weak));
void _IO_list_unlock(void) __attribute__((weak));
void _IO_list_resetlock(void) __attribute__((weak));
extern const char __libc_single_threaded __attribute__((weak)); /* if set, libc keeps that lock in a child */
static _Thread_local bool holds_streams __attribute__((tls_model("initial-exec")));
static _Thread_local bool lacks_some __attribute__((tls_model("initial-exec")));

static void take(hak_lock_t *lock, bool unused) {
  (void)unused;
#ifndef __GLIBC__ /* musl's fork holds the lock of its handler list here, and a registering thread may wait for it */
  if (lock == &registering) {
    return;
  }
#endif
  lacks_some |= !hak_lock_before_fork(lock);
}

static void take_all(void) {
  lacks_some = false;
  newest_region = hak_region_newest();
  holds_streams = _IO_list_lock && !(&__libc_single_threaded && __libc_single_threaded);
  if (holds_streams) {
    _IO_list_lock();
  }
  each_lock(true, take, false);
  lacks_some |= newest_region != hak_region_newest(); /* another region was made meanwhile */
}

static void give_all(bool in_child) {
  each_lock(true, hak_lock_after_fork, in_child);
  if (holds_streams) {
    (in_child ? _IO_list_resetlock : _IO_list_unlock)();
  }
}

/* Libc knows no other thread. No lock can then be held by another, and the child is a copy of all there is. So nothing
 * is written, since every page written would be copied in each fork. */
static _Thread_local bool is_alone __attribute__((tls_model("initial-exec")));

static void before_fork(void) {
  if (hak_lock_passes == 0) {
    is_alone = &__libc_single_threaded && __libc_single_threaded;
  }
  if (is_alone) {
    hak_lock_passes++;
    return;
  }
  uint64_t signals = hak_os_block_signals(); /* a handler that forks then finds either every lock held or none */
  if (hak_lock_passes == 0) {
    holds_some = false;
    newest_region = hak_region_newest();
    each_lock(true, note_mine, true);
    for (take_all(); lacks_some && !holds_some; take_all()) { /* another fork may wait for a lock of this one */
      give_all(false);
      hak_os_yield();
    }
  }
  hak_lock_passes++;
  hak_os_set_blocked_signals(signals);
}

static void after_fork(bool in_child) {
  if (is_alone) {
    hak_lock_passes--;
    return;
  }
  uint64_t signals = hak_os_block_signals();
  if (--hak_lock_passes == 0) {
    give_all(in_child);
  }
  hak_os_set_blocked_signals(signals);
}

static void in_parent(void) {
  after_fork(false);
}

static void in_child(void) {
  if (!is_alone && !holds_some) { /* else this thread is still in the middle of a change */
    hak_purge_fork_child();
  }
  if (!is_alone) {
    hak_pagemap_fork_child();
    hak_region_fork_child();
  }
  hak_heap_t *mine = hak_heap_fork_child(is_alone);
  hak_hook_hardened.part.fork_child(mine);
  hak_hook_sampler.part.fork_child(mine);
  after_fork(true);
}

extern void *__dso_handle __attribute__((visibility("hidden")));

/* The handlers registered first run last before a fork, and first after it. The heap's must be these, because other
 * handlers may wait for threads that allocate. */
int hak_process_register(hak_register_t next, void (*prepare)(void), void (*parent)(void), void (*child)(void),
                         void *module) {
  static bool registered HAK_START_DATA;
  hak_lock(&registering); /* a fork takes it before libc's lock of the handler list, under which libc may allocate */
  if (!registered) {
    registered = next(before_fork, in_parent, in_child, &__dso_handle) == 0;
  }
  int failed = prepare == before_fork ? !registered : next(prepare, parent, child, module);
  hak_unlock(&registering);
  return failed;
}

/* The linker marks libhakmem.so as never unloaded. */
extern const bool hak_never_unloaded __attribute__((weak));

/* If this code is linked into a plugin, it must stay when the plugin is unloaded: ending threads call it, and blocks
 * may live on. */
static void pin(void) {
  if (!&hak_never_unloaded) {
    hak_foreign_object(&hak_process_linked, RTLD_NODELETE);
  }
}

static void start(void) {
  const uint32_t *field = dlsym(RTLD_DEFAULT, "_thread_db_pthread_tid");
  if (!field) {
    dlerror(); /* keeps the program's own pending error */
  }
  hak_heap_set_thread_id_place(field);
  size_t (*stack_min)(const pthread_attr_t *) = NULL; /* glibc's own, which other runtimes use, too */
  *(void **)&stack_min = field ? dlsym(RTLD_DEFAULT, "__pthread_get_minstack") : NULL;
  if (stack_min) {
    hak_os_set_stack_min(stack_min(NULL));
  }
  if (!HAK_MINIMAL) {
    hak_options_load(environ);
    hak_limit_look(); /* before a sandbox closes the files */
    hak_hook_hardened.part.start(holds_a_lock);
    hak_heap_force_slow(0);
    hak_foreign_start();
  }
  pthread_atfork(before_fork, in_parent, in_child);
  pin();
  if (!HAK_MINIMAL) {
    hak_hook_sampler.part.start(holds_a_lock);
  }
}

/* Runs before every other constructor of a program without shared libraries, whose handlers bypass this library. */
__attribute__((section(".init_array.00000"), used)) static void (*const starts_first)(void) = start;

__attribute__((destructor(101))) static void end(void) {
  bool inside = holds_a_lock();               /* a signal handler ends the process during a call of the heap */
  if (!inside && !hak_misuse_is_reported()) { /* else a handler of SIGABRT ends the process */
    hak_heap_verify_mine("free");             /* the last chance to notice a double free */
    hak_hook_hardened.part.exit(inside);
  }
  if (!HAK_MINIMAL) {
    hak_hook_sampler.part.exit(inside);
  }
}
