/* hakmem: a general-purpose memory allocator for Linux.
 *
 * Every function here is thread-safe and may be called throughout the life of a process: before constructors, inside
 * TLS destructors, in a forked child. None is async-signal-safe. A signal handler may call fork(), and the child may
 * call these functions once the handler has returned.
 * Sizes and alignments are in bytes. Unless a comment says otherwise, a hak_ function behaves as the function without
 * the prefix does in glibc 2.36 and ISO C23:
 *   - failure returns NULL and sets errno to ENOMEM (EINVAL for a bad alignment);
 *   - hak_free() and the sized forms keep errno;
 *   - a request of 0 bytes returns a unique pointer that must be freed. A read or write there faults, except with an
 *     alignment above 16, with HAKMEM_TRAP_EMPTY=0, and beyond 49,152 such blocks;
 *   - every block is aligned to 16 bytes, even one of fewer bytes;
 *   - misuse prints one line on stderr that names the pointer and the reason, and calls abort(). Misuse is a pointer
 *     that is not a live block, a block freed twice, or a free block whose first word was written to.
 *
 * libhakmem.so and libhakmem.a also define malloc, free, … and the C++ operators new and delete.
 */
#ifndef HAKMEM_H
#define HAKMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define HAKMEM_VERSION_MAJOR 0
#define HAKMEM_VERSION_MINOR 1
#define HAKMEM_VERSION_PATCH 0
#define HAKMEM_VERSION 100 /* 10000 * major + 100 * minor + patch */

#ifdef __cplusplus
extern "C" {
#endif

#define HAK_EXPORT __attribute__((visibility("default")))

/* The version of the library in use, in the form of HAKMEM_VERSION. */
HAK_EXPORT int hak_version(void);

HAK_EXPORT void *hak_malloc(size_t bytes);
HAK_EXPORT void *hak_calloc(size_t count, size_t bytes);
HAK_EXPORT void *hak_realloc(void *block, size_t bytes);
HAK_EXPORT void *hak_reallocarray(void *block, size_t count, size_t bytes);
HAK_EXPORT void hak_free(void *block);
/* C23. `bytes` (and `alignment`) must equal the request; a debug build verifies it. */
HAK_EXPORT void hak_free_sized(void *block, size_t bytes);
HAK_EXPORT void hak_free_aligned_sized(void *block, size_t alignment, size_t bytes);

/* `alignment` must be a power of two (posix_memalign); the other two functions round it up to one. */
HAK_EXPORT void *hak_aligned_alloc(size_t alignment, size_t bytes);
HAK_EXPORT void *hak_memalign(size_t alignment, size_t bytes);
HAK_EXPORT int hak_posix_memalign(void **block, size_t alignment, size_t bytes);
HAK_EXPORT void *hak_valloc(size_t bytes);
HAK_EXPORT void *hak_pvalloc(size_t bytes);

/* Usable bytes at `block`: at least the request. 0 for NULL. */
HAK_EXPORT size_t hak_malloc_usable_size(const void *block);

/* Give free pages back to the operating system, but keep about `keep_bytes` of them (in steps of 16 KiB) for reuse. The
 * calling thread first flushes its cache; other threads flush theirs at their next slow-path call. Returns true if at
 * least one page was given back. */
HAK_EXPORT bool hak_trim(size_t keep_bytes);

/* Return every block cached by the calling thread to the shared heap, for example before the thread goes idle. */
HAK_EXPORT void hak_thread_flush(void);

/* Write the statistics as one JSON object, NUL-terminated, into buffer[capacity].
 * Returns the length of the whole text without the NUL, as snprintf does, and cuts off the rest.
 * buffer may be NULL if capacity is 0. All counts are >= 0; "live" counts blocks handed out.
 *   "totals"      bytes by place: live (small: blocks up to 1 MiB, large: above), cached, free in slabs, used,
 *                 retained (free and perhaps resident), the target for that, mapped, metadata
 *   "os_calls"    system calls so far
 *   "lock_waits"  how often threads waited for a lock, by duration
 *   "classes"     one object for each block size up to 1 MiB
 * hakmem(3) lists every key. */
HAK_EXPORT size_t hak_stats_json(char *buffer, size_t capacity);

/* Leaves with the next SONAME; `hak heap metrics` reads the same from outside.
 * Write the statistics as OpenMetrics text, for monitoring. It has the bytes allocated, active, resident, retained,
 * mapped and others, the system calls, and the blocks by size. hakmem(3) lists every name. */
HAK_EXPORT size_t hak_stats_openmetrics(char *buffer, size_t capacity);

/* Print the statistics as text. */
HAK_EXPORT void hak_stats_print(FILE *out);

/* The heap profile: the stacks that allocated the memory in use, estimated from a sample of the blocks.
 * hak_profile_start begins to sample, or changes the rate: one block about every `mean_bytes` bytes, 1 to 2^30. With 1
 * it samples every block, and the profile is exact; 0 means the default, 512 KiB. Returns 0, EINVAL or ENOMEM. Earlier
 * allocations appear in no profile.
 * hak_profile_stop ends the sampling; sampled blocks stay in the profile until they are freed.
 * hak_profile_write writes the profile so far, for pprof: as gzip, unless the name ends with .pb. %p in the name stands
 * for the process, and %n for the number of the profile. NULL: the name in the option PROFILE_FILE. Returns 0 or an
 * error number. The reading tool resolves addresses to names. */
HAK_EXPORT int hak_profile_start(size_t mean_bytes);
HAK_EXPORT void hak_profile_stop(void);
HAK_EXPORT int hak_profile_write(const char *file);

/* Options by name as listed by HAKMEM_HELP=1, with or without the HAKMEM_ prefix, in any case.
 * hak_option_get writes the value as text, NUL-terminated. Returns 0, or ENOENT (no such option).
 * hak_option_set returns 0, ENOENT, EINVAL (malformed or out of range), or EPERM. EPERM means an option that is read
 * only from the environment: all but WARM_POOL_SIZE, RETAIN..., DECAY_MS, HUGE_PAGES, MEMORY_LIMIT and
 * PROFILE_DUMP_GROWTH. */
HAK_EXPORT int hak_option_get(const char *name, char *value, size_t capacity);
HAK_EXPORT int hak_option_set(const char *name, const char *value);

/* Verify every invariant of the heap; print the first failure and abort. For tests: it is slow. Other threads must not
 * allocate or free meanwhile, nor have done so while this process was forked. */
HAK_EXPORT void hak_check(void);

#ifdef __cplusplus
}
#endif
#endif
