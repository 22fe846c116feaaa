#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine.h"
#include "names.h"

enum { HANDLED = 9, CHILD_SECONDS = 30, WORKS = 64 };

static const struct op *op_of_child;

bool is_ours(void) {
#ifdef HAK_TEST_STANDARD_NAMES
  static _Atomic int known;
  if (known == 0) {
    Dl_info one, other;
    void *own = dlsym(RTLD_DEFAULT, "hak_stats_json"), *serving = dlsym(RTLD_DEFAULT, "malloc");
    bool both = own != NULL && dladdr(own, &one) != 0 && dladdr(serving, &other) != 0;
    known = both && one.dli_fbase == other.dli_fbase ? 1 : -1;
  }
  return known > 0;
#else
  return true;
#endif
}

/* Allocates as a crash reporter does, in sizes of all kinds, and that of the damaged block. */
static void handle(int signal_number) {
  (void)signal_number;
  const size_t bytes[] = {(size_t)op_of_child->x, 24, 100, 1000, 5000, 50000, 300000, 3000000};
  for (int round = 0; round < 4; round++) {
    void *blocks[sizeof bytes / sizeof *bytes];
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
      blocks[i] = i % 2 == 0 ? hak_malloc(bytes[i]) : hak_calloc(1, bytes[i]);
      blocks[i] = blocks[i] == NULL ? NULL : hak_realloc(blocks[i], bytes[i] + bytes[i] / 2);
    }
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
      hak_free(blocks[i]);
    }
  }
  _exit(HANDLED);
}

/* The compiler must not see that these are the same block. */
static void *commit(void *unused) {
  (void)unused;
  size_t bytes = (size_t)op_of_child->x;
  char *volatile blocks[WORKS];
  for (int i = 0; i < WORKS; i++) {
    blocks[i] = hak_malloc(bytes);
  }
  char *volatile damaged = blocks[WORKS / 2];
  if (damaged == NULL) {
    _exit(0);
  }
  if (op_of_child->y == INSIDE) {
    hak_free(damaged + 8);
  }
  hak_free(damaged);
  if (op_of_child->y == TWICE) {
    hak_free(damaged);
  } else if (op_of_child->y == LATE && bytes <= 4096) { /* a larger one may be unmapped */
    memset(damaged, 0x41, bytes);
  }
  for (int i = 0; i < WORKS; i++) {
    if (i != WORKS / 2) {
      hak_free(blocks[i]);
    }
    blocks[i] = hak_malloc(bytes);
  }
  return NULL;
}

static void child_main(const struct op *op, int output) {
  alarm(CHILD_SECONDS);
  dup2(output, STDERR_FILENO);
  op_of_child = op;
  sigaction(SIGABRT, &(struct sigaction){.sa_handler = handle}, NULL);
  pthread_t thread;
  if (op->z == 0) {
    commit(NULL);
  } else if (pthread_create(&thread, NULL, commit, NULL) == 0) {
    pthread_join(thread, NULL);
  }
  _exit(0);
}

/* Number of reports in what the child wrote: lines that begin so. */
static int reports(int input) {
  static const char begin[] = "hakmem: ";
  char text[8192];
  size_t used = 0;
  for (ssize_t n; used < sizeof text - 1; used += (size_t)n) {
    if ((n = read(input, text + used, sizeof text - 1 - used)) < 0 && errno == EINTR) {
      n = 0;
    } else if (n <= 0) {
      break;
    }
  }
  text[used] = '\0';
  int count = 0;
  for (const char *at = text; (at = strstr(at, begin)) != NULL; at += sizeof begin - 1) {
    count++;
  }
  return count;
}

/* One report, and the handler runs to its end. Only a write after free may stay unnoticed, and where calls are made to
 * fail, the report. A sandbox may kill the child. */
static void judge(const struct op *op, int said, int status) {
  bool handled = WIFEXITED(status) && WEXITSTATUS(status) == HANDLED, quiet = status == 0 && said == 0;
  bool may_be_quiet = op->y == LATE, may_say_nothing = getenv("FAULT_PLAN") != NULL;
  bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
  if (killed || (quiet && may_be_quiet)) {
    return;
  }
  if (!handled) {
    fail(quiet ? "a misuse stayed unnoticed" : "a handler of SIGABRT did not end");
  }
  if (said != 1 && !(said == 0 && may_say_nothing)) {
    fail("a misuse was not reported in one line");
  }
}

void crash(const struct op *op) {
  int ends[2], status = 0;
  if (!is_ours() || pipe(ends) != 0) { /* others promise nothing */
    return;
  }
  pid_t child = fork();
  if (child == 0) {
    child_main(op, ends[1]);
  }
  close(ends[1]);
  int said = reports(ends[0]);
  close(ends[0]);
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (child > 0) {
    judge(op, said, status);
  }
}
