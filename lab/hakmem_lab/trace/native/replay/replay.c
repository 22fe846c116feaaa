// hak-replay TRACE: replays a trace, one process after the other, each in a process of its own.
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay.h"

#define SHARE 100u // processes with less than 1 / SHARE of the operations are left out
#define ERROR_BYTES 512
#define MOST_ARGUMENTS 16

static const char *trace_path = "";

_Noreturn void replay_fail(int status, const char *format, ...) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&said)) {
    char text[ERROR_BYTES], line[2 * ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    int length = snprintf(line, sizeof line, "hak-replay: %s: %s\n", trace_path, text);
    ssize_t written = write(STDERR_FILENO, line, (size_t)length);
    (void)written;
    _exit(status);
  }
  for (;;) {
    pause(); // another thread is about to end the process
  }
}

static trace_t *open_trace(const char *path) {
  char error[ERROR_BYTES] = "";
  trace_t *trace = trace_open(path, error, sizeof error);
  if (trace == NULL) {
    // The reader's error names the file itself.
    fprintf(stderr, "hak-replay: %s\n", error);
    exit(REPLAY_BAD_INPUT);
  }
  return trace;
}

static uint64_t operations_of(const trace_t *trace, uint32_t process) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < trace_thread_count(trace, process); i++) {
    sum += trace_thread(trace, process, i)->operations;
  }
  return sum;
}

static void one_process(const replay_options_t *options) {
  uint64_t begin = replay_clock_ns();
  replay =
      (replay_t){.options = options, .trace = open_trace(options->path), .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE)};
  replay.complete = trace_complete(replay.trace);
  replay.count = trace_thread_count(replay.trace, (uint32_t)options->process);
  replay.touch_below = options->touch == TOUCH_NONE ? 0 : options->touch == TOUCH_ALL ? UINT64_MAX : TRACE_TOUCH_BYTES;
  replay.clock_ns = replay_clock_cost_ns();
  if (replay.count == 0) {
    replay_fail(REPLAY_BAD_INPUT, "process %ld has no operations", options->process);
  }
  if (replay.count > REPLAY_MOST_THREADS) {
    replay_fail(REPLAY_BAD_INPUT, "process %ld has %u threads; hak-replay takes %u", options->process, replay.count,
                REPLAY_MOST_THREADS);
  }
  replay.workers = replay_map(replay.count * sizeof(worker_t));
  if (replay.workers == NULL) {
    replay_fail(REPLAY_FAILED, "no memory for %u threads", replay.count);
  }
  for (uint32_t i = 0; i < replay.count; i++) {
    atomic_store_explicit(&replay.workers[i].awaited, UINT64_MAX, memory_order_relaxed);
  }
  replay_stacks_begin();
  replay_blame_begin();
  replay_memory_begin();
  replay.begin_ns = replay_clock_ns();
  replay_crew((uint32_t)options->process);
  replay_report(replay.begin_ns - begin, replay_clock_ns() - replay.begin_ns);
}

// Replays one process in a fresh process, so that the allocator begins anew. Its report goes to our standard output.
static void start_one(char **arguments, uint32_t process) {
  char number[32], *argv[MOST_ARGUMENTS + 2] = {arguments[0], number};
  snprintf(number, sizeof number, "--only=%u", process);
  for (size_t i = 1; arguments[i] != NULL; i++) {
    argv[i + 1] = arguments[i];
  }
  fflush(stdout);
  pid_t child = fork();
  if (child < 0) {
    replay_fail(REPLAY_FAILED, "no process can be started: %s", strerror(errno));
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); // the child must end with its parent
    execv("/proc/self/exe", argv);
    _exit(REPLAY_FAILED);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    continue;
  }
  if (WIFSIGNALED(status)) {
    int ended_by = WTERMSIG(status);
    replay_fail(REPLAY_FAILED, "process %u: killed by signal %d (%s): %s", process, ended_by, strsignal(ended_by),
                ended_by == SIGKILL ? "there may be too little memory" : "the allocator, or a damaged trace");
  }
  if (WEXITSTATUS(status) != 0) {
    exit(WEXITSTATUS(status));
  }
}

