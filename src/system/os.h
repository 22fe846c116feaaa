/* Duty: every call to the operating system. Any call may fail at any moment; the callers handle this. Once the program
 * runs (main), the heap makes only the calls that glibc's malloc makes, unless an option asks for more: a sandbox may
 * kill the process for any other. A failed call may set errno; the entry points restore it where it must not change.
 * Data: the call counters (relaxed atomics) and the page size, written once. Layers below: aside, base. */
#pragma once

#include "base/base.h"

/* Calls made so far. `failed` counts the calls that the kernel refused. */
typedef struct hak_os_counts {
  uint64_t mmap, munmap, madvise, mprotect, mremap, failed, bytes_mapped_total;
} hak_os_counts_t;

/* Page size in bytes: a power of two, at least 4096. */
size_t hak_os_page_bytes(void);

/* Whether later mappings get the name [anon:hakmem], if the kernel supports names. Off at first. */
void hak_os_name_mappings(bool wanted);

/* Map readable, writable, zeroed memory, at the address hint `hint` if that is free. `hint` may be NULL. NULL on
 * failure. */
void *hak_os_map(void *hint, size_t bytes);
/* Like hak_os_map, aligned to `align` (a power of two, of pages). `hint` is an aligned hint, or NULL. */
void *hak_os_map_aligned(void *hint, size_t bytes, size_t align);

/* Reserve `bytes` of address space without access, at no cost in memory. NULL on failure. */
void *hak_os_reserve(size_t bytes);
/* Discard mapped pages and take their access away; the addresses stay reserved. */
bool hak_os_withdraw(void *at, size_t bytes);
/* Map `bytes` of read-only zeros, at no cost in memory until made writable. */
void *hak_os_map_readonly(size_t bytes);
/* Make pages of a read-only mapping writable, once only: where the kernel refuses the change, they are mapped anew. */
bool hak_os_make_writable(void *at, size_t bytes);

/* Take the access of pages away, which keep their contents; hak_os_make_writable gives it back. */
bool hak_os_close(void *at, size_t bytes);
/* Discard pages and take their access away by advice (Linux 6.13), without splitting the mapping. False: the kernel has
 * no such advice, or a filter may not allow it. hak_os_unguard gives the access back. */
bool hak_os_guard(void *at, size_t bytes);
bool hak_os_unguard(void *at, size_t bytes);
/* Make whole pages read-only: for good if the kernel can seal them, else until a call makes them writable. */
bool hak_os_seal(void *at, size_t bytes);

typedef enum hak_os_map_result { HAK_OS_MAPPED, HAK_OS_OCCUPIED, HAK_OS_NO_MEMORY } hak_os_map_result_t;
/* Map readable, writable, zeroed memory exactly at `at`, only if nothing is mapped there. */
hak_os_map_result_t hak_os_map_at(void *at, size_t bytes);
bool hak_os_unmap(void *at, size_t bytes);
/* Unmap memory that the program never used. */
bool hak_os_unmap_unused(void *at, size_t bytes);
/* Page attributes that a program may have set. */
typedef enum hak_os_altered {
  HAK_OS_PROTECTED = 1,
  HAK_OS_KEYED = 2,    /* has a protection key */
  HAK_OS_UNFORKED = 4, /* absent or empty in the child of a fork */
  HAK_OS_GUARDED = 8
} hak_os_attribute_t;
/* Restore ordinary attributes to pages that were changed in any of these `ways`, and map pages that are missing. Makes
 * only the calls that these ways need. False: some pages may not be ordinary. */
bool hak_os_make_ordinary(void *at, size_t bytes, uint32_t ways);
/* Discard the contents, so that the pages read as zeros. False: some may not, for example because a page is locked. */
bool hak_os_discard(void *at, size_t bytes);
/* Whether a fresh mapping is locked in memory by mlockall(MCL_FUTURE), and so resident at once. */
bool hak_os_is_locked(void *page);
/* The system's setting for 2 MiB pages, as the first call found it. */
typedef enum hak_os_huge { HAK_OS_HUGE_NEVER, HAK_OS_HUGE_ADVISED, HAK_OS_HUGE_ALWAYS } hak_os_huge_t;
hak_os_huge_t hak_os_huge_mode(void);
/* Turn huge pages for the range on or off, from the next fault on. Returns whether it did. Under a filter it makes no
 * call and returns false. */
bool hak_os_set_huge(void *at, size_t bytes, bool wanted);
/* Ask for no huge pages in the range, if the system makes them by itself. */
void hak_os_decline_huge(void *at, size_t bytes);
/* Whether the process set a filter, or is about to, which may kill it for an unusual call. */
bool hak_os_is_filtered(void);
void hak_os_expect_filter(bool strict);
/* Whether strict seccomp is in force, which allows no call of the heap. The heap then gives nothing back, and changes
 * no access. */
bool hak_os_is_strict(void);
/* Whether the process is a child of vfork, so that its memory is its parent's. False where a filter exists. */
bool hak_os_shares_memory(void);
/* Give advice that takes no memory away, by direct system call. */
bool hak_os_advise_quietly(void *at, size_t bytes, int advice);
/* Which pages of a range are resident: bit 0 of one byte each. False: part of the range is unmapped, or a filter
 * forbids the call; then all bytes are 0. */
