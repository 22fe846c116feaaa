/* Duty: every call to the operating system. Anything here may fail at any moment; the callers cope. Once the program
 * runs (main), the heap makes no calls but those of glibc's malloc, unless an option asks: a sandbox may kill for any
 * other. Data: the call counters (read and written as relaxed atomics) and the page size, written once. Layers below:
 * base. A call that fails may set errno; the entry points restore it where it must not change. */
#pragma once

#include "base.h"

/* Calls made so far. `failed` counts calls the kernel refused. */
typedef struct hak_os_counts {
  uint64_t mmap, munmap, madvise, mprotect, mremap, failed, bytes_mapped_total;
} hak_os_counts_t;

/* Bytes of a page: a power of two, at least 4096. */
size_t hak_os_page_bytes(void);

/* Whether mappings made from now on are named [anon:hakmem], where the kernel has names for them; at first they are
 * not. */
void hak_os_name_mappings(bool wanted);

/* Map readable, writable, zeroed memory; at `wish` if nothing is there, which may be NULL. NULL on failure. */
void *hak_os_map(void *wish, size_t bytes);
/* The same at a multiple of `align` (a power of two, of pages), at `wish` (such a multiple, or NULL) if it can be. */
void *hak_os_map_aligned(void *wish, size_t bytes, size_t align);

/* Map `bytes` that can neither be read nor written, and that cost nothing. NULL on failure. */
void *hak_os_reserve(size_t bytes);
/* Map `bytes` of zeros that can be read but not written, and that cost nothing until made writable. */
void *hak_os_map_readonly(size_t bytes);
/* Make pages of such a mapping writable. Not twice: where the kernel refuses to change them they are mapped anew. */
bool hak_os_make_writable(void *at, size_t bytes);

typedef enum hak_os_map_result { HAK_OS_MAPPED, HAK_OS_OCCUPIED, HAK_OS_NO_MEMORY } hak_os_map_result_t;
/* Map readable, writable, zeroed memory exactly at `at`, and only if nothing is mapped there. */
hak_os_map_result_t hak_os_map_at(void *at, size_t bytes);
bool hak_os_unmap(void *at, size_t bytes);
/* The same of what no program ever had. */
bool hak_os_unmap_unused(void *at, size_t bytes);
/* What may be done to pages. */
typedef enum hak_os_altered {
  HAK_OS_PROTECTED = 1,
  HAK_OS_KEYED = 2,    /* has a protection key */
  HAK_OS_UNFORKED = 4, /* not there, or empty, in the child of a fork */
  HAK_OS_GUARDED = 8
} hak_os_altered_t;
/* As all others again, whichever of these `ways` was taken, with no call of another kind; where nothing is mapped,
 * mapped. False: some of it may not be so. */
bool hak_os_make_ordinary(void *at, size_t bytes, uint32_t ways);
/* Drop the contents: the pages read as zeros afterwards. False: some of them may, say before one that is locked. */
bool hak_os_discard(void *at, size_t bytes);
/* Whether what was just mapped is locked in memory, by mlockall(MCL_FUTURE), and so resident at once. */
bool hak_os_is_locked(void *page);
/* What the system's setting for pages of 2 MiB was when first asked about. */
typedef enum hak_os_huge { HAK_OS_HUGE_NEVER, HAK_OS_HUGE_ADVISED, HAK_OS_HUGE_ALWAYS } hak_os_huge_t;
hak_os_huge_t hak_os_huge_mode(void);
/* Whether the range gets huge pages from the next fault on. Under a filter nothing is asked, and the answer is false.
 */
bool hak_os_set_huge(void *at, size_t bytes, bool wanted);
/* No huge pages for the range, where the system makes them unasked. */
void hak_os_decline_huge(void *at, size_t bytes);
/* Whether the process is about to be under a filter, which may kill for an unusual call. */
bool hak_os_is_filtered(void);
void hak_os_expect_filter(void);
/* Advice that takes nothing away, by direct system call. */
bool hak_os_advise_quietly(void *at, size_t bytes, int advice);
/* Which pages of a range are resident: bit 0 of a byte each. False: nothing is mapped in some of it, or a filter may
 * kill for the question; all are 0 then. */