static bool asked_for(const char *processes, uint32_t process) {
  for (const char *at = processes; at != NULL && *at;) {
    char *end = NULL;
    unsigned long number = strtoul(at, &end, 10);
    if (end == at || (*end != 0 && *end != ',')) {
      replay_fail(REPLAY_BAD_INPUT, "--processes: numbers with commas between them, not '%s'", processes);
    }
    if (number == process) {
      return true;
    }
    at = *end ? end + 1 : end;
  }
  return false;
}

static void all_processes(const replay_options_t *options, char **arguments) {
  trace_t *trace = open_trace(options->path);
  uint32_t count = trace_process_count(trace), done = 0, left = 0;
  uint64_t whole = 0, left_operations = 0;
  for (uint32_t i = 0; i < count; i++) {
    whole += operations_of(trace, i);
  }
  for (uint32_t i = 0; i < count; i++) {
    uint64_t mine = operations_of(trace, i);
    bool wanted = options->processes ? asked_for(options->processes, i) : mine * SHARE >= whole;
    if (mine == 0 || !wanted) {
      left++;
      left_operations += mine;
      continue;
    }
    start_one(arguments, i);
    done++;
  }
  if (done == 0) {
    replay_fail(REPLAY_BAD_INPUT, whole == 0 ? "it holds no operations" : "none of the processes asked for is in it");
  }
  printf("{\"processes\": %u, \"left_out\": %u, \"left_out_operations\": %llu, \"complete\": %s}\n", done, left,
         (unsigned long long)left_operations, trace_complete(trace) ? "true" : "false");
  trace_close(trace);
}

static const char *const touch_names[] = {"recorded", "all", "none"};

static replay_touch_t touch_named(const char *name) {
  for (unsigned i = 0; i < sizeof touch_names / sizeof *touch_names; i++) {
    if (strcmp(name, touch_names[i]) == 0) {
      return (replay_touch_t)i;
    }
  }
  replay_fail(REPLAY_BAD_INPUT, "--touch: recorded, all or none, not '%s'", name);
}

static bool parse(int argc, char **argv, replay_options_t *options) {
  static const struct option known[] = {
      {"touch", required_argument, NULL, 't'},
      {"pace", no_argument, NULL, 'p'},
      {"processes", required_argument, NULL, 'n'},
      {"only", required_argument, NULL, 'o'},
      {"stacks", required_argument, NULL, 's'},
      {"groups", required_argument, NULL, 'g'},
      {"without", required_argument, NULL, 'w'},
      {"until", required_argument, NULL, 'u'},
      {NULL, 0, NULL, 0},
  };
  for (int found; (found = getopt_long(argc, argv, "+", known, NULL)) != -1;) {
    if (found == 't') {
      options->touch = touch_named(optarg);
    } else if (found == 'p') {
      options->paced = true;
    } else if (found == 'n') {
      options->processes = optarg;
    } else if (found == 'o') {
      options->process = strtol(optarg, NULL, 10);
    } else if (found == 's') {
      options->stack_mean = strtod(optarg, NULL);
    } else if (found == 'g') {
      options->groups = optarg;
    } else if (found == 'w') {
      options->without = (uint32_t)strtoul(optarg, NULL, 10);
    } else if (found == 'u') {
      options->until_ns = strtoull(optarg, NULL, 10);
    } else
      return false;
  }
  options->path = trace_path = optind + 1 == argc ? argv[optind] : "";
  return optind + 1 == argc;
}

int main(int argc, char **argv) {
  replay_options_t options = {.process = -1, .until_ns = UINT64_MAX};
  if (argc > MOST_ARGUMENTS || !parse(argc, argv, &options)) {
    fprintf(stderr, "usage: hak-replay [--touch=recorded|all|none] [--pace] [--processes=N,N] [--stacks=MEAN]\n"
                    "                  [--groups=FILE [--without=GROUP]] [--until=NS] TRACE\n");
    return REPLAY_BAD_INPUT;
  }
  if (options.process >= 0) {
    one_process(&options);
  } else {
    all_processes(&options, argv);
  }
  return 0;
}
