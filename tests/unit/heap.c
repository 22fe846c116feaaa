/* The heaps of threads: made once, reused, given up at the end of a thread, adopted after a fork. */
#include "threads/heap.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "blocks/slab.h"
#include "check.h"
#include "child.h"
#include "hakmem.h"
#include "inspect/records.h"
#include "inspect/stats.h"
#include "pages/retain.h"
#include "system.h"
#include "system/meta.h"
#include "system/options.h"
#include "system/os.h"
#include "threads/depot.h"

static size_t cached_blocks(void) {
  hak_heap_totals_t totals[HAK_BIN_COUNT];
  size_t blocks = 0;
  hak_stats_heaps(totals);
  for (int cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    blocks += totals[cls].cached_blocks;
  }
  return blocks;
}

static void *use_a_heap(void *heap) {
  CHECK(hak_heap == HAK_HEAP_NONE);
  for (size_t bytes = 1; bytes < 5000; bytes = bytes * 2 + 1) {
    void *block = hak_malloc(bytes);
    CHECK(block != NULL);
    hak_free(block);
  }
  CHECK(hak_heap != HAK_HEAP_NONE && hak_heap == hak_heap_mine());
  *(hak_heap_t **)heap = hak_heap;
  return NULL;
}

static void run_thread(void *(*body)(void *), void *argument) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, body, argument) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

static void a_heap_is_used_again(void) {
  hak_heap_t *first, *second;
  size_t open = hak_policy_caches_open();
  run_thread(use_a_heap, &first);
  run_thread(use_a_heap, &second);
  CHECK(first == second && !first->busy && hak_policy_caches_open() == open);
  hak_heap_check();
  hak_sweep_check();
}

static void *note_key(void *key) {
  *(uintptr_t *)key = hak_heap_mine()->key;
  CHECK(hak_malloc(1) != NULL); /* the heap stays with this thread until the thread ends */
  return NULL;
}

/* All threads use the same key, so each recognizes blocks that another thread freed. */
static void all_threads_have_the_same_key(void) {
  const uintptr_t top = (uintptr_t)1 << 63;
  uintptr_t keys[3];
  note_key(&keys[0]);
  run_thread(note_key, &keys[1]);
  run_thread(note_key, &keys[2]);
  for (int i = 0; i < 3; i++) {
    CHECK(keys[i] == hak_key && keys[i] == hak_heap->key);
  }
  CHECK((hak_key & top) != 0 && (hak_key & ~top) >> 32 != 0 && (hak_key & UINT32_MAX) != 0);
}

static void tell_the_key(void) {
  CHECK(hak_malloc(1) != NULL);
  fprintf(stderr, "%jx", (uintmax_t)hak_key);
}

/* Nor can it be guessed. */
static void every_process_has_a_key_of_its_own(void) {
  static ChildResult first, second;
  CHECK(hak_key == 0); /* it was not needed yet */
  child_run(tell_the_key, &first);
  child_run(tell_the_key, &second);
  CHECK(first.length > 8 && second.length > 8 && strcmp(first.errors, second.errors) != 0);
}

static hak_heap_t *heaps[2];
static pthread_barrier_t both;

static void *hold_a_heap(void *heap) {
  *(hak_heap_t **)heap = hak_heap_mine();
  pthread_barrier_wait(&both);
  return NULL;
}

static void no_two_threads_have_the_same_heap(void) {
  pthread_t threads[2];
  hak_heap_t *ended;
  run_thread(use_a_heap, &ended);
  hak_heap_close_parked(UINT64_MAX); /* the thread's own heap stays */
  CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
  for (int i = 0; i < 2; i++) {
    CHECK(pthread_create(&threads[i], NULL, hold_a_heap, &heaps[i]) == 0);
  }
  for (int i = 0; i < 2; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  CHECK(heaps[0] != heaps[1] && (heaps[0] == ended || heaps[1] == ended));
}

static void retain_nothing(void) {
  static const char *const off[] = {"RETAIN", "RETAIN_MAX", "WARM_POOL_SIZE"};
  for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
    CHECK(hak_option_set(off[i], "0") == 0);
  }
}

/* hak_trim also reports memory that went back during the flush, before the free pages are counted. A failed malloc
 * needs this answer. */
static void a_trim_tells_what_went_at_once(void) {
  enum { BLOCKS = 1000, BYTES = 5000 };
  static void *blocks[BLOCKS];
  retain_nothing();
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < BLOCKS; i++) {
      CHECK((blocks[i] = hak_malloc(BYTES)) != NULL);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
      hak_free(blocks[i]);
    }
  }
  CHECK(cached_blocks() > 100);
  CHECK(hak_trim(0) && hak_arena_totals().dirty_slices == 0 && !hak_trim(0));
}

