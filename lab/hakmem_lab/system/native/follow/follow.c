/* Follows a program and all that it starts through every exec, and reports whether a library was loaded into each:
 *     hak-follow REPORT LIBRARY LIMIT_MS COMMAND [ARGUMENT...]   runs the command and ends as it does
 *     hak-follow REPORT LIBRARY --attach PID                     follows a process until it ends
 *     hak-follow REPORT LIBRARY --exits PID                      the same, and stops each process at its end
 * It writes to REPORT: see image_print(). LIMIT_MS: this time after the start, it checks all processes and kills them;
 * 0: never. The other forms write "ready" to standard output once they follow, or exit with 1 where that is not
 * allowed. The last one writes the number of a process that ends, whatever ends it, and reads a byte before it goes on:
 * until then the memory of the process can be read.
 * A traced process stops only when it forks, calls exec, gets a signal, or starts or ends a thread. */
#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT = 1, NOT_STARTED = 127, EVENT_SHIFT = 16, AGAIN_US = 100000 };
enum {
  OPTIONS = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT
};

typedef struct process {
  struct process *next;
  pid_t pid;
  image_t image;
} process_t;

static process_t *processes;
static library_t library;
static int report;
static volatile sig_atomic_t time_is_over;
static pid_t first;
static bool asks; /* before a process ends */

/* A number in /proc/PID/status; 0: the field is missing. */
static pid_t field_of(pid_t thread, const char *format) {
  char path[PROC_PATH_BYTES], line[256];
  int value = 0;
  snprintf(path, sizeof path, "/proc/%d/status", (int)thread);
  FILE *status = fopen(path, "re");
  while (status && fgets(line, sizeof line, status) && sscanf(line, format, &value) != 1) {
  }
  if (status) {
    fclose(status);
  }
  return value;
}

static process_t *known(pid_t pid) {
  process_t *process = processes;
  while (process && process->pid != pid) {
    process = process->next;
  }
  return process;
}

static process_t *process_of(pid_t thread) {
  process_t *process = known(thread);
  pid_t pid = process ? thread : field_of(thread, "Tgid: %d");
  process = process || !pid ? process : known(pid);
  if (!process && pid && (process = calloc(1, sizeof *process))) {
    process_t *parent = known(field_of(pid, "PPid: %d"));
    *process = (process_t){.next = processes, .pid = pid};
    image_fork(&process->image, pid, parent ? &parent->image : NULL);
    processes = process;
  }
  return process;
}

static void forget(pid_t pid, bool said) {
  for (process_t **at = &processes; *at; at = &(*at)->next) {
    if ((*at)->pid == pid) {
      process_t *gone = *at;
      *at = gone->next;
      if (said) {
        image_print(report, &gone->image, pid, pid == first);
      }
      free(gone);
      return;
    }
  }
}

static void on_exec(pid_t pid) {
  process_t *process = process_of(pid);
  if (process) {
    image_replace(&process->image, pid);
    image_print(report, &process->image, pid, pid == first);
    image_begin(&process->image, pid, &library);
  }
}

/* Let a reader see the memory of a process that ends, or (-pid) the name of one that will not be followed. */
static void ask(pid_t pid) {
  char byte;
  printf("%d\n", (int)pid);
  fflush(stdout);
  (void)!read(STDIN_FILENO, &byte, 1);
}

/* Handles the event of a stopped thread, and lets it continue. */
static void go_on(pid_t thread, int status) {
  int event = status >> EVENT_SHIFT, number = WSTOPSIG(status);
  process_t *process = event == PTRACE_EVENT_EXIT ? process_of(thread) : NULL;
  switch (event) {
  case PTRACE_EVENT_EXEC:
    on_exec(thread);
    if (image_traces(thread)) { /* not followed or reported from here on */
      if (asks) {
        ask(-thread);
      }
      forget(thread, false);
      ptrace(PTRACE_DETACH, thread, 0, 0);
      return;
    }
    break;
  case PTRACE_EVENT_EXIT:
    if (process) {
      image_look(&process->image, process->pid, &library);
      if (asks && thread == process->pid) {
        ask(thread);
      }
    }
    break;
  case PTRACE_EVENT_STOP:
    process_of(thread);
    if (number != SIGTRAP) { /* the process is stopped by a signal, and stays stopped */
      ptrace(PTRACE_LISTEN, thread, 0, 0);
      return;
    }
    break;
  default:
    break;
  }
  ptrace(PTRACE_CONT, thread, 0, event ? 0 : number);
}

