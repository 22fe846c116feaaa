/* Duty: run part of a test in a child process. There the core is in the state of the parent (or untouched), the code
 * may end by abort(), and the test can read its stderr. */
#ifndef HAK_TEST_CHILD_H
#define HAK_TEST_CHILD_H

#include <stddef.h>

typedef struct ChildResult {
  int status; /* as from waitpid() */
  char errors[16384];
  size_t length; /* of errors, NULs included */
} ChildResult;

/* The child's stderr is stored in `errors`, as much as fits. */
void child_run(void (*body)(void), ChildResult *result);

/* The body must end without a failed check. */
void child_succeeds(void (*body)(void));

/* The body must be stopped for misuse, with exactly this line: "hakmem: FUNCTION(): REASON: 0xADDRESS". */
void child_is_stopped(void (*body)(void), const char *function, const char *reason, const void *address);

/* The body must be stopped because an invariant of the heap is broken. */
void child_breaks_invariant(void (*body)(void));

#endif
