/* Duty: run part of a test in a child process, where the core is as the parent left it (or untouched), where it may
 * be ended by abort(), and where what it writes to stderr can be read. */
#ifndef HAK_TEST_CHILD_H
#define HAK_TEST_CHILD_H

#include <stddef.h>

typedef struct ChildResult {
  int status; /* as waitpid() gives it */
  char errors[16384];
  size_t length; /* of errors, NULs included */
} ChildResult;

/* What the child wrote to stderr is cut off at the end of `errors`. */
void child_run(void (*body)(void), ChildResult *result);

/* The body must end without a failed check. */
void child_succeeds(void (*body)(void));

/* The body must be stopped for misuse, with exactly this line: "hakmem: FUNCTION(): REASON: 0xADDRESS". */
void child_is_stopped(void (*body)(void), const char *function, const char *reason, const void *address);

/* The body must be stopped because the heap is not as it should be. */
void child_breaks_invariant(void (*body)(void));

#endif
