/* The life of the process: start, fork, exit. Layers below: all but the entry points. */
#include "arena.h"
#include "arena_internal.h"
#include "foreign.h"
#include "grants.h"
#include "heap.h"
#include "layout.h"
#include "meta.h"
#include "modules.h"
#include "options.h"
#include "os.h"
#include "profile.h"
#include "sample.h"
#include "sites.h"
#include "slab.h"
#include "stats.h"
#include "transfer.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

extern const char hak_process_linked;
const char hak_process_linked = 1; /* see slow.c */
/* The same for layout.c. */
__attribute__((used)) static const hak_layout_t *const layout_anchor = &hak_layout;

const hak_hook_t *const hak_hook = &hak_inspection;

/* Every lock, in the order in which a fork takes them. */
static void each_lock(void (*visit)(hak_lock_t *lock, bool flag), bool flag) {
  visit(&hak_profile_lock, flag);
  visit(&hak_modules_lock, flag);
  visit(&hak_sites_lock, flag);
  visit(&hak_heaps_lock, flag);
  visit(&hak_options_lock, flag);
  visit(&hak_samples_lock, flag);
  for (uint32_t c = 1; c < HAK_RUN_FIRST; c++) {
    visit(hak_transfer_lock(c), flag);
    visit(&hak_slab_classes[c].lock, flag);
  }
  visit(&hak_arena.lock, flag);
  visit(&hak_meta_lock, flag);
}

/* A signal handler may fork while the code that it interrupted holds locks. */
static _Thread_local bool holds_some __attribute__((tls_model("initial-exec")));

static void note_mine(hak_lock_t *lock, bool unused) {
  (void)unused;
  holds_some |= hak_lock_is_mine(lock);
}

/* A signal handler asks; it may interrupt a fork. */
static bool holds_a_lock(void) {
  bool saved = holds_some;
  holds_some = hak_lock_passes;
  each_lock(note_mine, false);
  bool answer = holds_some;
  holds_some = saved;
  return answer;
}

static void before_fork(void) {
  holds_some = false;
  each_lock(note_mine, false);
  each_lock(hak_lock_before_fork, holds_some);
  hak_lock_passes = true; /* other libraries' handlers may allocate while we hold every lock */
}

static void in_parent(void) {
  hak_lock_passes = false;
  each_lock(hak_lock_after_fork, false);
}

static void in_child(void) {
  if (!holds_some) { /* else the thread goes on in the middle of a change */
    hak_arena_fork_child();
  }
  hak_pagemap_fork_child();
  hak_heap_fork_child();
  hak_lock_passes = false;
  each_lock(hak_lock_after_fork, true);
}

/* libhakmem.so is linked so that it is never unloaded. */
extern const bool hak_never_unloaded __attribute__((weak));

/* Linked into a plugin, this code must stay when the plugin goes: ends of threads call it, and blocks may live on. */
static void pin(void) {
  if (!&hak_never_unloaded) {
    hak_foreign_object(&hak_process_linked, RTLD_NODELETE);
  }
}

/* Early among the constructors: fork handlers registered first run last before a fork and first after it. */
__attribute__((constructor(101))) static void start(void) {
  if (!HAK_MINIMAL) {
    hak_options_load(environ);
    hak_foreign_start();
  }
  hak_arena_try_medium();
  pthread_atfork(before_fork, in_parent, in_child);
  pin();
  if (!HAK_MINIMAL) {
    hak_sample_start_up();
    hak_profile_start_up(holds_a_lock);
  }
}

__attribute__((destructor(101))) static void end(void) {
  hak_heap_verify_mine("free"); /* a block freed twice is noticed here at the latest */
  hak_transfer_verify("free");
  if (!HAK_MINIMAL) {
    hak_profile_at_exit();
    hak_stats_at_exit();
  }
}
