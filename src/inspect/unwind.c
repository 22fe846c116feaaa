/* The stack of the calling thread, during an allocation. The sampler calls it. */
#include "unwind.h"

#include "malloc/malloc.h"
#include "modules.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  MAIN_STACK_BYTES = 64 << 20, /* nothing else is mapped this close below its end: the kernel reserves 128 MiB */
  KNOWN_STACKS = 64,
  OWN_FRAMES = 24, /* most frames of the library, from the sampler to its caller */
};

#define READS_FRAMES __attribute__((no_sanitize("address"))) /* it also reads the space between a frame's variables */

/* A frame, in the layout of every function with a frame pointer. */
typedef struct frame {
  const struct frame *caller;
  uintptr_t pc;
} frame_t;

/* A thread's entry: the 4 KiB unit where its descriptor begins, and how many units the stack reaches down from
 * there. */
enum { UNIT_SHIFT = 12, REACH_BITS = 28 };
static _Atomic uint64_t known[KNOWN_STACKS] HAK_LARGE_DATA;

static _Atomic int unwinder;       /* hak_unwinder_t */
static _Atomic uintptr_t main_end; /* end of the main thread's stack; 0: not known yet */
static int (*libunwind_backtrace)(void **pcs, int most);
typedef int (*trace_t)(void *context, void *argument);
static int (*libgcc_backtrace)(trace_t trace, void *argument);
static uintptr_t (*libgcc_pc)(void *context);
static _Thread_local bool unwinding __attribute__((tls_model("initial-exec"))); /* an unwinder may allocate */

static bool load_unwinder(hak_unwinder_t wanted) {
  void *library = hak_foreign_open(wanted == HAK_UNWIND_LIBGCC ? "libgcc_s.so.1" : "libunwind.so.8", 0);
  if (!library) {
    return false;
  }
  if (wanted == HAK_UNWIND_LIBUNWIND) {
    *(void **)&libunwind_backtrace = dlsym(library, "unw_backtrace");
    return libunwind_backtrace != NULL;
  }
  *(void **)&libgcc_backtrace = dlsym(library, "_Unwind_Backtrace");
  *(void **)&libgcc_pc = dlsym(library, "_Unwind_GetIP");
  return libgcc_backtrace && libgcc_pc;
}

bool hak_unwind_start(hak_unwinder_t wanted) {
  int saved = errno;
  hak_modules_look();
  bool ok = wanted == HAK_UNWIND_FRAMES || load_unwinder(wanted);
  atomic_store_explicit(&unwinder, ok ? (int)wanted : (int)HAK_UNWIND_FRAMES, memory_order_release);
  errno = saved;
  return ok;
}

/* How far the stack reaches down from the thread's descriptor, in units; determined once. */
static uint64_t reach_of(uintptr_t thread) {
  uint64_t unit = (uint64_t)thread >> UNIT_SHIFT, mask = ((uint64_t)1 << REACH_BITS) - 1;
  _Atomic uint64_t *slot = &known[(unit ^ unit >> 8) % KNOWN_STACKS];
  uint64_t seen = atomic_load_explicit(slot, memory_order_relaxed);
  if (seen >> REACH_BITS == unit || hak_os_is_filtered()) { /* a filter may kill the process for the calls below */
    return seen >> REACH_BITS == unit ? seen & mask : 0;
  }
  hak_mapping_t mapping = {0};
  if (hak_direct(SYS_gettid) == hak_direct(SYS_getpid)) { /* the main thread's descriptor is not on its stack */
    mapping.start = thread;
  } else if (!hak_modules_mapping_of(thread, &mapping)) {
    return 0;
  }
  uint64_t reach = unit - ((uint64_t)(mapping.start + ((uintptr_t)1 << UNIT_SHIFT) - 1) >> UNIT_SHIFT);
  reach = mapping.start >= thread ? 0 : reach < mask ? reach : mask;
  atomic_store_explicit(slot, unit << REACH_BITS | reach, memory_order_relaxed);
  return reach;
}

/* The end of the stack that holds `at`, if it is this thread's. 0: another stack, or unknown. */
static uintptr_t stack_end(uintptr_t at) {
  uintptr_t end = atomic_load_explicit(&main_end, memory_order_relaxed);
  if (HAK_UNLIKELY(end == 0)) {
    end = (uintptr_t)hak_auxiliary(AT_RANDOM); /* searches a table */
    atomic_store_explicit(&main_end, end, memory_order_relaxed);
  }
  uintptr_t thread = (uintptr_t)__builtin_thread_pointer();
  if (at < end && end - at < MAIN_STACK_BYTES) {
    return end;
  }
  if (at >= thread) {
    return 0;
  }
  return (thread >> UNIT_SHIFT) - (at >> UNIT_SHIFT) <= reach_of(thread) ? thread : 0;
}

