/* Capacities in random order: two threads take and free blocks, sleep and are lent room, beside a model that counts
 * blocks where they are and knows the bounds. */
#include "bins.h"
#include "cache.h"
#include "child.h"
#include "setting.h"

enum { HEAPS = 2, STEPS = 20000, WALKS = 6 };

typedef struct Class {
  uint32_t capacity, held, lent;
  uint32_t away;    /* overflowed, and not fetched again */
  size_t for_quota; /* of the capacity, bytes */
  int overflows;    /* since the last refill */
} Class;

static struct Model {
  Class of[HAK_CLASS_COUNT];
} models[HEAPS];

static hak_heap_t heaps[HEAPS];
static size_t threads, class_most, memory_limit;
static uint64_t random_state;

static uint32_t below(uint32_t end) {
  random_state = random_state * 6364136223846793005 + 1442695040888963407;
  return (uint32_t)((random_state >> 33) % end);
}

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

static size_t most(size_t a, size_t b) {
  return a > b ? a : b;
}

static size_t share(void) {
  return most((16 << 20) / threads, 128 << 10);
}

static size_t counted(uint32_t cls, uint32_t blocks) {
  return (hak_class_is_run(cls) ? least(blocks, 1) : blocks) * (size_t)hak_class_sizes[cls];
}

static size_t bytes_of(const struct Model *model, bool quota) {
  size_t bytes = 0;
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    bytes += quota ? model->of[cls].for_quota : counted(cls, model->of[cls].capacity);
  }
  return bytes;
}

/* The bounds of a class, of a thread, and of all of them below a limit. */
static bool is_room(const struct Model *model, uint32_t cls, uint32_t blocks) {
  size_t more = counted(cls, blocks) - counted(cls, model->of[cls].capacity), all = more;
  for (int h = 0; h < HEAPS; h++) {
    all += bytes_of(&models[h], false);
  }
  return (size_t)blocks * hak_class_sizes[cls] <= class_most && blocks <= HAK_MAGAZINE_MAX &&
         bytes_of(model, false) + more <= share() && !(hak_class_is_run(cls) && blocks > 1) &&
         (memory_limit == 0 || all <= memory_limit / 4);
}

static void set(Class *class, uint32_t cls, uint32_t capacity) {
  class->capacity = capacity;
  class->for_quota = least(class->for_quota, (size_t)capacity * hak_class_sizes[cls]);
}

static bool from_quota(struct Model *model, uint32_t cls, uint32_t capacity) {
  Class *class = &model->of[cls];
  size_t more = (size_t)(capacity - class->capacity) * hak_class_sizes[cls];
  bool granted = is_room(model, cls, capacity) && bytes_of(model, true) + more <= share() / 8;
  if (granted) {
    class->for_quota += more;
    class->capacity = capacity;
  }
  return granted;
}

static void take(hak_heap_t *heap, struct Model *model, uint32_t cls) {
  Class *class = &model->of[cls];
  if (class->held > 0) {
    class->held--;
    return;
  }
  uint32_t fetched = heap->info[cls].fetched, want = hak_policy_refill(&heap->info[cls], cls);
  CHECK(want == 1 ||
        (size_t)want * hak_class_sizes[cls] <= most(1024, least(16 << 10, fetched / 2UL * hak_class_sizes[cls])));
  hak_policy_fetched(heap, cls, want);
  uint32_t again = want < class->away ? want : class->away;
  if (is_room(model, cls, class->capacity + again)) {
    class->capacity += again;
  }
  class->away -= again;
  class->held = want - 1;
  class->overflows = 0;
}

/* A thread that only frees gathers 16 KiB for those that take it up, and what it had, but no more, where none does. */
static void gather(hak_heap_t *heap, struct Model *model, uint32_t cls) {
  Class *class = &model->of[cls];
  uint32_t batch = (uint32_t)most((16 << 10) / hak_class_sizes[cls], 1);
  bool taken_up = below(2);
  hak_policy_passed(heap, cls, taken_up);
  if (!taken_up && class->capacity > batch) {
    set(class, cls, (uint32_t)most(class->capacity / 2, batch));
  } else if (taken_up && class->capacity < batch) {
    (void)from_quota(model, cls, (uint32_t)least(2UL * class->capacity, batch));
  }
}

