/* A program that ends by abort() writes no coverage data, so the lines that report misuse would count as never run.
 * Compiled into the library by the coverage preset only. */
#include <signal.h>
#include <unistd.h>

void __gcov_dump(void);

/* Returning lets abort() go on to end the process by SIGABRT. */
static void write_coverage(int signal_number) {
  (void)signal_number;
  /* Writing allocates: should the aborting thread hold a lock of the heap, the alarm ends the wait. */
  const unsigned patience_seconds = 5;
  signal(SIGALRM, SIG_DFL);
  alarm(patience_seconds);
  __gcov_dump();
  alarm(0);
}

__attribute__((constructor)) static void install(void) {
  signal(SIGABRT, write_coverage);
}