bool hak_os_residency(void *at, size_t bytes, unsigned char *resident);
/* Whether the system's settings offer 64 KiB mTHP to processes that ask. */
bool hak_os_offers_mthp(void);
/* Touch the middle of a clean range, and count the bytes that this makes resident among its first 512 pages (2 MiB).
 * 0: unknown. */
size_t hak_os_fault_bytes(void *at, size_t bytes);
/* Find an unmapped range for `bytes` aligned to `align`; the result may be one `align` off. NULL: there is none. */
void *hak_os_find_gap(size_t bytes, size_t align);
/* Lengthen a range to `wanted` bytes. With `may_move` it may move to a free place and leave its old one unmapped. NULL:
 * nothing changed, for example because the range is several mappings. */
void *hak_os_lengthen(void *at, size_t bytes, size_t wanted, bool may_move);
/* Move pages onto mapped zeros of the heap; their old place becomes unmapped. False: the pages did not move. *lost: the
 * target is unmapped, or holds something foreign. */
bool hak_os_move(void *from, void *to, size_t bytes, bool *lost);

/* Milliseconds of a cheap monotonic clock with a resolution of a few milliseconds. */
uint64_t hak_os_now_ms(void);
/* Milliseconds of processor time of the calling thread; 0: unknown. A system call. */
uint64_t hak_os_busy_ms(void);
/* Nanoseconds of a monotonic clock, and since 1970. */
uint64_t hak_os_now_ns(void);
uint64_t hak_os_wall_ns(void);
/* Random bits, independent of any other secret of the process. */
uint64_t hak_os_random(void);
/* Whether the word at this address, which may be any, can be read. */
bool hak_os_is_readable(uintptr_t at);
/* The word there; 0: it cannot be read, or the address is none of a word. */
uintptr_t hak_os_word_at(uintptr_t at);
/* Restore the default action of SIGABRT, which ends the process. */
void hak_os_reset_abort(void);
/* Sleep while the word has that value, at most so many milliseconds. The call may return without a reason. A thread
 * that is woken may first run a signal handler that waits for a sleeping thread: threads of the program sleep at most
 * HAK_OS_WAIT_MS. */
enum { HAK_OS_WAIT_MS = 20 };
void hak_os_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ms);
/* Wake one thread that sleeps on the word. */
HAK_COLD void hak_os_wake(_Atomic uint32_t *word);
/* Let other threads run for a moment. */
void hak_os_yield(void);
/* Start a detached thread with a small stack, which no signal handler interrupts. `work` gets the signals that the
 * calling thread blocks, for hak_os_enter_background. False: no thread could start. */
bool hak_os_start_thread(void *(*work)(void *));
/* The least stack of a thread, with room for the program's static TLS. */
void hak_os_set_stack_min(size_t bytes);
/* Make the calling thread one of the library's own, which has no heap. Its name: at most 15 characters. A fault of its
 * own instructions raises a signal that its starter does not block. Returns the thread's number. */
uint32_t hak_os_enter_background(const char *name, const void *signals);
/* Whether the calling thread has a real-time priority, or a deadline. */
bool hak_os_is_real_time(void);
/* Whether the process has a thread of this number apart from the calling one. False under a filter, which may kill. */
bool hak_os_has_other_thread(uint32_t thread);
/* Whether libc knows the calling thread. It does not know a child of vfork, nor one of a bare system call. Where the
 * place of the thread's number is unknown (musl), a thread of a bare system call counts as known. */
bool hak_os_is_known_thread(void);
/* Block all signals of this thread. Returns the earlier mask, for hak_os_set_blocked_signals. */
uint64_t hak_os_block_signals(void);
void hak_os_set_blocked_signals(uint64_t blocked);
/* The calling thread's number, as in /proc, without a system call. 0: unknown, as for a thread before
 * hak_os_set_thread_id_place. */
uint32_t hak_os_thread_id(void);
/* For debuggers, libc stores the number in the object behind pthread_self(), and publishes its place there: bits,
 * count, byte offset. NULL: it does not. */
void hak_os_set_thread_id_place(const uint32_t field[3]);
/* In the child of a fork: it is a process of its own. */
void hak_os_know_process(void);
/* The program break, which ends libc's own heap. */
char *hak_os_break(void);
/* Whether the program has more rights than its caller, so that the environment is not to be trusted. */
bool hak_os_secure_mode(void);
/* Write all bytes; not a cancellation point. Returns 0, or the errno that ended it. */
int hak_os_write(int fd, const void *bytes, size_t count);
/* Write to stderr, or to the remembered one if stderr is closed. Ignores errors. */
void hak_os_write_error(const char *text, size_t length);
/* Remember the present stderr for reports at exit. */
void hak_os_remember_stderr(void);
/* Write to the remembered stderr, but never to another file that has reused its number. If the program closed stderr,
 * the copy that hak_os_remember_stderr made serves. */
void hak_os_write_report(const char *text, size_t length);

/* Whether this thread is in a call that other libraries may intercept. Such a library's own allocations then bypass the
 * thread's heap, which heap.c sets aside. */
bool hak_os_is_calling(void);

void hak_os_read_counts(hak_os_counts_t *counts);
