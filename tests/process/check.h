/* Checks and small helpers of the process tests.
 *
 * None of these functions allocates, so a failure can be reported from any point of a process's life:
 * before constructors, after destructors, in a child that was forked while other threads held locks. */
#ifndef HAKMEM_TEST_PROCESS_CHECK_H
#define HAKMEM_TEST_PROCESS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Unlike assert() this stays in release builds, and it ends a forked child without running handlers. */
#define CHECK(condition) ((condition) ? (void)0 : check_fail(__FILE__, __LINE__, #condition))

_Noreturn void check_fail(const char *file, int line, const char *condition);

/* Fails unless malloc of this process is libhakmem's: otherwise the other checks would prove nothing. */
void check_served(void);

/* A positive count from a program argument; fails on anything else. */
unsigned check_count(const char *text);

/* Waits for one child and fails unless it left with exit status 0. */
void check_child(pid_t child);

/* Resident memory of this process. */
size_t check_rss_kib(void);

/* Fails when resident memory has grown by more than `limit_kib` since it was `before_kib`. */
void check_growth(size_t before_kib, size_t limit_kib);

/* Runs the program again with one argument and an otherwise equal environment; fails unless it succeeds. */
void check_run_again(const char *argument);

/* Copies a file; fails when that is not possible. */
void check_copy_file(const char *from, const char *to);

/* xorshift64: `state` must not be 0. */
uint64_t check_random(uint64_t *state);

#endif
