/* Periodic work, and the background thread. The caches call it; depot, slabs and arena do the work. */
#include "background.h"

#include <errno.h>

#include "blocks/blocks.h"
#include "depot.h"

enum {
  AUTO_THREADS = 2,                       /* with as many threads, `auto` adds one */
  SLEEPS_AT = 2 * HAK_TROUGH_WINDOWS + 4, /* ticks without an active thread until retention has forgotten the load */
  STOP = 1 << 16,
  END_MS = 1000 /* the longest wait for the background thread's end */
};

static struct {
  _Atomic uint32_t idle_ticks; /* since a thread was active; STOP: the background thread shall end */
  _Atomic bool runs;           /* from before the start of the background thread until its end */
  _Atomic bool entered;        /* it has begun; before, a library that intercepts its start may give it a heap */
  _Atomic uint32_t thread;     /* the background thread that was started last; 0: it is known to be gone */
  _Atomic bool allowed;        /* the option and the number of threads allow one */
  _Atomic bool wanted;         /* the next thread that may start it does */
  _Atomic uint64_t allowed_ms; /* when `allowed` became true, or a start failed */
  uint64_t several_ms;         /* since when there are several threads, or 0; lock: that of the heaps */
  _Atomic uint64_t ran_ms;     /* how long there were, if the last of them just ended */
} background;

static uint64_t half_window_ms(void) {
  int64_t half_ms = hak_option(HAK_OPTION_DECAY) / 2;
  return half_ms > HAK_TICK_MIN_MS ? (uint64_t)half_ms : HAK_TICK_MIN_MS;
}

static bool is_allowed(void) {
  return atomic_load_explicit(&background.allowed, memory_order_relaxed);
}

static void want(void) {
  if (!atomic_load_explicit(&background.runs, memory_order_relaxed)) {
    atomic_store_explicit(&background.wanted, true, memory_order_relaxed);
  }
}

static void tick(uint64_t now_ms) {
  hak_purge_tick(now_ms);
  if (hak_purge_window_ended()) {
    hak_sweep_decay();
    hak_depot_begin();
  }
}

void hak_background_tick(uint64_t now_ms) {
  tick(now_ms);
  if (is_allowed() && now_ms >= atomic_load_explicit(&background.allowed_ms, memory_order_relaxed) + half_window_ms()) {
    want();
  }
}

/* A stop after the first line ends the wait that follows: it gives the word another value. */
static bool goes_on(uint32_t *ticks) {
  *ticks = atomic_fetch_and(&background.idle_ticks, STOP - 1) & (STOP - 1);
  return atomic_load(&background.allowed);
}

static void end(void) {
  atomic_store(&background.idle_ticks, 0);
  atomic_store(&background.runs, false);
}

/* A tick adds at most half a window to the age of the present one. So the thread ticks every half window, and its
 * pauses count in full. A program that did nothing for long enough has nothing left to purge: the thread sleeps until a
 * thread is active. */
static void *work(void *signals) {
  atomic_store(&background.entered, true);
  atomic_store(&background.thread, hak_os_enter_background("hakmem", signals));
  for (uint32_t ticks; goes_on(&ticks);) {
    if (ticks < SLEEPS_AT) {
      hak_os_wait(&background.idle_ticks, ticks, half_window_ms());
      tick(hak_os_now_ms());
      while (is_allowed() && (hak_sweep_step() || hak_purge_step())) {
      }
      atomic_compare_exchange_strong(&background.idle_ticks, &ticks, ticks + 1); /* unless a thread was active */
    } else {
      hak_os_wait(&background.idle_ticks, ticks, UINT64_MAX);
    }
  }
  end();
  if (is_allowed()) {
    want();
  }
  return NULL;
}

static bool start_thread(void) {
  atomic_store(&background.entered, false);
  return atomic_load(&background.allowed) && hak_os_start_thread(work);
}

/* The C library does not know a child of vfork, or of a bare system call, and cannot start threads for it. The new
 * thread would inherit a real-time priority. A thread that ends either sees `runs`, or is seen in `allowed`. */
HAK_COLD static void start(void) {
  atomic_store_explicit(&background.wanted, false, memory_order_relaxed);
  if (is_allowed() && !hak_os_is_filtered() && hak_os_is_known_thread() && !hak_os_is_real_time() &&
      !atomic_exchange(&background.runs, true) && !start_thread()) {
    atomic_store_explicit(&background.allowed_ms, hak_os_now_ms(), memory_order_relaxed); /* another try in a while */
    end();
  }
}

void hak_background_ensure(void) {
  if (HAK_UNLIKELY(atomic_load_explicit(&background.wanted, memory_order_relaxed))) {
    start();
  }
}

void hak_background_wake(void) {
  if (HAK_UNLIKELY(atomic_load_explicit(&background.idle_ticks, memory_order_relaxed) != 0) &&
      atomic_fetch_and(&background.idle_ticks, STOP) == SLEEPS_AT) {
    hak_os_wake(&background.idle_ticks);
  }
}

static void time_several(bool several) {
  if (several != (background.several_ms != 0)) {
    uint64_t now_ms = hak_os_now_ms();
    atomic_store(&background.ran_ms, several ? 0 : now_ms - background.several_ms);
    background.several_ms = several ? now_ms : 0;
  }
}

void hak_background_set_threads(size_t threads) {
  int64_t option = hak_option(HAK_OPTION_BACKGROUND);
  threads -= threads > 0 && atomic_load(&background.runs) && !atomic_load(&background.entered);
  time_several(threads >= AUTO_THREADS);
  bool allowed = option != 0 && threads >= (option == HAK_OPTION_AUTO ? AUTO_THREADS : 1);
  if (allowed && !is_allowed()) {
    atomic_store_explicit(&background.allowed_ms, hak_os_now_ms(), memory_order_relaxed);
    atomic_store(&background.allowed, true);
  } else if (!allowed && is_allowed()) {
    atomic_store(&background.allowed, false);
    if (atomic_load(&background.runs)) {
      atomic_fetch_or(&background.idle_ticks, STOP);
      hak_os_wake(&background.idle_ticks);
    }
  }
  if (allowed && option == 1) {
    want();
  }
}

static bool is_there(void) {
  if (atomic_load(&background.runs)) {
    return true;
  }
  uint32_t thread = atomic_load(&background.thread);
  if (thread == 0 || hak_os_has_other_thread(thread)) {
    return thread != 0;
  }
  atomic_compare_exchange_strong(&background.thread, &thread, 0); /* another thread may get the number */
  return false;
}

void hak_background_thread_ends(void) {
  uint64_t until_ms = hak_os_now_ms() + END_MS;
  while (!is_allowed() && is_there() && hak_os_now_ms() < until_ms) {
    hak_os_yield();
  }
  uint64_t ran_ms = atomic_load_explicit(&background.ran_ms, memory_order_relaxed);
  if (ran_ms > 0 && !is_allowed()) {
    int saved = errno;
    hak_purge_spare(atomic_exchange(&background.ran_ms, 0) * HAK_ENDED_CHUNKS / half_window_ms());
    errno = saved;
  }
}

void hak_background_fork_child(size_t threads) {
  if (atomic_load(&background.runs) || atomic_load(&background.thread) != 0) { /* else no page is copied */
    end();
    atomic_store(&background.thread, 0);
  }
  hak_background_set_threads(threads);
}
