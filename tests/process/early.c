/* Allocation before the first constructor, in constructors, in main, in exit handlers and in destructors
 * that run after the allocator's own. Blocks live from the first stage to the last.
 * argument: none, or "run" for the process under test, which writes one letter for each stage */
#include <string.h>
#include <sys/wait.h>

#include "check.h"
#include "early_stage.h"

static struct early_blocks from_preinit, from_init, from_main;

static void preinit_stage(void) {
  early_allocate(&from_preinit);
  early_report('P');
}

__attribute__((section(HAK_TEST_EARLIEST), used)) static void (*const preinit)(void) = preinit_stage;

__attribute__((constructor)) static void init_stage(void) {
  early_allocate(&from_init);
  early_report('I');
}

static void exit_stage(void) {
  early_free(&from_main);
  early_allocate(&from_main);
  early_report('X');
}

__attribute__((destructor)) static void fini_stage(void) {
  early_free(&from_main);
  early_free(&from_init);
  early_free(&from_preinit);
  early_report('F');
}

static void run(void) {
  early_allocate(&from_main);
  if (atexit(exit_stage) != 0)
    abort();
  early_report('M');
}

/* Reads all letters, and counts how often each one came in counts[letter]. */
static void count_letters(int file, unsigned counts[256]) {
  unsigned char letter;
  ssize_t length;
  while ((length = read(file, &letter, 1)) == 1)
    counts[letter]++;
  CHECK(length == 0);
}

int main(int count, char **arguments) {
  if (count == 2 && strcmp(arguments[1], "run") == 0) {
    run();
    return 0;
  }
  CHECK(count == 1);
  check_served();
  int ends[2];
  unsigned counts[256] = {0};
  CHECK(pipe(ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    CHECK(dup2(ends[1], STDOUT_FILENO) == STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl("/proc/self/exe", arguments[0], "run", (char *)NULL);
    _exit(1);
  }
  close(ends[1]);
  count_letters(ends[0], counts);
  check_child(child);
  CHECK(counts['P'] == 1 && counts['I'] == 1 && counts['M'] == 1 && counts['X'] == 1 && counts['F'] == 1);
  CHECK(counts['a'] == 2 && counts['b'] == 2); /* start and end of each library */
  _exit(0);                                    /* the remaining stages of this process would write to the terminal */
}