bool hak_os_residency(void *at, size_t bytes, unsigned char *resident);
/* Whether the system's settings offer pages of 64 KiB to who asks. */
bool hak_os_offers_medium_pages(void);
/* What one first touch of such a range, which is clean, makes resident there, in bytes; at most 2 MiB are looked at. 0:
 * nobody knows. */
size_t hak_os_fault_bytes(void *at, size_t bytes);
/* Where so much would be mapped at a multiple of `align`, but a multiple further perhaps. NULL: it could not be. */
void *hak_os_find_gap(size_t bytes, size_t align);
/* Make a range `wanted` bytes long; it may move where nothing is, and leaves nothing where it was. NULL: nothing
 * changed; it is several mappings, say. */
void *hak_os_lengthen(void *at, size_t bytes, size_t wanted, bool may_move);
/* Move pages to where nothing but mapped zeros of ours are; nothing stays where they were. False: they are where they
 * were; *lost: there is nothing at the other place, or something of others. */
bool hak_os_move(void *from, void *to, size_t bytes, bool *lost);

/* Milliseconds of a monotonic clock with a resolution of a few milliseconds; cheap. */
uint64_t hak_os_now_ms(void);
/* Nanoseconds of a monotonic clock; and since 1970. */
uint64_t hak_os_now_ns(void);
uint64_t hak_os_wall_ns(void);
/* Random bits that tell nothing about any other secret of the process. */
uint64_t hak_os_random(void);
/* Sleep while the word has that value, but not long; may wake without a reason. */
void hak_os_wait(_Atomic uint32_t *word, uint32_t value);
/* Wake one that sleeps. */
HAK_COLD void hak_os_wake(_Atomic uint32_t *word);
/* Let others run for a moment. */
void hak_os_yield(void);
void hak_os_sleep_ms(uint64_t ms);
/* A thread with a small stack, which no signal handler interrupts and nobody joins. False: it could not begin. */
bool hak_os_start_thread(void *(*work)(void *));
/* The calling thread's name, as the system shows it: 15 characters at most. */
void hak_os_name_thread(const char *name);
/* No handler of a signal interrupts this thread until it sets again what is returned. */
uint64_t hak_os_block_signals(void);
void hak_os_set_blocked_signals(uint64_t blocked);
/* Of the calling thread, as /proc has it, without a system call. 0: not known, for one before hak_os_find_thread_id. */
uint32_t hak_os_thread_id(void);
void hak_os_find_thread_id(void);
/* The program break, where libc's own heap ends. */
char *hak_os_break(void);
/* True in a program that runs with more rights than its caller: the environment is not to be trusted. */
bool hak_os_secure_mode(void);
/* Write all of it; not a cancellation point. 0, or the errno of what ended it. */
int hak_os_write(int fd, const void *bytes, size_t count);
/* The same to stderr, or, where it is closed, to the remembered one; errors are ignored. */
void hak_os_write_error(const char *text, size_t length);
/* Remember what stderr is now, for reports at exit. */
void hak_os_remember_stderr(void);
/* Write to the remembered stderr, and to no other file that has its number by then. Where the program has closed it, a
 * copy serves, made then; where it closed that, too, the file is opened again: by its name, or, a pipe, by way of a
 * process of the same user that has it open. */
void hak_os_write_report(const char *text, size_t length);

/* Whether this thread is in a call that other libraries may stand before. What these allocate and free meanwhile is
 * done as by a thread without a heap: heap.c sets the thread's own one aside. */
bool hak_os_is_calling(void);
typedef struct hak_os_aside {
  void *heap, *operators;
} hak_os_aside_t;
void hak_os_step_aside(hak_os_aside_t *aside);
void hak_os_step_back(const hak_os_aside_t *aside);

void hak_os_read_counts(hak_os_counts_t *counts);
