/* Periodic work, and the purging thread of HAKMEM_BACKGROUND. The caches call it; depot, slabs and arena do the
 * work. */
#include "background.h"

#include "blocks/blocks.h"
#include "depot.h"

static _Atomic bool runs; /* also set if the thread could not start */

void hak_background_tick(uint64_t now_ms) {
  hak_purge_tick(now_ms);
  if (hak_purge_window_ended()) {
    hak_sweep_decay();
    hak_depot_begin();
  }
}

/* A tick adds at most half a window to the age of the present one. So the thread ticks every half window, and its
 * pauses count in full. */
static void *work(void *unused) {
  (void)unused;
  hak_os_name_thread("hakmem");
  while (!hak_os_is_last_thread()) { /* libc ends a process with its last thread, which this one must not be */
    int64_t half_ms = hak_option(HAK_OPTION_DECAY) / 2;
    hak_os_sleep_ms(half_ms > HAK_TICK_MIN_MS ? (uint64_t)half_ms : HAK_TICK_MIN_MS);
    hak_background_tick(hak_os_now_ms());
    while (hak_sweep_step()) {
    }
    while (hak_purge_step()) {
    }
  }
  return NULL;
}

void hak_background_ensure(void) {
  if (HAK_UNLIKELY(hak_option(HAK_OPTION_BACKGROUND)) && !atomic_exchange_explicit(&runs, true, memory_order_relaxed)) {
    hak_os_start_thread(work);
  }
}

void hak_background_fork_child(void) {
  if (atomic_load_explicit(&runs, memory_order_relaxed)) { /* else the page would be copied for nothing */
    atomic_store_explicit(&runs, false, memory_order_relaxed);
  }
}
