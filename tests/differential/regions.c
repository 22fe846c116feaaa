/* The trial `apart`: threads with regions of their own exchange blocks, end regions in every way, and the process forks
 * meanwhile. Only hakmem has regions: with others, the trial does nothing. */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "machine.h"
#include "names.h"

enum { MOST_TEAM = 16, STRIDE = 1024 /* slots from thread to thread */, OWN = 64, POOL = 96, CHILD_SECONDS = 30 };

struct member {
  pthread_t id;
  struct context context;
  const struct op *op;
};

static struct {
  hak_region_t *(*make)(const hak_region_options_t *options);
  void *(*take)(hak_region_t *region, size_t bytes);
  bool (*enter)(hak_region_t *region);
  void (*leave)(hak_region_t *region), (*retire)(hak_region_t *region), (*reset)(hak_region_t *region);
  void (*destroy)(hak_region_t *region), (*release)(hak_region_t *region);
  bool (*usage)(const hak_region_t *region, hak_region_usage_t *usage);
  hak_region_t *(*of)(const void *block);
} api;

static hak_region_t *parent;
static _Thread_local hak_region_t *mine;
static atomic_int running;

#ifdef HAK_TEST_STANDARD_NAMES
#define SYMBOL(name) dlsym(RTLD_DEFAULT, #name)
#else
#define SYMBOL(name) ((void *)(uintptr_t)(name))
#endif

static void find_api(void) {
  *(void **)&api.make = SYMBOL(hak_region_new);
  *(void **)&api.take = SYMBOL(hak_region_malloc);
  *(void **)&api.enter = SYMBOL(hak_region_enter);
  *(void **)&api.leave = SYMBOL(hak_region_leave);
  *(void **)&api.retire = SYMBOL(hak_region_retire);
  *(void **)&api.reset = SYMBOL(hak_region_reset);
  *(void **)&api.destroy = SYMBOL(hak_region_destroy);
  *(void **)&api.release = SYMBOL(hak_region_release);
  *(void **)&api.usage = SYMBOL(hak_region_usage);
  *(void **)&api.of = SYMBOL(hak_region_of);
}

void *region_take(size_t bytes) {
  return mine ? api.take(mine, bytes) : hak_malloc(bytes);
}

/* From the thread's region: by name, or by an ordinary call inside its scope. */
static void fill(struct context *context, const struct op *op, struct slot *slot) {
  size_t bytes = between(context, op->x, op->y);
  bool scope = mine && (op->how & 255) != MALLOC && api.enter(mine);
  if (scope || !mine) {
    slot_fill(context, slot, op->how, bytes, op->touch);
  } else {
    slot_fill(context, slot, REGION, bytes, op->touch);
  }
  if (scope) {
    api.leave(mine);
  }
  if (slot->block && mine && bytes > 0 && api.of(slot->block) != mine) {
    fail("a block is not in its region");
  }
}

/* The blocks of slots whose region goes with all of them. */
static void forget(struct context *context, const struct op *op) {
  for (int64_t i = 0; i < OWN; i++) {
    struct slot *slot = slot_at(context, op, i);
    if (slot->block) {
      slot_check(slot);
      measure_live(-(int64_t)slot->bytes);
      slot->block = NULL;
    }
  }
}

/* Fill and empty slots of the thread, then end all blocks of its region at once. */
static void lead_life(struct context *context, const struct op *op) {
  mine = api.make(&(hak_region_options_t){.name = "own", .parent = parent});
  for (int64_t n = 0; n < op->z; n++) {
    struct slot *slot = slot_at(context, op, (int64_t)(next_chance(context) % OWN));
    uint64_t chance = next_chance(context) % 4;
    if (!slot->block) {
      fill(context, op, slot);
    } else if (chance == 0) {
      slot_resize(context, slot, between(context, op->x, op->y) | 1, 0, 100);
    } else {
      slot_empty(context, slot);
    }
    if (n % 64 == 63 && mine) {
      forget(context, op);
      api.reset(mine);
    }
  }
  if (mine) {
    forget(context, op);
    api.destroy(mine);
  }
  mine = NULL;
}

/* Blocks of the pool are freed by whichever thread comes next. So their regions are released, or end by themselves. */
static void exchange(struct context *context, const struct op *op) {
  struct context unmoved = *context;
  unmoved.offset = 0;
  mine = api.make(&(hak_region_options_t){.name = "pool", .parent = parent});
  for (int64_t n = 0; n < op->z; n++) {
    struct slot *slot = slot_at(&unmoved, op, (int64_t)(next_chance(context) % POOL));
    while (atomic_flag_test_and_set_explicit(&slot->busy, memory_order_acquire)) {
      sched_yield();
    }
    fill(context, op, slot);
    atomic_flag_clear_explicit(&slot->busy, memory_order_release);
  }
  if (mine) {
    next_chance(context) % 2 ? api.release(mine) : api.retire(mine);
  }
  mine = NULL;
}

static void *live_apart(void *argument) {
  struct member *self = argument;
  for (int turn = 0; turn < 3; turn++) {
    lead_life(&self->context, self->op);
    exchange(&self->context, self->op);
  }
  atomic_fetch_sub(&running, 1);
  return NULL;
}

/* Every region is whole, and ends while the threads that used it are lost. */
static void in_child(struct context *context, const struct op *op) {
  alarm(CHILD_SECONDS);
  mine = parent;
  context->offset = (MOST_TEAM + 1) * STRIDE;
  for (int64_t i = 0; i < OWN; i++) {
    fill(context, op, slot_at(context, op, i));
  }
  forget(context, op);
  api.destroy(parent);
  _exit(0);
}

static void expect_empty(void) {
  hak_region_usage_t usage;
  if (!api.usage(parent, &usage) || usage.used_bytes > 0) {
    fail("bytes of regions that ended still count in their parent");
  }
  api.destroy(parent);
}

/* count: threads; x, y: least and most bytes; z: requests of each turn. */
void apart(struct context *context, const struct op *op) {
  struct member team[MOST_TEAM];
  int begun = 0;
  if (!is_ours()) {
    return;
  }
  find_api();
  parent = api.make(&(hak_region_options_t){.name = "parent"});
  if (!parent) {
    measure_refusal();
    return;
  }
  atomic_store(&running, (int)(op->count < MOST_TEAM ? op->count : MOST_TEAM));
  for (int wanted = atomic_load(&running); wanted > 0; wanted--) {
    team[begun] = (struct member){.context = *context, .op = op};
    team[begun].context.offset = (begun + 1) * STRIDE;
    team[begun].context.chance = next_chance(context);
    if (pthread_create(&team[begun].id, NULL, live_apart, &team[begun]) == 0) {
      begun++;
    } else {
      atomic_fetch_sub(&running, 1);
      measure_refusal();
    }
  }
  for (int forks = 0; forks < 8 && atomic_load(&running) > 0; forks++) {
    pid_t child = fork();
    if (child == 0) {
      in_child(context, op);
    }
    if (child > 0) {
      await_child(child);
    }
  }
  for (int m = 0; m < begun; m++) {
    pthread_join(team[m].id, NULL);
  }
  for (int64_t i = 0; i < POOL; i++) {
    slot_empty(context, slot_at(context, op, i));
  }
  expect_empty();
}