/* Even if the system refuses some calls, a successful call keeps errno, and so does free. */
static void refusals_leave_errno(void) {
  static const size_t sizes[] = {100, 20000, 900000, 5 << 20};
  retain_nothing();
  system_refuse(SYSTEM_MADVISE, 0, SYSTEM_ALL);
  system_refuse(SYSTEM_MUNMAP, 0, SYSTEM_ALL);
  errno = EDOM;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    void *block = hak_malloc(sizes[i]);
    CHECK(block != NULL && errno == EDOM);
    hak_free(block);
    CHECK(errno == EDOM);
  }
  hak_thread_flush();
  hak_trim(0);
  CHECK(errno == EDOM);
}

static pthread_key_t late_key;

/* Runs after the thread's heap is gone. */
static void allocate_late(void *block) {
  CHECK(hak_heap == HAK_HEAP_NONE && hak_heap_mine() == NULL);
  size_t before = cached_blocks();
  void *small = hak_malloc(100), *large = hak_malloc(100000);
  CHECK(small != NULL && large != NULL);
  memset(small, 1, 100);
  hak_free(large);
  hak_free(small);
  hak_free(block);
  hak_heap_flush_mine("test");
  CHECK(cached_blocks() == before);
}

static void *end_late(void *unused) {
  (void)unused;
  void *block = hak_malloc(100);
  CHECK(block != NULL && pthread_setspecific(late_key, block) == 0);
  return NULL;
}

/* The destructors run in the order of their keys. The heap leaves the first key to the program, so this destructor runs
 * after the heap's. */
static void an_ending_thread_can_still_allocate(void) {
  pthread_key_t first;
  hak_free(hak_malloc(1));
  CHECK(pthread_key_create(&first, NULL) == 0 && pthread_key_create(&late_key, allocate_late) == 0);
  run_thread(end_late, NULL);
  hak_heap_check();
  hak_sweep_check();
}

static void without_memory_there_is_no_heap(void) {
  CHECK(hak_heap == HAK_HEAP_NONE);
  hak_heap_flush_mine("test");
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  while (hak_meta_alloc(64)) { /* the library has some memory of its own */
  }
  CHECK(hak_heap_mine() == NULL && hak_heap == HAK_HEAP_NONE);
  CHECK(hak_malloc(10) == NULL);
  system_refuse(SYSTEM_MMAP, 0, 2); /* no memory for the heap, even in a small piece, but for a block */
  void *block = hak_malloc(10);
  CHECK(block != NULL && hak_heap == HAK_HEAP_NONE);
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  hak_free(block);
  CHECK(hak_retain_used_slices() <= HAK_SLAB_SLICES);
  system_allow();
  CHECK(hak_heap_mine() != NULL);
}

static void totals_count_what_is_cached(void) {
  void *blocks[50];
  hak_heap_totals_t totals[HAK_BIN_COUNT];
  for (int i = 0; i < 50; i++) {
    blocks[i] = hak_malloc(900);
  }
  for (int i = 0; i < 5; i++) {
    hak_free(blocks[i]);
  }
  hak_stats_heaps(totals);
  const uint32_t cls = hak_class_of(900);
  size_t listed = hak_bin_blocks(hak_heap, cls);
  size_t between = hak_depot_count(cls);
  CHECK(listed >= 1 && listed + between >= 5 && totals[cls].cached_blocks == listed + between);
  CHECK(totals[cls].asked_count > 0 && totals[cls].asked_bytes == 900 * totals[cls].asked_count);
  hak_heap_flush_mine("test");
  hak_depot_flush(false);
  CHECK(cached_blocks() == 0);
}

static void *hold_a_block(void *block) {
  *(void **)block = hak_malloc(300);
  hak_free(hak_malloc(300));
  hak_free(*(void **)block);
  pthread_barrier_wait(&both);
  pthread_barrier_wait(&both);
  return NULL;
}

