/* Duty: compiler vocabulary and the three kinds of check. No state. Below: nothing. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HAK_CACHE_LINE 64
#define HAK_LIKELY(x) __builtin_expect(!!(x), 1)
#define HAK_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HAK_COLD __attribute__((cold, noinline))
/* A function that must be fast although its callers are cold. */
#define HAK_HOT __attribute__((hot, noinline))
#define HAK_NOINLINE __attribute__((noinline))
/* Places in the library's data, which the linker sorts by the names of the sections: small data first, and last the
 * data that a small program does not touch. Data in the middle shares pages with both neighbours. */
#define HAK_LEAVES_DATA __attribute__((section(".bss.hak_1_leaves")))
#define HAK_META_DATA __attribute__((section(".bss.hak_2_meta")))
#define HAK_LARGE_DATA __attribute__((section(".bss.hak_3_large")))
/* Constants with addresses, beside the table of functions, to which the loader writes, too. */
#define HAK_LAST_CONSTANT __attribute__((section(".data.rel.ro.hak_last")))
/* Data that small programs read and do not write. */
#define HAK_READ_DATA __attribute__((section(".data.hak_1_read")))
#define HAK_READ_PAGE __attribute__((section(".data.hak_2_page")))
/* Small data that every start reads or writes: at the end of what the loader has written to, whatever the program. */
#define HAK_START_DATA __attribute__((section(".data.start")))
#define HAK_INLINE static inline __attribute__((always_inline))

/* The number of bits that are set. Plain x86-64 has no instruction for it, so the builtin would be a call. */
HAK_INLINE uint32_t hak_count_bits(uint64_t bits) {
  bits -= bits >> 1 & 0x5555555555555555U;
  bits = (bits & 0x3333333333333333U) + (bits >> 2 & 0x3333333333333333U);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fU;
  return (uint32_t)(bits * 0x0101010101010101U >> 56);
}

/* Copy from the first word to the last, so `to` may lie before `from` in one array. The heap copies in the middle of
 * changes, where it must not call memcpy, because other libraries may define that name. The barrier keeps the compiler
 * from turning the loop into such a call. */
HAK_INLINE void hak_copy_words(void *to, const void *from, size_t words) {
  for (size_t i = 0; i < words; i++) {
    ((uintptr_t *)to)[i] = ((const uintptr_t *)from)[i];
    __asm__ volatile("" ::: "memory");
  }
}

/* Lists whose nodes name both neighbours. Put a node first, or take one out. */
#define HAK_LIST_PUSH(first, node, next, prev) \
  do { \
    (node)->prev = NULL; \
    (node)->next = (first); \
    if ((node)->next) { \
      (node)->next->prev = (node); \
    } \
    (first) = (node); \
  } while (0)
#define HAK_LIST_REMOVE(first, node, next, prev) \
  do { \
    *((node)->prev ? &(node)->prev->next : &(first)) = (node)->next; \
    if ((node)->next) { \
      (node)->next->prev = (node)->prev; \
    } \
  } while (0)

/* Between two stores that a fork must not see in the other order. The child sees another thread's stores up to one
 * moment, in program order (src/invariants.md, 18), so only the compiler could exchange them. */
HAK_INLINE void hak_fork_fence(void) {
  atomic_signal_fence(memory_order_release);
}

/* The widest vector register that every supported machine has. */
typedef uint64_t hak_vector_t __attribute__((vector_size(16), may_alias));
/* At any address. */
typedef uint64_t hak_loose_vector_t __attribute__((vector_size(16), may_alias, aligned(1)));

/* Code of a function with this attribute may use registers of 32 bytes; call it only if the processor has them. */
#ifdef __x86_64__
#define HAK_WIDE __attribute__((target("avx2"), noinline))
#else
#define HAK_WIDE __attribute__((noinline))
#endif
typedef uint64_t hak_wide_vector_t __attribute__((vector_size(32), may_alias, aligned(1)));

/* A read of an untouched page does not make it resident. */
HAK_INLINE bool hak_is_zero(const void *at, size_t bytes) {
  const char *from = at;
  size_t done = 0;
  for (; bytes - done >= 8 * sizeof(hak_vector_t); done += 8 * sizeof(hak_vector_t)) {
    const hak_loose_vector_t *part = (const void *)(from + done);
    hak_vector_t any = (part[0] | part[1]) | (part[2] | part[3]), more = (part[4] | part[5]) | (part[6] | part[7]);
    any |= more;
    if (any[0] | any[1]) {
      return false;
    }
  }
  for (uint64_t word; bytes - done >= sizeof word; done += sizeof word) {
    __builtin_memcpy(&word, from + done, sizeof word);
    if (word) {
      return false;
    }
  }
  for (; done < bytes && from[done] == 0; done++) {
  }
  return done == bytes;
}

/* For a loop that waits for another thread. */
HAK_INLINE void hak_pause(void) {
#ifdef __x86_64__
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* An entry point of nearly every call. Its code begins a cache line, so that the processor fetches fewer lines. */
#define HAK_ENTRY __attribute__((aligned(HAK_CACHE_LINE)))
/* Make the last call of the function a jump: with gcc at any optimisation level, with clang from -O1 up. */
#ifdef __clang__
#define HAK_TAIL_CALL
#else
#define HAK_TAIL_CALL \
  __attribute__((optimize("O2", "no-omit-frame-pointer"))) /* O2 alone would omit the frame pointer */
#endif

/* The minimal build omits optional parts. Options keep their defaults, nothing is printed at exit, and blocks of other
 * allocators are not recognized. */
#ifdef HAKMEM_MINIMAL
#define HAK_MINIMAL 1
#else
#define HAK_MINIMAL 0
#endif

/* Report a caller's error, and abort before it harms the heap. Prints "hakmem: FUNCTION(): REASON: PLACE" on stderr,
 * without allocating (hook.h). Function NULL: a fork. A handler of SIGABRT may allocate: the thread's heap, which may
 * hold the damaged block, is set aside. */
#define HAK_MISUSE(name, text) HAK_MISUSE_##name,
typedef enum hak_misuse {
#include "misuse.def"
} hak_misuse_t;
#undef HAK_MISUSE
_Noreturn HAK_COLD void hak_misuse(const char *function, hak_misuse_t reason, const void *block);
/* Like hak_misuse, for damage that a call met by chance, such as a free block that was written to. Returns if the
 * process has reported before: a handler of SIGABRT is running, and the caller passes over the block. */
HAK_COLD void hak_misuse_met(const char *function, hak_misuse_t reason, const void *block);
bool hak_misuse_is_reported(void);

#ifdef NDEBUG
#define HAK_DEBUG 0
#else
#define HAK_DEBUG 1
#endif
/* An assumption about the heap's own state. Debug builds check it; release builds compile it but do not run it. */
#define HAK_ASSERT(condition) HAK_VERIFY(!HAK_DEBUG || (condition))

/* Like HAK_ASSERT, but every build checks it: for hak_check(), and for states that no caller can cause. */
#define HAK_VERIFY(condition) ((condition) ? (void)0 : hak_misuse_verify_failed(#condition, __FILE__, __LINE__))

_Noreturn HAK_COLD void hak_misuse_verify_failed(const char *condition, const char *file, size_t line);
