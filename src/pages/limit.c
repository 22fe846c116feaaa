/* The limits of the whole process. grow.c keeps within them, and profile.c asks how near they are. */
#include "limit.h"

#include "retain.h"

enum { PAUSE_MS = 100, NEAR_PART = 4, STEP_PART = 10, STEP_LEAST = 1 << 20 };

static struct {
  _Atomic size_t soft;     /* in bytes; 0: none */
  _Atomic size_t of_group; /* the hard limit by the control group; 0: none */
  _Atomic uint64_t next_ms, met;
} limits;

_Thread_local bool hak_limit_soft_met __attribute__((tls_model("initial-exec")));

size_t hak_limit_bytes(void) {
  int64_t value = hak_option(HAK_OPTION_MEMORY_LIMIT);
  return value >= 0 ? (size_t)value : atomic_load_explicit(&limits.of_group, memory_order_relaxed);
}

size_t hak_limit_soft_bytes(void) {
  return atomic_load_explicit(&limits.soft, memory_order_relaxed);
}

void hak_limit_set(size_t soft, size_t hard) {
  atomic_store_explicit(&limits.soft, soft, memory_order_relaxed);
  hak_option_put(HAK_OPTION_MEMORY_LIMIT, hard < (size_t)INT64_MAX ? (int64_t)hard : INT64_MAX);
}

size_t hak_limit_used_bytes(void) {
  hak_arena_totals_t totals = hak_arena_totals();
  size_t slices = totals.used_slices + totals.apart_slices + totals.dirty_slices;
  return (slices << HAK_SLICE_SHIFT) + hak_meta_mapped_bytes();
}

bool hak_limit_passes_soft(size_t bytes) {
  size_t soft = hak_limit_soft_bytes();
  hak_arena_totals_t totals = soft > 0 ? hak_arena_totals() : (hak_arena_totals_t){0};
  return soft > 0 && ((totals.used_slices + totals.apart_slices) << HAK_SLICE_SHIFT) + bytes > soft;
}

/* What others in the group use is not this heap's, so the heap may fill what the group has left. If the kernel reclaims
 * from the group and little is left, free memory is purged, since it is worth less than what the kernel would take. */
void hak_limit_look_at(const char *root, const char *process, uint64_t percent) {
  hak_group_t group;
  uint64_t allowed = 0, met = 0, most = 0, use = 0;
  if (hak_group_find(&group, root, process)) {
    use = hak_group_use(&group, 0);
    met = hak_group_met(&group);
    most = group.limit / 100 * percent;
    allowed = hak_limit_used_bytes() + (most > use ? most - use : 0);
    allowed = allowed < most ? allowed : most;
    allowed = allowed > 0 ? allowed : 1;
  }
  atomic_store_explicit(&limits.of_group, (size_t)allowed, memory_order_relaxed);
  uint64_t before = atomic_exchange_explicit(&limits.met, met, memory_order_relaxed);
  if (met > before && use >= most - most / NEAR_PART) {
    hak_purge_all(0);
  }
}

void hak_limit_look(void) {
  int64_t value = hak_option(HAK_OPTION_MEMORY_LIMIT);
  if (HAK_LIKELY(value >= 0) || hak_os_is_filtered()) { /* a filter may kill for a file that is opened */
    return;
  }
  uint64_t now_ms = hak_os_now_ms(), due = atomic_load_explicit(&limits.next_ms, memory_order_relaxed);
  if (now_ms >= due && atomic_compare_exchange_strong_explicit(&limits.next_ms, &due, now_ms + PAUSE_MS,
                                                               memory_order_relaxed, memory_order_relaxed)) {
    hak_limit_look_at("/sys/fs/cgroup", "/proc/self", (uint64_t)-value);
  }
}

/* For hak_limit_near. */
static struct {
  hak_group_t group;
  _Atomic uint64_t next_ms, next_allocated;
} watched HAK_LARGE_DATA;

void hak_limit_watch(const char *root, const char *process) {
  hak_group_find(&watched.group, root, process);
}

static bool group_is_near(size_t percent, uint64_t allocated) {
  uint64_t now_ms = hak_os_now_ms();
  if (watched.group.folder[0] == '\0' ||
      (now_ms < atomic_load_explicit(&watched.next_ms, memory_order_relaxed) &&
       allocated < atomic_load_explicit(&watched.next_allocated, memory_order_relaxed))) {
    return false;
  }
  uint64_t enough = watched.group.limit / 100 * percent, used = hak_group_use(&watched.group, enough);
  uint64_t step = used < enough ? (enough - used) / STEP_PART : 0;
  step = step > STEP_LEAST ? step : STEP_LEAST;
  atomic_store_explicit(&watched.next_allocated, allocated + step, memory_order_relaxed);
  atomic_store_explicit(&watched.next_ms, now_ms + PAUSE_MS, memory_order_relaxed);
  return used >= enough;
}

bool hak_limit_near(size_t percent, uint64_t allocated) {
  size_t limit = hak_limit_bytes() >> HAK_SLICE_SHIFT;
  bool near = limit > 0 && hak_retain_used_slices() >= limit - limit / 100 * (100 - percent);
  return near || (!hak_os_is_filtered() && group_is_near(percent, allocated));
}
