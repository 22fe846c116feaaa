/* Duty: compiler vocabulary and the three kinds of check. No state. Below: nothing. */
#ifndef HAK_BASE_H
#define HAK_BASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HAK_LIKELY(x) __builtin_expect(!!(x), 1)
#define HAK_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HAK_COLD __attribute__((cold, noinline))
#define HAK_NOINLINE __attribute__((noinline))
#define HAK_INLINE static inline __attribute__((always_inline))
/* The last call of the function becomes a jump, at any optimisation level. */
#ifdef __clang__
#define HAK_TAIL_CALL
#else
#define HAK_TAIL_CALL __attribute__((optimize("O2")))
#endif
#define HAK_CACHE_LINE 64

/* The minimal build: nothing that is optional. Options keep their defaults, nothing is printed at exit, and blocks of
 * other allocators are not looked for. */
#ifdef HAKMEM_MINIMAL
#define HAK_MINIMAL 1
#else
#define HAK_MINIMAL 0
#endif

/* A violated assumption about our own state. Checked in debug builds; compiled but not run in release builds. */
#ifdef NDEBUG
#define HAK_ASSERT(condition) ((void)(0 && (condition)))
#else
#define HAK_ASSERT(condition) HAK_VERIFY(condition)
#endif

/* The same, checked always: for hak_check() and for states no caller can cause. */
#define HAK_VERIFY(condition) ((condition) ? (void)0 : hak_verify_failed(#condition, __FILE__, __LINE__))

_Noreturn HAK_COLD void hak_verify_failed(const char *condition, const char *file, int line);

#endif
