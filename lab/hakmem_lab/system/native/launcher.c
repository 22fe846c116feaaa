/* Starts programs for the laboratory and reports what each of them used. It is a process of its own because the
 * kernel's peak memory of a child includes the peak of the process that forked it. This process has a few hundred KiB,
 * but a Python interpreter with scipy has a hundred MiB.
 *
 * stdin: requests. "run BYTES\n", then BYTES of strings that each end in NUL:
 *     timeout_ms sample_ms output_limit_bytes expected_library stdin_path stdout_path stderr_path directory processors
 *     argument_count argument... variable_count variable... pss_ms counters group_count group... worker held
 *     (an empty string: not wanted; processors: "0,2"; counters: see counters.c; group: a cgroup's list of
 *      processes; worker: see served_open(); held: not empty = the program waits for the line "go" before its exec)
 * stdout: "started PID\n" (a held program: "held PID\n", before it waits), and at the end of that program one line
 * "ended name=value...\n"; or "failed ERRNO WHAT\n".
 * When stdin closes, it kills the program and everything that the program started, so that no process outlives hak. */
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SURE_LOOKS = 3, LINE_BYTES = 4096, ASK_MS = 1 };

typedef struct request {
  int64_t timeout_ms, sample_ms, output_limit_bytes, pss_ms;
  const char *expected_library, *stdin_path, *stdout_path, *stderr_path, *directory, *processors, *counters, *worker;
  char **arguments, **variables, **groups;
  bool held;
} request_t;

typedef struct usage {
  int64_t found, absent, timed_out, too_much_output, moved;
  memory_t memory;
  served_t *served;
} usage_t;

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const char *next_string(char **at) {
  const char *string = *at;
  *at += strlen(string) + 1;
  return string;
}

static char **next_list(char **at) {
  int64_t count = atoll(next_string(at));
  char **list = calloc((size_t)count + 1, sizeof *list);
  if (!list) {
    exit(70);
  }
  for (int64_t i = 0; i < count; i++) {
    list[i] = (char *)next_string(at);
  }
  return list;
}

static request_t parse_request(char *payload) {
  request_t request = {0};
  char *at = payload;
  request.timeout_ms = atoll(next_string(&at));
  request.sample_ms = atoll(next_string(&at));
  request.output_limit_bytes = atoll(next_string(&at));
  request.expected_library = next_string(&at);
  request.stdin_path = next_string(&at);
  request.stdout_path = next_string(&at);
  request.stderr_path = next_string(&at);
  request.directory = next_string(&at);
  request.processors = next_string(&at);
  request.arguments = next_list(&at);
  request.variables = next_list(&at);
  request.pss_ms = atoll(next_string(&at));
  request.counters = next_string(&at);
  request.groups = next_list(&at);
  request.worker = next_string(&at);
  request.held = *next_string(&at);
  return request;
}

static int redirect(const char *path, int flags, int target) {
  int fd = open(path, flags, 0600);
  return fd < 0 || dup2(fd, target) < 0 || (fd != target && close(fd) < 0) ? -1 : 0;
}

/* Puts this process, and what it starts from now on, into the cgroup. */
static int join(const char *group) {
  int fd = open(group, O_WRONLY | O_CLOEXEC);
  return fd < 0 || write(fd, "0", 1) != 1 || close(fd) < 0 ? -1 : 0;
}

/* Runs in the child of vfork, in the parent's memory until exec. *start_s: the time just before exec, since the kernel
 * may take 20 ms to put a process into a cgroup. */
static int become(const request_t *request, const char **what, volatile double *start_s) {
  sigset_t none;
  sigemptyset(&none);
  *what = "prepare";
  if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || sigprocmask(SIG_SETMASK, &none, NULL) < 0) {
    return errno;
  }
  *what = "cgroup";
  for (char **group = request->groups; *group; group++) {
    if (join(*group) < 0) {
      return errno;
    }
  }
  *what = "processors";
  if (*request->processors && start_pin(request->processors) < 0) {
    return errno;
  }
  *what = "go";
  if (request->held && start_wait_for_go() < 0) {
    return errno;
  }
  *what = "standard input";
  if (redirect(request->stdin_path, O_RDONLY, 0) < 0) {
    return errno;
  }
  *what = "output";
  if (redirect(request->stdout_path, O_WRONLY | O_APPEND, 1) < 0 ||
      redirect(request->stderr_path, O_WRONLY | O_APPEND, 2) < 0) {
    return errno;
  }
  *what = "directory";
  if (*request->directory && chdir(request->directory) < 0) {
    return errno;
  }
  *what = "program";
  *start_s = now_s();
  execve(request->arguments[0], request->arguments, request->variables);
  return errno;
}

