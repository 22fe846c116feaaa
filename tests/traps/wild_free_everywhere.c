/* For every size of block: in a run of blocks and the tail behind it, free refuses every address that is no block
 * start.
 *
 * A refusal calls abort(), and the handler of its signal jumps back. This is far cheaper than a child for each
 * address. Each address has a thread of its own, because a thread's second report ends the process. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wild.h"

enum { SPAN_BYTES = 16 << 10, STEP = 16, ODD_EVERY = 41 };

static sigjmp_buf refused;

static void on_abort(int number) {
  (void)number;
  siglongjmp(refused, 1);
}

/* sigsetjmp and free are in one function, so that no live value stays in a register across the jump. NULL: accepted. */
static void *try_free(void *address) {
  if (sigsetjmp(refused, 0) != 0) {
    return &refused;
  }
  hak_free(hide_pointer(address));
  return NULL;
}

static bool is_refused(uintptr_t address) {
  pthread_t thread;
  void *result = NULL;
  CHECK(pthread_create(&thread, NULL, try_free, (void *)address) == 0 && pthread_join(thread, &result) == 0);
  return result && lseek(STDERR_FILENO, 0, SEEK_CUR) > 0 && lseek(STDERR_FILENO, 0, SEEK_SET) == 0;
}

static void report(const char *text) {
  CHECK(write(STDOUT_FILENO, text, strlen(text)) == (ssize_t)strlen(text));
}

static unsigned try_run(size_t bytes, const WildTail *tail) {
  uintptr_t begin = tail->begin, next = tail->next;
  size_t skipped = next - begin > SPAN_BYTES ? (next - begin - SPAN_BYTES) / bytes : 0;
  begin += skipped * bytes;
  for (uintptr_t at = begin; at < next; at += STEP) {
    bool is_start = at < tail->end && (at - begin) % bytes == 0;
    uintptr_t odd = at + 1 + at / STEP % 15;
    bool try_odd = at / STEP % ODD_EVERY == 0;
    if ((!is_start && !is_refused(at)) || (try_odd && !is_refused(odd))) {
      char line[128];
      snprintf(line, sizeof line, "blocks of %zu bytes: accepted at %+zd of the run's end\n", bytes,
               (ssize_t)(at - tail->end));
      report(line);
      return 1;
    }
  }
  return 0;
}

int main(void) {
  static WildBlocks blocks;
  unsigned faults = 0, runs = 0;
  trap_watchdog(60);
  int text = memfd_create("messages", MFD_CLOEXEC);
  CHECK(text >= 0 && dup2(text, STDERR_FILENO) == STDERR_FILENO);
  struct sigaction action = {.sa_handler = on_abort, .sa_flags = SA_NODEFER};
  CHECK(sigaction(SIGABRT, &action, NULL) == 0);
  for (size_t bytes = 16; faults == 0 && bytes <= WILD_SMALL_MAX; bytes = blocks.bytes + 1) {
    wild_take(&blocks, bytes);
    size_t from = 0, count = blocks.count;
    WildTail tail = {0, 0, 0};
    if (wild_next_tail(&blocks, &from, &tail)) {
      faults += try_run(blocks.bytes, &tail);
      runs++;
    } else { /* the blocks fill their slab, so there is no tail: look between the first two */
      uintptr_t end = blocks.block[count / 2] + blocks.bytes;
      faults += try_run(blocks.bytes, &(WildTail){end - blocks.bytes, end, end});
    }
    if (faults == 0) { /* otherwise the heap is damaged */
      wild_give(&blocks);
    }
  }
  char line[64];
  snprintf(line, sizeof line, "%u runs with a tail, %u faults\n", runs, faults);
  report(line);
  if (faults > 0) {
    _exit(1);
  }
  HAK(hak_check)();
  return 0;
}