/* Remove the pointer authentication code from a return address, on machines that sign it. */
static uintptr_t plain_pc(uintptr_t pc) {
#ifdef __aarch64__
  register uintptr_t x30 __asm__("x30") = pc;
  __asm__("hint 7" : "+r"(x30)); /* xpaclri */
  return x30;
#else
  return pc;
#endif
}

/* Whether the next frame outward may be there: the address is aligned, above the last frame, and on the stack. */
static bool is_frame(uintptr_t at, uintptr_t low, uintptr_t end) {
  return at % sizeof(uintptr_t) == 0 && at > low && at < end && end - at >= sizeof(frame_t);
}

/* The library's frames, and the return address into the caller, are on the running stack, wherever it is. If the
 * compiler omitted a frame, the link leads into the program, and the search ends. Returns the frame that the caller's
 * own link points to. */
READS_FRAMES static const frame_t *leave_library(const frame_t *frame, uintptr_t end, uintptr_t *pc) {
  int left = OWN_FRAMES;
  while (hak_modules_is_mine(*pc = plain_pc(frame->pc)) && left-- > 0) {
    uintptr_t caller = (uintptr_t)frame->caller;
    if (end != 0 && !is_frame(caller, (uintptr_t)frame, end)) {
      break;
    }
    frame = frame->caller;
  }
  return frame->caller;
}

/* The first address is the caller's. It is never dropped, even if its module is unknown. */
HAK_INLINE size_t follow(const frame_t *frame, uintptr_t pcs[HAK_UNWIND_MAX], bool checked) {
  size_t count = 0;
  uintptr_t low = (uintptr_t)frame, end = stack_end(low), pc = 0;
  frame = leave_library(frame, end, &pc);
  if (pc == 0) {
    return 0;
  }
  if (checked) {
    hak_modules_learn(pc);
  }
  pcs[count++] = pc;
  while (count < HAK_UNWIND_MAX) {
    uintptr_t at = (uintptr_t)frame;
    if (!is_frame(at, low, end)) {
      break;
    }
    pc = plain_pc(frame->pc);
    if (checked ? !hak_modules_is_code(pc) : pc == 0) {
      break;
    }
    pcs[count++] = pc;
    low = at;
    frame = frame->caller;
  }
  return count;
}

typedef struct collected {
  uintptr_t *pcs;
  size_t count;
} collected_t;

static int collect(void *context, void *argument) {
  enum { NO_REASON = 0, END_OF_STACK = 5 };
  collected_t *collected = argument;
  uintptr_t pc = libgcc_pc(context);
  if (pc != 0 && collected->count < HAK_UNWIND_MAX) {
    collected->pcs[collected->count++] = pc;
    return NO_REASON;
  }
  return END_OF_STACK;
}

/* The unwinder's result begins with frames of the library, which are dropped. */
static size_t ask_unwinder(hak_unwinder_t which, uintptr_t pcs[HAK_UNWIND_MAX]) {
  collected_t collected = {pcs, 0};
  size_t own = 0;
  unwinding = true;
  if (which == HAK_UNWIND_LIBUNWIND) {
    int n = libunwind_backtrace((void **)pcs, HAK_UNWIND_MAX);
    collected.count = n > 0 ? (size_t)n : 0;
  } else {
    libgcc_backtrace(collect, &collected);
  }
  unwinding = false;
  while (own < collected.count && hak_modules_is_mine(pcs[own])) {
    own++;
  }
  memmove(pcs, pcs + own, (collected.count - own) * sizeof *pcs);
  return collected.count - own;
}

READS_FRAMES HAK_NOINLINE size_t hak_unwind(uintptr_t pcs[HAK_UNWIND_MAX]) {
  int saved = errno;
  hak_unwinder_t which = (hak_unwinder_t)atomic_load_explicit(&unwinder, memory_order_acquire);
  size_t count = 0;
  hak_modules_learn((uintptr_t)&hak_unwind); /* so that the library's own frames are known */
  if (which != HAK_UNWIND_FRAMES && !unwinding) {
    count = ask_unwinder(which, pcs);
  }
  if (count == 0) {
    count = follow(__builtin_frame_address(0), pcs, true);
  }
  errno = saved;
  return count;
}

READS_FRAMES HAK_NOINLINE size_t hak_unwind_unchecked(uintptr_t pcs[HAK_UNWIND_MAX]) {
  bool frames = atomic_load_explicit(&unwinder, memory_order_relaxed) == (int)HAK_UNWIND_FRAMES;
  return frames ? follow(__builtin_frame_address(0), pcs, false) : 0;
}
