// hak-collect SOCKET TRACE INFO STACK_BYTES: records the processes that connect to SOCKET into the file TRACE, which
// begins with the JSON text in the file INFO. STACK_BYTES: as in segment.h. Lines on standard input:
//   root PID                            the command that was started
//   exited CODE SIGNAL WALL_S CPU_S     the command has ended; the recording ends with its last descendant
//   stop                                ends the recording; the trace counts as complete
//   abandon WHY                         ends the recording; the trace is partial. The end of the input does the same
// It prints "ready" once it listens, and at its end one line: {"bytes": ..., "complete": ..., "end": TEXT}, where TEXT
// is the text at the end of the trace.
#include "collect.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BUSY_MS = 2, IDLE_MS = 10, STRANGERS_MS = 50, CPU_MS = 200, LINE_BYTES = 1024 };

static struct {
  pid_t root;
  bool exited, stop, input_over;
  int exit_code, signal;
  ending_t ending;
  char reason[LINE_BYTES];
} state;

__attribute__((noreturn)) static void fail(const char *what) {
  fprintf(stderr, "hak-collect: %s: %s\n", what, strerror(errno));
  exit(EXIT_FAILURE);
}

static char *read_info(const char *path) {
  char *text = NULL;
  size_t capacity = 0;
  FILE *file = fopen(path, "re");
  if (file == NULL || getdelim(&text, &capacity, '\0', file) < 0)
    fail(path);
  fclose(file);
  return text;
}

static void obey(const char *line) {
  if (strncmp(line, "root ", 5) == 0) {
    state.root = (pid_t)strtol(line + 5, NULL, 10);
  } else if (strncmp(line, "exited ", 7) == 0) {
    char *at = NULL;
    state.exit_code = (int)strtol(line + 7, &at, 10);
    state.signal = (int)strtol(at, &at, 10);
    state.ending.wall_s = strtod(at, &at);
    state.ending.cpu_s = strtod(at, &at);
    state.exited = true;
  } else if (strcmp(line, "stop") == 0) {
    state.stop = true;
  } else if (strncmp(line, "abandon ", 8) == 0 && state.ending.reason == NULL) {
    snprintf(state.reason, sizeof state.reason, "%s", line + 8);
    state.ending.reason = state.reason;
    state.stop = true;
  }
}

static void read_control(void) {
  static char line[LINE_BYTES];
  static size_t used;
  for (char c;;) {
    ssize_t got = read(STDIN_FILENO, &c, 1);
    if (got < 0)
      return;
    if (got == 0) {
      if (!state.stop && !state.exited)
        obey("abandon hak record was ended");
      state.input_over = state.stop = true;
      return;
    }
    if (c != '\n') {
      line[used] = c;
      used += used < LINE_BYTES - 1;
      continue;
    }
    line[used] = '\0';
    used = 0;
    obey(line);
  }
}

// Whether `ms` milliseconds have passed since *last_ns; if so, sets it to now.
static bool due(uint64_t *last_ns, uint64_t now_ns, unsigned ms) {
  if (now_ns - *last_ns < (uint64_t)ms * 1000000)
    return false;
  *last_ns = now_ns;
  return true;
}

static void sample(void) {
  static uint64_t resident_ns, strangers_ns, cpu_ns;
  uint64_t now_ns = clock_now_ns();
  bool resident = due(&resident_ns, now_ns, IDLE_MS), cpu = due(&cpu_ns, now_ns, CPU_MS);
  for (process_t *process = processes_first(); process != NULL && (resident || cpu); process = process->next) {
    if (process->died_ns != 0)
      continue;
    if (resident)
      sample_resident(process);
    if (cpu)
      sample_cpu(process);
  }
  if (due(&strangers_ns, now_ns, STRANGERS_MS))
    strangers_look(processes_first(), state.exited ? 0 : state.root, state.root == 0);
}

static void note_root(void) {
  process_t *root = state.root ? processes_of(state.root) : NULL;
  if (root == NULL || !state.exited)
    return;
  root->exited = true;
  root->exit_code = state.exit_code;
  root->signal = state.signal;
}

static void record(void) {
  int timeout_ms = BUSY_MS;
  while (!state.stop && !(state.exited && !processes_any())) {
    processes_serve(timeout_ms, STDIN_FILENO);
    read_control();
    timeout_ms = processes_take() ? BUSY_MS : IDLE_MS;
    sample();
    if (failure().error != 0)
      state.stop = true;
  }
  processes_stop();
  note_root();
  queue_put((item_t){.kind = ITEM_LAST});
  packer_wait(processes_first());
}

// Opens the trace with a lock against other recordings, and empties it.
static int open_trace(const char *path) {
  int trace = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (trace < 0)
    fail(path);
  if (flock(trace, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    fprintf(stderr, "hak-collect: another recording is writing %s\n", path);
    exit(EXIT_FAILURE);
  }
  if (ftruncate(trace, 0) != 0)
    fail(path);
  return trace;
}

static void prepare(const char *socket_path, const char *trace_path, const char *info_path, uint64_t stack_bytes) {
  static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXFSZ};
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
    signal(ignored[i], SIG_IGN);
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
  clock_start();
  int trace = open_trace(trace_path);
  if (!queue_open(trace_path))
    fail(trace_path);
  char *info = read_info(info_path);
  packer_start(trace, info);
  free(info);
  if (!processes_open(socket_path, stack_bytes))
    fail(socket_path);
}

static void note_failure(void) {
  failure_t why = failure();
  if (why.error == 0)
    return;
  snprintf(state.reason, sizeof state.reason, "%s: %s", why.what, strerror(why.error));
  state.ending.reason = state.reason;
}

// A failure at the very end goes to standard output for hak to report. In the trace there is only room to mark it as
// partial.
static void finish(void) {
  note_failure();
  char *end = end_describe(&state.ending);
  uint64_t bytes = packer_close(state.ending.reason == NULL, end ? end : "{}");
  free(end);
  note_failure();
  end = end_describe(&state.ending);
  printf("{\"bytes\": %" PRIu64 ", \"complete\": %s, \"end\": %s}\n", bytes,
         state.ending.reason == NULL ? "true" : "false", end ? end : "{}");
  free(end);
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fputs("usage: hak-collect SOCKET TRACE INFO STACK_BYTES\n", stderr);
    return EXIT_FAILURE;
  }
  prepare(argv[1], argv[2], argv[3], strtoull(argv[4], NULL, 10));
  puts("ready");
  fflush(stdout);
  record();
  finish();
  return EXIT_SUCCESS;
}