static pid_t spawn(const request_t *request, int *error, const char **what, double *start_s) {
  volatile int failed = 0;
  volatile double begun_s = now_s();
  /* Until the exec this process cannot see that hak is gone, and the child may be in a frozen group. */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pid_t pid = vfork();
  if (pid == 0) {
    failed = become(request, what, &begun_s);
    _exit(127);
  }
  *error = pid < 0 ? errno : failed;
  prctl(PR_SET_PDEATHSIG, 0);
  *start_s = begun_s;
  if (failed) {
    waitpid(pid, NULL, 0);
  }
  return *error ? -1 : pid;
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), wanted = strlen(end);
  return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

/* Looks for the library in the maps. Its absence is certain only once the dynamic linker, if there is one, has mapped
 * the C library, since it maps preloaded libraries first. */
static void look_for(const char *library, pid_t pid, usage_t *usage) {
  char path[PATH_BYTES], line[LINE_BYTES];
  snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
  FILE *maps = fopen(path, "re");
  bool begun = false, linked = false, libc = false;
  while (maps && !usage->found && fgets(line, sizeof line, maps)) {
    char *name = strchr(line, '/');
    line[strcspn(line, "\n")] = 0;
    usage->found = name && strcmp(name, library) == 0;
    begun |= ends_with(line, "[vdso]"); /* the last thing that the kernel maps at the start of a program */
    linked |= name && strstr(name, "/ld-");
    libc |= name && ends_with(name, "/libc.so.6");
  }
  usage->absent += begun && (libc || !linked);
  if (maps) {
    fclose(maps);
  }
}

static void sample(pid_t pid, const request_t *request, int statm, double elapsed_s, double age_s, usage_t *usage) {
  usage->moved |= *request->processors && start_has_moved(pid, request->processors);
  bool read = memory_sample_resident(&usage->memory, statm, elapsed_s, age_s);
  if (read && *request->expected_library && !usage->found) {
    look_for(request->expected_library, pid, usage);
  }
}

static bool output_too_long(const request_t *request) {
  struct stat out, err;
  return stat(request->stdout_path, &out) == 0 && stat(request->stderr_path, &err) == 0 &&
         out.st_size + err.st_size > request->output_limit_bytes;
}

/* Kills the program's remaining descendants. They have become children of this process, the nearest subreaper. */
static void end_descendants(pid_t pid) {
  kill(-pid, SIGKILL);
  while (waitpid(-1, NULL, WNOHANG) >= 0) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "re");
    int child;
    while (children && fscanf(children, "%d", &child) == 1) {
      kill(child, SIGKILL);
    }
    if (children) {
      fclose(children);
    }
    usleep(1000);
  }
}

/* Whether the process has ended; it stays waitable. */
static bool has_ended(pid_t pid) {
  siginfo_t info = {0};
  return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* Watches until the program ends or exceeds its limits, or hak is gone. Without a pidfd, which old seccomp filters
 * refuse, the end is noticed up to ASK_MS late. */
static void watch(pid_t pid, int pidfd, const request_t *request, double start_s, usage_t *usage) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
  int statm = open(path, O_RDONLY | O_CLOEXEC);
  int pause_ms = request->sample_ms > 0 ? (int)request->sample_ms : 1000;
  double last_s = start_s, last_pss_s = start_s;
  for (;;) {
    struct pollfd fds[] = {{.fd = pidfd, .events = POLLIN}, {.fd = 0, .events = 0}};
    int ready = poll(fds, 2, pidfd < 0 ? ASK_MS : pause_ms);
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (fds[0].revents || (pidfd < 0 && has_ended(pid))) {
      break;
    }
    if (fds[1].revents & (POLLHUP | POLLERR)) {
      end_descendants(pid);
      _exit(1);
    }
    double t = now_s();
    if (pidfd < 0 && (t - last_s) * 1000 < pause_ms) {
      continue;
    }
    if (request->sample_ms > 0) {
      sample(pid, request, statm, t - last_s, t - start_s, usage);
      served_watch(usage->served, t - start_s);
    }
    if (request->pss_ms > 0 && (usage->memory.pss_samples == 0 || (t - last_pss_s) * 1000 >= (double)request->pss_ms)) {
      memory_sample_proportional(&usage->memory, t - last_pss_s, t - start_s);
      last_pss_s = t;
    }
    last_s = t;
    usage->timed_out = request->timeout_ms > 0 && (t - start_s) * 1000 > (double)request->timeout_ms;
    usage->too_much_output = output_too_long(request);
    if (usage->timed_out || usage->too_much_output) {
      kill(-pid, SIGKILL);
      kill(pid, SIGKILL);
      break;
    }
  }
  close(statm);
}

