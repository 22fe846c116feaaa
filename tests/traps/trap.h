/* Functions that the programs of this directory share. Each program uses only the public interface. It ends with status
 * 0, or with TRAP_SKIP if the system lacks a feature that it needs.
 *
 * A program is built three times: linked with the shared library, with the archive, and with neither, to be run with
 * the library preloaded. HAK(function) is the library's function in all three. */
#ifndef HAK_TEST_TRAP_H
#define HAK_TEST_TRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "check.h"
#include "names.h"

enum { TRAP_SKIP = 77, TRAP_TEXT_BYTES = 1024 };

#ifdef TRAP_PRELOADED
#define HAK(function) ((__typeof__(&(function)))trap_find(#function))
#else
#define HAK(function) (&(function))
#endif

/* The address of a function of the preloaded library; fails when there is none. */
void *trap_find(const char *name);

_Noreturn void trap_skip(const char *why);

/* A program that hangs fails: SIGALRM ends it after so many seconds with almost no use of the processor, or after twice
 * as many seconds of processor time. On a busy machine, a program is only slow. */
void trap_watchdog(unsigned seconds);

/* How a child ended, and what it wrote on stderr before. */
typedef struct {
  int status;
  char text[TRAP_TEXT_BYTES];
} TrapEnd;

/* Runs act(argument) in a child, which leaves with status 0 when it returns. */
TrapEnd trap_in_child(void (*act)(void *argument), void *argument);

/* Whether the child ended by abort(), and printed exactly one of the library's messages about misuse. */
bool trap_is_misuse(const TrapEnd *end);

/* A number of the statistics, for example trap_stat("os_calls", "mmap"). */
uint64_t trap_stat(const char *section, const char *name);

/* Sum of the counted system calls, failed ones included. */
uint64_t trap_os_calls(void);

size_t trap_rss_kib(void);

/* Calls visit() for every line of a file of /proc, without allocating; lines are cut at 255 characters. */
void trap_each_line(const char *path, void (*visit)(const char *line, void *argument), void *argument);

#endif
