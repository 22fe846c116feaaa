/* The stack of a thread: correct where there are frame pointers, cut off where there are none. No other memory is
 * read. */
#include "inspect/unwind.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __GLIBC__ /* musl has no coroutines */
#include <ucontext.h>
#endif

#include "check.h"
#include "child.h"
#include "system/os.h"

enum { DEEP = 30, STACK_BYTES = 256 << 10 };

typedef struct Seen {
  size_t count;
  uintptr_t pcs[HAK_UNWIND_MAX];
} Seen;
static Seen seen;

enum { APART = 512 }; /* distance of two functions in bytes, by -falign-functions */
HAK_NOINLINE static void look(void) {
  uintptr_t unchecked[HAK_UNWIND_MAX];
  size_t count = hak_unwind_unchecked(unchecked);
  seen.count = hak_unwind(seen.pcs);
  CHECK(count == 0 || count >= seen.count); /* the same frames, perhaps more, since it was called from another place */
  CHECK(count == 0 || memcmp(unchecked + 1, seen.pcs + 1, (seen.count - 1) * sizeof *unchecked) == 0);
  __asm__ volatile("" : : : "memory"); /* keeps the compiler from making a jump of the call */
}

HAK_NOINLINE static void descend(int depth) {
  char room[512]; /* frames of different depths lie far apart */
  __asm__ volatile("" : : "r"(room) : "memory");
  if (depth > 0) {
    descend(depth - 1);
  } else {
    look();
  }
  __asm__ volatile("" : : : "memory");
}

/* The number of frames that return into `function`. */
static size_t frames_in(const void *function) {
  size_t count = 0;
  for (size_t i = 0; i < seen.count; i++) {
    count += seen.pcs[i] > (uintptr_t)function && seen.pcs[i] < (uintptr_t)function + APART;
  }
  return count;
}

static void is_whole(void) {
  CHECK(frames_in((const void *)&look) == 1 && frames_in((const void *)&descend) == DEEP + 1);
}

static void the_main_thread_is_told(void) {
  uintptr_t pcs[HAK_UNWIND_MAX];
  descend(DEEP);
  is_whole();
  CHECK(hak_unwind_unchecked(pcs) > 0);
}

static void more_than_there_is_room_for_is_cut(void) {
  descend(3 * HAK_UNWIND_MAX);
  CHECK(seen.count == HAK_UNWIND_MAX && frames_in((const void *)&descend) == HAK_UNWIND_MAX - 1);
}

static void *run_deep(void *argument) {
  descend(DEEP);
  is_whole();
  descend(DEEP);
  is_whole();
  return argument;
}

static void other_threads_are_told(void) {
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0);
  for (int i = 0; i < 20; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, i % 2 ? &attributes : NULL, run_deep, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  CHECK(pthread_attr_destroy(&attributes) == 0);
}

#ifdef __GLIBC__
static ucontext_t outside, inside;

static void run_fiber(void) {
  descend(DEEP);
}

/* On an unknown stack, only the first frame is reported, wherever the stack lies. */
static void a_fiber_ends_the_stack(void) {
  char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(stack != MAP_FAILED && getcontext(&inside) == 0);
  inside.uc_stack.ss_sp = stack;
  inside.uc_stack.ss_size = STACK_BYTES;
  inside.uc_link = &outside;
  makecontext(&inside, run_fiber, 0);
  CHECK(swapcontext(&outside, &inside) == 0);
  CHECK(seen.count == 1 && frames_in((const void *)&look) == 1);
}
#endif

static void on_signal(int number) {
  (void)number;
  descend(DEEP);
}

static void a_signals_stack_ends_the_stack(void) {
  static char room[STACK_BYTES];
  stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
  seen.count = 0;
  CHECK(raise(SIGUSR1) == 0 && seen.count == 1);
  action.sa_flags = 0;
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && raise(SIGUSR1) == 0);
  is_whole(); /* on the thread's own stack, the handler is reported, and perhaps the interrupted code */
}

/* Tries values that a function without a frame pointer may leave in the register. */
HAK_NOINLINE static void look_from(uintptr_t frame) {
#ifdef __x86_64__
  __asm__ volatile("mov %%rsp, %%r12\n mov %%rbp, %%r13\n sub $256, %%rsp\n and $-16, %%rsp\n"
                   "mov %0, %%rbp\n call *%1\n mov %%r13, %%rbp\n mov %%r12, %%rsp"
                   :
                   : "r"(frame), "r"(&look)
                   : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "memory", "cc");
#else
  (void)frame;
  look();
#endif
}

static void a_wild_frame_ends_the_stack(void) {
  uintptr_t here = (uintptr_t)__builtin_frame_address(0), words[4] = {0};
  char *page = mmap(NULL, hak_os_page_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  words[0] = here + 1;            /* not aligned */
  words[1] = (uintptr_t)&descend; /* code, but the link leads to an impossible frame */
  const uintptr_t wild[] = {0,
                            1,
                            8,
                            UINTPTR_MAX,
                            UINTPTR_MAX - 7,
                            (uintptr_t)page,
                            here + 1,
                            here - 64,
                            here | 1ULL << 63,
                            (uintptr_t)words,
                            (uintptr_t)&seen};
  for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
    look_from(wild[i]);
    CHECK(seen.count >= 1 && frames_in((const void *)&look) == 1 && seen.count < HAK_UNWIND_MAX);
  }
}

static void a_circle_ends_the_stack(void) {
  struct {
    uintptr_t caller, pc;
  } circle = {(uintptr_t)&circle, (uintptr_t)&descend + 8};
  look_from((uintptr_t)&circle);
  CHECK(seen.count >= 1 && seen.count < 8);
}

static void ask(hak_unwinder_t unwinder) {
  if (!hak_unwind_start(unwinder)) {
    return; /* the unwinder is not installed */
  }
  uintptr_t none[HAK_UNWIND_MAX];
  CHECK(hak_unwind_unchecked(none) == 0);
  for (int round = 0; round < 3; round++) {
    descend(DEEP);
    CHECK(frames_in((const void *)&descend) == DEEP + 1);
  }
  CHECK(hak_unwind_start(HAK_UNWIND_FRAMES));
}

static void libgcc_tells_the_same(void) {
  ask(HAK_UNWIND_LIBGCC);
}

static void libunwind_tells_the_same(void) {
  ask(HAK_UNWIND_LIBUNWIND);
}

int main(void) {
  CHECK(hak_unwind_start(HAK_UNWIND_FRAMES));
  child_succeeds(the_main_thread_is_told);
  child_succeeds(more_than_there_is_room_for_is_cut);
  child_succeeds(other_threads_are_told);
#ifdef __GLIBC__
  child_succeeds(a_fiber_ends_the_stack);
#endif
  child_succeeds(a_signals_stack_ends_the_stack);
  child_succeeds(a_wild_frame_ends_the_stack);
  child_succeeds(a_circle_ends_the_stack);
  child_succeeds(libgcc_tells_the_same);
  child_succeeds(libunwind_tells_the_same);
  return 0;
}