/* Follows until the first process has ended or the time is over. Returns the status of the first process. */
static int follow(void) {
  int status = 0;
  while (!time_is_over) {
    pid_t thread = waitpid(-1, &status, __WALL);
    if (thread < 0 && errno != EINTR) {
      break;
    }
    if (thread > 0 && WIFSTOPPED(status)) {
      go_on(thread, status);
    } else if (thread > 0) {
      forget(thread, true);
      if (thread == first) {
        break;
      }
    }
  }
  for (process_t *each = processes; each; each = each->next) {
    image_look(&each->image, each->pid, &library);
    image_print(report, &each->image, each->pid, each->pid == first);
  }
  return status;
}

/* Passes signals on to the program. */
static void hear(int number) {
  time_is_over |= number == SIGALRM;
  if (number != SIGALRM) {
    kill(first, number);
  }
}

static void listen_to(void (*handler)(int), const int *numbers, size_t count) {
  struct sigaction action = {.sa_handler = handler};
  for (size_t i = 0; i < count; i++) {
    sigaction(numbers[i], &action, NULL);
  }
}

/* Ends as the program did. */
_Noreturn static void end_as(int status) {
  if (WIFSIGNALED(status)) {
    struct rlimit none = {0};
    setrlimit(RLIMIT_CORE, &none);
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  exit(WIFEXITED(status) ? WEXITSTATUS(status) : CANNOT);
}

static int run(int limit_ms, char **command) {
  static const int heard[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};
  int gate[2];
  char byte;
  if (pipe2(gate, O_CLOEXEC) != 0 || (first = fork()) < 0) {
    return NOT_STARTED;
  }
  if (first == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(gate[1]);
    (void)!read(gate[0], &byte, 1);
    execv(command[0], command);
    _exit(NOT_STARTED);
  }
  listen_to(hear, heard, sizeof heard / sizeof *heard);
  bool seized = ptrace(PTRACE_SEIZE, first, 0, OPTIONS | PTRACE_O_EXITKILL) == 0;
  close(gate[0]);
  close(gate[1]);
  if (limit_ms > 0) {
    struct itimerval limit = {{.tv_usec = AGAIN_US}, {limit_ms / 1000, limit_ms % 1000 * 1000}};
    setitimer(ITIMER_REAL, &limit, NULL);
  }
  if (seized) {
    process_of(first);
  }
  int status = follow();
  if (time_is_over) {
    kill(first, SIGKILL);
    return 0;
  }
  end_as(status);
}

static int attach(pid_t pid) {
  static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTTOU, SIGPIPE};
  listen_to(SIG_IGN, ignored, sizeof ignored / sizeof *ignored);
  first = pid;
  if (ptrace(PTRACE_SEIZE, pid, 0, OPTIONS) != 0) {
    return CANNOT;
  }
  process_of(first);
  processes->image = (image_t){.ours = true, .lost = ""};
  printf("ready\n");
  fflush(stdout);
  follow();
  return 0;
}

int main(int count, char **argument) {
  if (count < 5 || !library_find(&library, argument[2])) {
    fputs("usage: hak-follow REPORT LIBRARY (LIMIT_MS COMMAND [ARGUMENT...] | --attach PID | --exits PID)\n", stderr);
    return NOT_STARTED;
  }
  report = open(argument[1], O_WRONLY | O_APPEND | O_CLOEXEC);
  asks = strcmp(argument[3], "--exits") == 0;
  if (asks || strcmp(argument[3], "--attach") == 0) {
    return attach(atoi(argument[4]));
  }
  return run(atoi(argument[3]), argument + 4);
}