static double seconds(struct timeval t) {
  return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

static void print_end(int status, const struct rusage *used, double wall_s, int mapped, const usage_t *usage) {
  printf("ended exit=%d signal=%d timed_out=%d too_much_output=%d wall_s=%.9f user_s=%.6f system_s=%.6f"
         " rss_peak_kib=%" PRId64
         " minor_faults=%ld major_faults=%ld voluntary_switches=%ld involuntary_switches=%ld mapped=%d moved=%d",
         WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
         (int)usage->timed_out, (int)usage->too_much_output, wall_s, seconds(used->ru_utime), seconds(used->ru_stime),
         /* The kernel counts pages in batches, so its own peak may be lower than a sample. */
         used->ru_maxrss > usage->memory.peak_kib ? (int64_t)used->ru_maxrss : usage->memory.peak_kib, used->ru_minflt,
         used->ru_majflt, used->ru_nvcsw, used->ru_nivcsw, mapped, (int)usage->moved);
  memory_print(&usage->memory);
  served_print(usage->served);
}

static void serve(const request_t *request) {
  int error = 0;
  const char *what = "fork";
  usage_t usage = {0};
  double start_s;
  counters_t counters = counters_open(request->counters);
  usage.served = served_open(request->expected_library, request->worker);
  pid_t pid = spawn(request, &error, &what, &start_s);
  if (pid < 0) {
    counters_close(&counters);
    served_close(usage.served);
    printf("failed %d %s\n", error, what);
    return;
  }
  if (!request->held) {
    printf("started %d\n", (int)pid);
    fflush(stdout);
  }
  int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  watch(pid, pidfd, request, start_s, &usage);
  if (pidfd >= 0) {
    close(pidfd);
  }
  int status = 0;
  struct rusage used;
  wait4(pid, &status, 0, &used);
  double wall_s = now_s() - start_s;
  end_descendants(pid);
  print_end(status, &used, wall_s, usage.found ? 1 : usage.absent >= SURE_LOOKS ? 0 : -1, &usage);
  counters_print(&counters);
  counters_close(&counters);
  served_close(usage.served);
  printf("\n");
}

static bool read_all(char *buffer, size_t bytes) {
  for (size_t got = 0; got < bytes;) {
    ssize_t n = read(0, buffer + got, bytes - got);
    if (n <= 0) {
      return false;
    }
    got += (size_t)n;
  }
  return true;
}

/* Reads byte by byte, since the bytes after the line belong to the payload. */
static bool read_line(char *line, size_t bytes) {
  for (size_t i = 0; i + 1 < bytes && read_all(line + i, 1); i++) {
    if (line[i] == '\n') {
      line[i] = 0;
      return true;
    }
  }
  return false;
}

int main(void) {
  char line[LINE_BYTES];
  size_t bytes;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  /* Programs should not inherit ignored signals from the place where hak was started, such as nohup or a shell's &.
   */
  for (int number = 1; number < NSIG; number++) {
    signal(number, SIG_DFL);
  }
  while (read_line(line, sizeof line) && sscanf(line, "run %zu", &bytes) == 1) {
    char *payload = malloc(bytes + 1);
    if (!payload || !read_all(payload, bytes)) {
      return 70;
    }
    payload[bytes] = 0;
    request_t request = parse_request(payload);
    serve(&request);
    fflush(stdout);
    free(request.arguments);
    free(request.variables);
    free(request.groups);
    free(payload);
  }
  return 0;
}
