/* How much stack a call takes. A thread with the least stack of pthread_create must be able to make each call: it has
 * 16 KiB, of which libc and a signal handler's frame need most. The test fills the stack with a pattern, and checks it
 * afterwards. Calls that give memory back to the system take most. LD_BIND_NOW excludes the linker's work at a first
 * call. */
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include "prng.h"
#include "trap.h"

enum { STACK_BYTES = 256 << 10, PAINT = 0xa5, OWN_FRAME = 96, GIVING_BACK = 1280, STEPS = 60000, TABLE = 4096 };

typedef struct {
  const char *name;
  void (*act)(void);
  size_t limit;
} Call;

static unsigned char *stack;
static const Call *call;
static size_t deepest;

static void look(const unsigned char *from) {
  const unsigned char *at = stack;
  while (*at == PAINT) {
    at++;
  }
  deepest = (size_t)(from - at);
}

/* Fill the stack below this frame, when the start of the thread has used what it needs. */
__attribute__((noinline)) static void paint(void) {
  unsigned char *here = __builtin_frame_address(0);
  for (volatile unsigned char *at = stack; at < here - OWN_FRAME; at++) {
    *at = PAINT;
  }
}

/* The call has used the overwritten bytes below this frame. */
__attribute__((noinline)) static void measure(void) {
  unsigned char *here = __builtin_frame_address(0);
  call->act();
  look(here - OWN_FRAME);
}

static void *run(void *unused) {
  (void)unused;
  paint();
  measure();
  return NULL;
}

static void *table[TABLE];

/* Refills, overflows, chunks that come and go. */
static void churn(void) {
  Prng prng = prng_seeded(1);
  for (int i = 0; i < STEPS; i++) {
    size_t k = prng_below(&prng, TABLE), bits = prng_below(&prng, 100) == 0 ? 23 : 4 + prng_below(&prng, 13);
    hak_free(table[k]);
    table[k] = hak_malloc(((size_t)1 << bits) - 1);
    if (i % 512 == 0) {
      table[k] = hak_realloc(table[k], (size_t)2 << bits);
    }
    CHECK(table[k] != NULL);
    *(char *)table[k] = 1;
  }
}

static void free_all(void) {
  for (size_t i = 0; i < TABLE; i++) {
    hak_free(table[i]);
    table[i] = NULL;
  }
}

static void aligned(void) {
  for (size_t alignment = 16; alignment <= (size_t)4 << 20; alignment *= 2) {
    hak_free(hak_memalign(alignment, 1000));
    hak_free(hak_calloc(1, alignment));
  }
}

static void first(void) {
  hak_free(hak_malloc(1));
}

static void trim(void) {
  malloc_trim(0);
}

#ifdef __GLIBC__
static void info(void) {
  (void)mallinfo2();
}

static void old_info(void) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  (void)mallinfo();
#pragma GCC diagnostic pop
}
#endif

static void usable(void) {
  void *block = hak_malloc(100);
  CHECK(hak_malloc_usable_size(block) >= 100);
  hak_free(block);
}

static FILE *nowhere;

#ifdef __GLIBC__
static void print_info(void) {
  CHECK(malloc_info(0, nowhere) == 0);
}

static void print_stats(void) {
  malloc_stats();
}
#endif

int main(void) {
  static const Call calls[] = {
      {"the first call of a thread", first, 1024},
      {"malloc, realloc and free", churn, GIVING_BACK}, /* free memory may become due meanwhile */
      {"free", free_all, GIVING_BACK},
      {"malloc_trim", trim, GIVING_BACK},
      {"memalign and calloc", aligned, GIVING_BACK},
      {"malloc_usable_size", usable, 1024},
#ifdef __GLIBC__
      {"mallinfo2", info, 768},
      {"mallinfo", old_info, 768},
      {"malloc_info", print_info, 2304}, /* printf takes more than a KiB by itself */
      {"malloc_stats", print_stats, 2304},
#endif
  };
  int failed = 0;
  pthread_attr_t attributes;
  trap_watchdog(60);
  stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(stack != MAP_FAILED && (nowhere = fopen("/dev/null", "w")) != NULL);
  CHECK(freopen("/dev/null", "w", stderr) != NULL);
  fputs("x", nowhere);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    pthread_t thread;
    call = &calls[i];
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, stack, STACK_BYTES) == 0);
    CHECK(pthread_create(&thread, &attributes, run, NULL) == 0 && pthread_join(thread, NULL) == 0);
    printf("%s: %zu bytes of stack\n", call->name, deepest);
    failed |= deepest > call->limit;
  }
  return failed;
}