static void a_free_block_is_found_wherever_it_lies(void) {
  pthread_t thread;
  void *theirs;
  const uint32_t cls = hak_class_of(300), run = hak_class_of(50000);
  hak_free_block_t *live = hak_malloc(300), *mine = hak_malloc(300), *passed = hak_malloc(300), *back = hak_malloc(300);
  CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
  CHECK(pthread_create(&thread, NULL, hold_a_block, &theirs) == 0);
  pthread_barrier_wait(&both);
  hak_free(mine);
  hak_mark_free(passed);
  CHECK(hak_depot_put(cls, &passed, 1) == 0);
  hak_sweep_return_one(back, cls, "test");
  CHECK(hak_heap_holds(mine, cls) && hak_heap_holds(theirs, cls));
  CHECK(hak_heap_holds(passed, cls) && hak_heap_holds(back, cls));
  CHECK(!hak_heap_holds(live, cls));
  void *large = hak_malloc(50000);
  CHECK(!hak_heap_holds(large, run));
  hak_free(large);
  CHECK(hak_heap_holds(large, run) == (hak_heap->bin[run].head == large || hak_depot_holds(large, run)));
  pthread_barrier_wait(&both);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(hak_heap_holds(theirs, cls)); /* in its slab now, or in the depot */
}

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int stage;
  hak_heap_t *heap;
  hak_free_block_t *cached;
} other = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, NULL, NULL};

static void go_to_stage(int stage) {
  CHECK(pthread_mutex_lock(&other.mutex) == 0);
  other.stage = stage;
  CHECK(pthread_cond_broadcast(&other.changed) == 0);
  CHECK(pthread_mutex_unlock(&other.mutex) == 0);
}

static void wait_for_stage(int stage) {
  CHECK(pthread_mutex_lock(&other.mutex) == 0);
  while (other.stage < stage) {
    CHECK(pthread_cond_wait(&other.changed, &other.mutex) == 0);
  }
  CHECK(pthread_mutex_unlock(&other.mutex) == 0);
}

static void *hold_blocks(void *unused) {
  (void)unused;
  hak_free(hak_malloc(500));
  hak_free(hak_malloc(20));
  other.heap = hak_heap;
  go_to_stage(1);
  wait_for_stage(2);
  hak_free(hak_malloc(500));
  return NULL;
}

/* The child does not touch the orphans' blocks until it needs them. */
static void the_child_adopts(void) {
  CHECK(hak_heap != other.heap && hak_heap->busy && hak_heap_is_orphan(other.heap));
  CHECK(other.cached == other.heap->bin[hak_class_of(500)].head);
  CHECK(hak_heap_adopt_orphan() && !hak_heap_adopt_orphan());
  CHECK(!other.heap->busy && !hak_heap_is_orphan(other.heap) && hak_policy_caches_open() == 1);
  hak_heap_flush_mine("test");
  hak_depot_flush(false);
  CHECK(cached_blocks() == 0 && hak_retain_used_slices() == 0);
  hak_check();
  CHECK(hak_malloc(500) != NULL);
}

/* The child adopts orphans by itself, on its slow paths. */
static void the_child_adopts_in_passing(void) {
  for (int i = 0; i < 100000 && hak_heap_is_orphan(other.heap); i++) {
    CHECK(hak_malloc(1000) != NULL);
  }
  CHECK(!hak_heap_is_orphan(other.heap) && !other.heap->busy);
  hak_check();
}

/* In a child, the cached blocks of threads that do not exist there go back to the slabs. */
static void a_child_adopts_the_heaps_of_others(void) {
  pthread_t thread;
  hak_free(hak_malloc(1));
  CHECK(!hak_heap_adopt_orphan());
  CHECK(pthread_create(&thread, NULL, hold_blocks, NULL) == 0);
  wait_for_stage(1);
  CHECK(other.heap->busy && hak_policy_caches_open() == 2);
  other.cached = other.heap->bin[hak_class_of(500)].head;
  child_succeeds(the_child_adopts);
  child_succeeds(the_child_adopts_in_passing);
  CHECK(other.heap->busy && !hak_heap_is_orphan(other.heap) && !hak_heap_adopt_orphan());
  go_to_stage(2);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(!other.heap->busy);
  hak_check();
}

int main(void) {
  every_process_has_a_key_of_its_own();
  child_succeeds(without_memory_there_is_no_heap);
  child_succeeds(no_two_threads_have_the_same_heap);
  child_succeeds(a_trim_tells_what_went_at_once);
  child_succeeds(refusals_leave_errno);
  child_succeeds(all_threads_have_the_same_key);
  child_succeeds(a_free_block_is_found_wherever_it_lies);
  child_succeeds(totals_count_what_is_cached);
  child_succeeds(an_ending_thread_can_still_allocate);
  child_succeeds(a_heap_is_used_again);
  child_succeeds(a_child_adopts_the_heaps_of_others);
  return 0;
}
