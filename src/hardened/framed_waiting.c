/* Freed framed runs of the hardened profile. framed.c stands above. */
#include "framed_waiting.h"

#include "blocks/blocks.h"

enum {
  WAITING_BYTES = 512 << 10, /* of each class, in order; as many more are ready */
  WAITING_MIN = 2,
  WAITING_MAX = HAK_FRAMED_WAITING_MAX,
};

/* The block itself tells its run and its class. */
typedef struct waiting {
  uint32_t next, ready_count;
  char *queue[WAITING_MAX], *ready[WAITING_MAX];
} waiting_t;

hak_lock_t hak_framed_lock = HAK_LOCK_INIT;
static waiting_t waiting[HAK_CLASS_COUNT - HAK_RUN_FIRST] HAK_LARGE_DATA;

static uint32_t places_of(uint32_t cls) {
  uint32_t places = WAITING_BYTES / hak_class_sizes[cls];
  return places < WAITING_MIN ? WAITING_MIN : places > WAITING_MAX ? WAITING_MAX : places;
}

/* Statistics, and a look whether any is ready, take no lock. */
static void set_ready_count_locked(waiting_t *in, uint32_t count) {
  __atomic_store_n(&in->ready_count, count, __ATOMIC_RELAXED);
}
static void set_queued_locked(waiting_t *in, uint32_t at, char *block) {
  __atomic_store_n(&in->queue[at], block, __ATOMIC_RELAXED);
}

/* Returns the block that has no place any more, or NULL. */
static char *put_locked(waiting_t *in, char *block, uint32_t places) {
  char *older = block;
  if (hak_hard.delay_bytes > 0) {
    older = in->queue[in->next];
    set_queued_locked(in, in->next, block);
    in->next = (in->next + 1) % places;
  }
  if (older && in->ready_count < places) {
    in->ready[in->ready_count] = older;
    set_ready_count_locked(in, in->ready_count + 1);
    return NULL;
  }
  return older;
}

char *hak_framed_put(uint32_t cls, char *block) {
  hak_lock(&hak_framed_lock);
  block = put_locked(&waiting[cls - HAK_RUN_FIRST], block, places_of(cls));
  hak_unlock(&hak_framed_lock);
  return block;
}

char *hak_framed_take_ready(uint32_t cls) {
  waiting_t *in = &waiting[cls - HAK_RUN_FIRST];
  char *block = NULL;
  if (__atomic_load_n(&in->ready_count, __ATOMIC_RELAXED) == 0) {
    return NULL;
  }
  hak_lock(&hak_framed_lock);
  if (in->ready_count > 0) {
    uint32_t last = in->ready_count - 1, at = hak_chance(last + 1);
    block = in->ready[at];
    in->ready[at] = in->ready[last];
    set_ready_count_locked(in, last);
  }
  hak_unlock(&hak_framed_lock);
  return block;
}

char *hak_framed_take_place(uint32_t place, bool delayed) {
  waiting_t *in = &waiting[place / (2 * WAITING_MAX)];
  char *block = NULL;
  hak_lock(&hak_framed_lock);
  if (place / WAITING_MAX % 2 == 0 && delayed) {
    block = in->queue[place % WAITING_MAX];
    set_queued_locked(in, place % WAITING_MAX, NULL);
  } else if (place / WAITING_MAX % 2 == 1 && in->ready_count > 0) {
    block = in->ready[in->ready_count - 1];
    set_ready_count_locked(in, in->ready_count - 1);
  }
  hak_unlock(&hak_framed_lock);
  return block;
}

size_t hak_framed_waiting(uint32_t cls) {
  size_t count = 0;
  if (hak_class_is_run(cls)) {
    const waiting_t *in = &waiting[cls - HAK_RUN_FIRST];
    count = __atomic_load_n(&in->ready_count, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < WAITING_MAX; i++) {
      count += __atomic_load_n(&in->queue[i], __ATOMIC_RELAXED) != NULL;
    }
  }
  return count;
}
