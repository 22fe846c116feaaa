/* How close the process is to its memory limit, or to its control group's. profile.c calls it. */
#include "headroom.h"

#include "pages/pages.h"

enum { PAUSE_MS = 100, LEAST_STEP = 1 << 20, SHARE_LEFT = 10 };

static struct {
  hak_group_t group;
  _Atomic uint64_t next_ms, next_allocated;
} watched HAK_LARGE_DATA;

void hak_headroom_start(const char *root, const char *process) {
  hak_group_find(&watched.group, root, process);
}

static bool group_near(size_t percent, uint64_t allocated) {
  uint64_t now_ms = hak_os_now_ms();
  if (watched.group.folder[0] == '\0' ||
      (now_ms < atomic_load_explicit(&watched.next_ms, memory_order_relaxed) &&
       allocated < atomic_load_explicit(&watched.next_allocated, memory_order_relaxed))) {
    return false;
  }
  uint64_t enough = watched.group.limit / 100 * percent, used = hak_group_use(&watched.group, enough);
  uint64_t step = used < enough ? (enough - used) / SHARE_LEFT : 0;
  step = step > LEAST_STEP ? step : LEAST_STEP;
  atomic_store_explicit(&watched.next_allocated, allocated + step, memory_order_relaxed);
  atomic_store_explicit(&watched.next_ms, now_ms + PAUSE_MS, memory_order_relaxed);
  return used >= enough;
}

bool hak_headroom_near(size_t percent, uint64_t allocated) {
  size_t limit = hak_limit_bytes() >> HAK_SLICE_SHIFT;
  if (limit > 0 && hak_retain_used_slices() >= limit - limit / 100 * (100 - percent)) {
    return true;
  }
  return group_near(percent, allocated);
}
