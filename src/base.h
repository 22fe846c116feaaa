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
#define HAK_NOINLINE __attribute__((noinline))
#define HAK_INLINE static inline __attribute__((always_inline))

/* Without an instruction for it, which plain x86-64 lacks, the builtin is a call. */
HAK_INLINE uint32_t hak_count_bits(uint64_t bits) {
  bits -= bits >> 1 & 0x5555555555555555U;
  bits = (bits & 0x3333333333333333U) + (bits >> 2 & 0x3333333333333333U);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fU;
  return (uint32_t)(bits * 0x0101010101010101U >> 56);
}

/* From the first word to the last, so `to` may lie before `from` in one array. For the heap's own arrays: memcpy is a
 * name that others define, and this is called in the middle of changes. The barrier keeps a loop a loop. */
HAK_INLINE void hak_copy_words(void *to, const void *from, size_t words) {
  for (size_t i = 0; i < words; i++) {
    ((uintptr_t *)to)[i] = ((const uintptr_t *)from)[i];
    __asm__ volatile("" ::: "memory");
  }
}

/* In a loop that waits for another thread. */
HAK_INLINE void hak_pause(void) {
#ifdef __x86_64__
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* An entry point that nearly every call goes through: begins a cache line, so that fewer of them are fetched. */
#define HAK_ENTRY __attribute__((aligned(HAK_CACHE_LINE)))
/* The last call of the function becomes a jump: with gcc at any optimisation level, with clang from -O1 up. */
#ifdef __clang__
#define HAK_TAIL_CALL
#else
#define HAK_TAIL_CALL __attribute__((optimize("O2")))
#endif

/* The minimal build: nothing that is optional. Options keep their defaults, nothing is printed at exit, and blocks of
 * other allocators are not looked for. */
#ifdef HAKMEM_MINIMAL
#define HAK_MINIMAL 1
#else
#define HAK_MINIMAL 0
#endif

/* What a caller did wrong, stopped before the heap is harmed: prints "hakmem: FUNCTION(): REASON: 0xADDRESS" on stderr,
 * without allocating, and aborts. Function NULL: a fork. */
#define HAK_MISUSE(name, text) HAK_MISUSE_##name,
typedef enum hak_misuse {
#include "misuse.def"
} hak_misuse_t;
#undef HAK_MISUSE
_Noreturn HAK_COLD void hak_misuse(const char *function, hak_misuse_t reason, const void *block);

#ifdef NDEBUG
#define HAK_DEBUG 0
#else
#define HAK_DEBUG 1
#endif
/* A violated assumption about our own state. Checked in debug builds; compiled but not run in release builds. */
#define HAK_ASSERT(condition) HAK_VERIFY(!HAK_DEBUG || (condition))

/* The same, checked always: for hak_check() and for states no caller can cause. */
#define HAK_VERIFY(condition) ((condition) ? (void)0 : hak_verify_failed(#condition, __FILE__, __LINE__))

_Noreturn HAK_COLD void hak_verify_failed(const char *condition, const char *file, size_t line);
