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
 * Write the statistics as OpenMetrics text, for monitoring: the bytes allocated, active, resident, retained,
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

/* Regions: memory for one plugin, tenant, stage or request. A region has a name, limits and exact counts, and all of
 * its blocks can go at once. free(), realloc() and malloc_usable_size() work on its blocks, from any thread; realloc()
 * leaves a block in its region. Any number of threads may use one region.
 *
 * All bytes are counted in pages of 4 KiB: blocks, large blocks and what the region needs for itself, and in each
 * parent also those of its children. Pages that a region keeps for its next blocks count too. Such pages go back
 * before a limit of the region or a parent refuses a request, and at hak_trim().
 * A large block in memory that was in use before counts in steps of 16 KiB. A new region uses no page.
 *
 * A region that was destroyed, released, or retired and empty must not be named again: the process then aborts with one
 * line, as for other misuse. Its address serves a new region after a thousand others have ended. */
typedef struct hak_region hak_region_t;

typedef enum hak_region_limit_kind {
  HAK_REGION_SOFT, /* a request would pass the soft limit */
  HAK_REGION_HARD, /* or the hard one */
} hak_region_limit_kind_t;

/* Zeros mean: none. */
typedef struct hak_region_options {
  const char *name;     /* for statistics; the first 47 bytes count */
  hak_region_t *parent; /* whose limits count too, and which must outlive it or end it */
  size_t soft_limit;    /* in bytes; only on_limit notices it */
  size_t hard_limit;    /* in bytes; a request beyond it gets NULL and ENOMEM */
  /* Called before a request of the region or a descendant passes a limit: with `region`, whose limit it is, and the
   * bytes of the request. The caller of malloc waits for the callback, which holds no lock and may free, allocate, or
   * change limits. Meanwhile its thread's requests pass soft limits and call it no more. The callback must return, so
   * it may neither throw nor longjmp(), and must not end the block that realloc() was called with. True: go on (the
   * soft limit is passed, or the hard limit is looked at again, once). False: refuse the request. */
  bool (*on_limit)(hak_region_t *region, size_t bytes, hak_region_limit_kind_t limit, void *user);
  void *user;
  /* Memory of the caller, in which all of the region's blocks then lie. It must stay until the region has ended, and be
   * private to the process: MAP_SHARED is refused where /proc/self/maps can be read, since the counts and the lock are
   * this process's alone. Alignments of up to half its size are possible. */
  void *memory;
  size_t memory_bytes;
} hak_region_options_t;

/* `options` may be NULL. Returns NULL and sets errno: ENOMEM; of given memory, EINVAL if it is too small, and ENOTSUP
 * if it is shared. */
HAK_EXPORT hak_region_t *hak_region_new(const hak_region_options_t *options);
/* Change the limits, in bytes. 0: none. */
HAK_EXPORT void hak_region_limit(hak_region_t *region, size_t soft_limit, size_t hard_limit);
/* Change the callback; NULL: none. A call of the former one may still run. */
HAK_EXPORT void hak_region_on_limit(hak_region_t *region,
                                    bool (*on_limit)(hak_region_t *region, size_t bytes, hak_region_limit_kind_t limit,
                                                     void *user),
                                    void *user);
/* The region of the whole process, in which all others lie. Its blocks are the ordinary ones. Its hard limit is the
 * option MEMORY_LIMIT. All pages count that hold blocks, of any region, stay for reuse, or hold what the heap needs
 * for itself. Near the limit, free pages go back first. on_limit is called with the hard limit before a request
 * is refused, also where the system has no memory; and with the soft one after a request took pages beyond it: false
 * gives them back and refuses the request. hak_region_usage gives used and limit; live_bytes and peak_bytes are those
 * of the pages in use, and the others are 0. hak_region_of(an ordinary block) is NULL. To retire, reset, destroy,
 * release or walk the process's region is misuse. */
HAK_EXPORT hak_region_t *hak_region_process(void);

/* As the functions without `region`. All return NULL and set errno to ENOMEM at a limit, in a retired region, and
 * where there is no memory. hak_region_realloc moves a block of another region, or of none, into this one. */
HAK_EXPORT void *hak_region_malloc(hak_region_t *region, size_t bytes);
HAK_EXPORT void *hak_region_calloc(hak_region_t *region, size_t count, size_t bytes);
HAK_EXPORT void *hak_region_realloc(hak_region_t *region, void *block, size_t bytes);
HAK_EXPORT void *hak_region_aligned_alloc(hak_region_t *region, size_t alignment, size_t bytes);

/* Between the two calls, all requests of this thread (malloc, new, …) go to the region; frees work as ever. Scopes
 * nest, and must be left in the reverse order, or the process aborts. The end of a thread leaves its scopes. In the
 * child of a fork, the scopes of the forking thread go on. hak_region_enter returns false, and does nothing, without
 * memory. */
HAK_EXPORT bool hak_region_enter(hak_region_t *region);
HAK_EXPORT void hak_region_leave(hak_region_t *region);

/* No new blocks. The region ends when its last block is freed, its last scope left and its last child ended. */
HAK_EXPORT void hak_region_retire(hak_region_t *region);
/* End all blocks. The pages of blocks up to 16 KiB stay for the next ones. Children keep their blocks. */
HAK_EXPORT void hak_region_reset(hak_region_t *region);
/* End all blocks, the region and its descendants. No thread may be inside one of these regions. */
HAK_EXPORT void hak_region_destroy(hak_region_t *region);
/* The region and its descendants are gone; their live blocks become ordinary ones. No thread may be inside.
 * Other threads may free or resize blocks meanwhile. */
HAK_EXPORT void hak_region_release(hak_region_t *region);

typedef struct {
  size_t live_bytes, live_blocks; /* of the region alone: blocks that were not freed, with their unused ends */
  size_t used_bytes, peak_bytes;  /* what limits count, with all descendants: now, and at most so far */
  size_t limit_bytes;             /* the hard limit; 0: none */
  unsigned long long allocated_bytes, freed_bytes; /* of the region alone, since it was made */
} hak_region_usage_t;

/* In constant time. False: the region has ended, and `usage` is unchanged. */
HAK_EXPORT bool hak_region_usage(const hak_region_t *region, hak_region_usage_t *usage);
HAK_EXPORT const char *hak_region_name(const hak_region_t *region);
/* The region of a live block, or NULL. */
HAK_EXPORT hak_region_t *hak_region_of(const void *block);
/* Call `visit` for each live block, with its usable bytes, until `visit` returns another number than 0, which is then
 * returned; else 0. `visit` may free the block. It must return, so it may neither throw nor longjmp(). What
 * other threads allocate or free meanwhile is visited or not. */
HAK_EXPORT int hak_region_walk(hak_region_t *region, int (*visit)(void *block, size_t bytes, void *context),
                               void *context);
/* How much of the slab around a live block is in use, in percent: programs that defragment move the blocks of slabs
 * that are little used. Blocks in a thread's cache count as used. 100 for large blocks. */
HAK_EXPORT unsigned hak_utilisation(const void *block);

/* Verify every invariant of the heap; print the first failure and abort. For tests: it is slow. Other threads must not
 * allocate or free meanwhile, nor have done so while this process was forked. */
HAK_EXPORT void hak_check(void);

#ifdef __cplusplus
}
#endif
#endif