static void put(hak_heap_t *heap, struct Model *model, uint32_t cls) {
  Class *class = &model->of[cls];
  if (class->held >= class->capacity) {
    const size_t size = hak_class_sizes[cls];
    hak_overflow_t what = hak_policy_overflow(heap, cls);
    uint32_t start = (uint32_t)most(least(8 << 10, class_most) / size, 1), keep = class->capacity / 2;
    if (class->capacity == 0 && !hak_class_is_run(cls) && from_quota(model, cls, start)) {
      CHECK(what == HAK_OVERFLOW_GROWN);
    } else if (++class->overflows > 3) {
      CHECK(what == HAK_OVERFLOW_FREES);
      class->away += class->capacity;
      class->held = 0;
      class->away += class->capacity == 0;
      gather(heap, model, cls);
    } else if (class->capacity > 0) {
      CHECK(what == HAK_OVERFLOW_HALF);
      class->away += class->capacity - keep; /* of blocks that came unasked none was missed */
      class->held = keep;
    } else {
      CHECK(what == HAK_OVERFLOW_NONE);
      class->away++;
    }
  }
  class->held += class->held < class->capacity;
}

/* What a look at the clock does: the class was not touched, or half of it was not. */
static void look(hak_heap_t *heap, struct Model *model, uint32_t cls) {
  Class *class = &model->of[cls];
  if (below(2)) {
    hak_policy_idle(heap, cls);
    *class = (Class){.away = class->away, .overflows = class->overflows};
  } else {
    uint32_t half = class->held / 2, capacity = class->capacity > half ? class->capacity - half : 0;
    heap->info[cls].returned += half;
    hak_policy_set_capacity(heap, cls, capacity);
    class->away += half;
    class->held -= half;
    set(class, cls, capacity);
  }
}

static void lend(hak_heap_t *heap, struct Model *model, uint32_t cls) {
  Class *class = &model->of[cls];
  uint32_t blocks = 1 + below(40);
  size_t lent = (size_t)blocks * hak_class_sizes[cls];
  for (int h = 0; h < HEAPS; h++) {
    for (uint32_t c = 1; c <= HAK_GRANT_LAST; c++) {
      lent += (size_t)models[h].of[c].lent * hak_class_sizes[c];
    }
  }
  bool may = lent <= 512 << 10 && !heap->info[cls].closed;
  CHECK(hak_policy_lend(heap, cls, blocks) == may);
  class->lent += may ? blocks : 0;
  class->capacity += may ? blocks : 0;
}

static void take_back(hak_heap_t *heap, struct Model *model, uint32_t cls) {
  Class *class = &model->of[cls];
  hak_policy_take_back(heap, cls);
  set(class, cls, class->capacity > class->lent ? class->capacity - class->lent : 0);
  class->lent = 0;
}

static void begin_anew(hak_heap_t *heap, struct Model *model) {
  hak_policy_close(heap);
  hak_cache_open(heap);
  *model = (struct Model){0};
}

static void step(hak_heap_t *heap, struct Model *model, uint32_t cls) {
  uint32_t what = below(1000), count = 1 + below(200);
  if (what < 400) {
    for (; count > 0; count--) {
      take(heap, model, cls);
    }
  } else if (what < 960) {
    for (; count > 0; count--) {
      put(heap, model, cls);
    }
  } else if (what < 980) {
    look(heap, model, cls);
  } else if (what < 990) {
    (below(2) ? lend : take_back)(heap, model, 1 + cls % HAK_GRANT_LAST);
  } else if (below(20) == 0) {
    begin_anew(heap, model);
  }
}

static void walk(void) {
  static const char *const settings[] = {"HAKMEM_MEMORY_LIMIT=0",     "HAKMEM_MEMORY_LIMIT=6M",
                                         "HAKMEM_CACHE_CLASS_MAX=4K", "HAKMEM_CACHE_CLASS_MAX=50K",
                                         "HAKMEM_PROFILE=lean",       "HAKMEM_CACHE_CLASS_MAX=64M"};
  set_variable(settings[random_state % WALKS]);
  class_most = hak_option_size(HAK_OPTION_CACHE_BYTES);
  memory_limit = hak_option_size(HAK_OPTION_MEMORY_LIMIT);
  for (int h = 0; h < HEAPS; h++) {
    bins_open(&heaps[h]);
  }
  uint32_t few = 1 + below(20); /* classes, so that some grow */
  for (int i = 0; i < STEPS; i++) {
    if (i % 1000 == 0) {
      threads = (size_t)1 << below(12);
      hak_cache_set_open(threads);
    }
    uint32_t h = below(HEAPS), cls = 1 + (below(few) * 7 + (uint32_t)i / 8192) % (HAK_CLASS_COUNT - 1);
    step(&heaps[h], &models[h], cls);
    const hak_bin_info_t *info = &heaps[h].info[cls];
    const Class *class = &models[h].of[cls];
    CHECK(hak_bin_capacity(info) == class->capacity && info->returned == class->away);
    CHECK(info->quota_bytes == class->for_quota && info->lent == class->lent);
    bins_capacities_add_up(&heaps[h]);
  }
}

int main(void) {
  for (random_state = 0; random_state < WALKS; random_state++) {
    child_succeeds(walk);
  }
  return 0;
}
