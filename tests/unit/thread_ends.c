/* What many threads that end cost: the memory that they keep while they are idle, and how often blocks return to their
 * slabs. A time would depend on what else runs. */
#include <pthread.h>
#include <unistd.h>

#include "blocks/slab.h"
#include "check.h"
#include "hakmem.h"
#include "names.h"
#include "system/options.h"

/* What a thread may keep, in KiB with its stack: present figures are 48 and 99. With bounds that are
 * not divided by the number of threads, they are 73 and 177. RETURNS: in which a thread may give back the blocks of one
 * size. */
enum { KEPT_KIB = 62, KEPT_HARDENED_KIB = 140, RETURNS = 2 };
enum { THREADS = 600, SIZES = 7, BLOCKS = 32 * SIZES, STACK_BYTES = 64 << 10, SKIPPED = 77 };

static const size_t sizes[SIZES] = {24, 64, 100, 250, 600, 1500, 4000};
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t idle, over;
static _Atomic size_t calls, returned;

void __real_hak_sweep_return(hak_free_block_t *const *blocks, uint32_t count, uint32_t cls, const char *function);
void __wrap_hak_sweep_return(hak_free_block_t *const *blocks, uint32_t count, uint32_t cls, const char *function);
void __real_hak_sweep_return_one(void *block, uint32_t cls, const char *function);
void __wrap_hak_sweep_return_one(void *block, uint32_t cls, const char *function);

void __wrap_hak_sweep_return(hak_free_block_t *const *blocks, uint32_t count, uint32_t cls, const char *function) {
  calls++;
  returned += count;
  __real_hak_sweep_return(blocks, count, cls, function);
}

void __wrap_hak_sweep_return_one(void *block, uint32_t cls, const char *function) {
  calls++;
  returned++;
  __real_hak_sweep_return_one(block, cls, function);
}

static void *use_and_end(void *unused) {
  (void)unused;
  void *blocks[BLOCKS];
  pthread_mutex_lock(&turn); /* so that one thread alone has blocks in use */
  for (int i = 0; i < BLOCKS; i++) {
    CHECK((blocks[i] = hak_malloc(sizes[i % SIZES])) != NULL);
  }
  for (int i = 0; i < BLOCKS; i++) {
    hak_free(blocks[i]);
  }
  pthread_mutex_unlock(&turn);
  pthread_barrier_wait(&idle);
  pthread_barrier_wait(&over);
  return NULL;
}

static size_t resident_kib(void) {
  size_t pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%*u %zu", &pages) == 1 && fclose(file) == 0);
  return pages * 4;
}

int main(void) {
  pthread_t ids[THREADS];
  pthread_attr_t attributes;
  if (sysconf(_SC_PAGESIZE) != 4096) {
    return SKIPPED;
  }
  CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0);
  CHECK(pthread_barrier_init(&idle, NULL, THREADS + 1) == 0 && pthread_barrier_init(&over, NULL, THREADS + 1) == 0);
  size_t before = resident_kib();
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&ids[i], &attributes, use_and_end, NULL) == 0);
  }
  pthread_barrier_wait(&idle);
  size_t kept = (resident_kib() - before) / THREADS, calls_before = calls, returned_before = returned;
  pthread_barrier_wait(&over);
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(ids[i], NULL) == 0);
  }
  size_t returns = calls - calls_before;
  printf("%zu KiB kept, %zu returns of %zu blocks by %d threads\n", kept, returns, returned - returned_before, THREADS);
  CHECK(kept <= (hak_option(HAK_OPTION_PROFILE) == HAK_PROFILE_HARDENED ? KEPT_HARDENED_KIB : KEPT_KIB));
  CHECK(returns <= (size_t)RETURNS * SIZES * THREADS);
  return 0;
}
