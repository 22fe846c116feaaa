/* What the programs of this directory share. Each is written against the public interface alone and ends with status 0,
 * or TRAP_SKIP where the system does not offer what it needs.
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

/* A program that hangs is a failure: SIGALRM ends it after so many seconds in which it used next to no processor time,
 * or after twice as much of that. A machine that is busy with others only makes it slow. */
void trap_watchdog(unsigned seconds);

/* How a child ended, and what it wrote on stderr before. */
typedef struct {
  int status;
  char text[TRAP_TEXT_BYTES];
} TrapEnd;

/* Runs act(argument) in a child, which leaves with status 0 when it returns. */
TrapEnd trap_in_child(void (*act)(void *argument), void *argument);

/* Ended by abort(), with one of the messages that the library prints about a caller's misuse, and no other. */
bool trap_is_misuse(const TrapEnd *end);

/* A number of the statistics: trap_stat("os_calls", "mmap"). */
uint64_t trap_stat(const char *section, const char *name);

/* Sum of the counted system calls, failed ones included. */
uint64_t trap_os_calls(void);

size_t trap_rss_kib(void);

/* Calls visit() for every line of a file of /proc, without allocating; lines are cut at 255 characters. */
void trap_each_line(const char *path, void (*visit)(const char *line, void *argument), void *argument);

#endif
