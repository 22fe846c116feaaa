/* Starts a command under adverse conditions that its children inherit: launch [WORD...] -- COMMAND...
 *   as=N data=N stack=N   limits, in bytes
 *   thp=off               no transparent huge pages
 *   cgroup=PATH           joins the group
 *   deny=CALL:ERROR       the system call fails with that error number; if ERROR is `kill`, it ends the process
 *   filter=RULES          a filter of system calls, as sandboxes.py makes them
 *   preload=LIBRARIES     for the command alone */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine.h"

enum { CANNOT = 126 };

#define CALLS(X) \
  X(brk) \
  X(clock_gettime) \
  X(futex) \
  X(getcpu) \
  X(getpid) \
  X(getrandom) \
  X(gettid) \
  X(madvise) \
  X(membarrier) \
  X(mincore) \
  X(mprotect) \
  X(mremap) \
  X(munmap) \
  X(openat) \
  X(prctl) \
  X(readlink) \
  X(rseq) \
  X(rt_sigprocmask) \
  X(sched_getaffinity) \
  X(sched_yield) \
  X(sysinfo)

static const struct {
  const char *name;
  unsigned number;
} calls[] = {
#define X(name) {#name, SYS_##name},
    CALLS(X)
#undef X
};

static void cannot(const char *what) {
  fprintf(stderr, "launch: cannot %s: %s\n", what, strerror(errno));
  exit(CANNOT);
}

static void limit(__rlimit_resource_t which, const char *bytes) {
  rlim_t value = strtoull(bytes, NULL, 10);
  if (setrlimit(which, &(struct rlimit){value, value}) != 0) {
    cannot("limit");
  }
}

/* The rule applies only to programs that the command starts, since its own execve needs mprotect and openat, too. For
 * them it applies from the start, as in a sandbox that a parent made. */
static void deny(const char *rule) {
  const char *colon = strchr(rule, ':');
  for (size_t i = 0; colon != NULL && i < sizeof calls / sizeof *calls; i++) {
    if (strlen(calls[i].name) != (size_t)(colon - rule) || strncmp(calls[i].name, rule, (size_t)(colon - rule)) != 0) {
      continue;
    }
    unsigned action = strcmp(colon, ":kill") == 0 ? SECCOMP_RET_KILL_PROCESS
                                                  : SECCOMP_RET_ERRNO | (unsigned)strtoul(colon + 1, NULL, 10);
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
      cannot("filter");
    }
    return;
  }
  errno = EINVAL;
  cannot(rule);
}

static void join(const char *group) {
  char path[256];
  snprintf(path, sizeof path, "%s/cgroup.procs", group);
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0 || write(file, "0", 1) != 1) {
    cannot("join the group");
  }
}

static const char *value_of(const char *word, const char *name) {
  size_t length = strlen(name);
  return strncmp(word, name, length) == 0 && word[length] == '=' ? word + length + 1 : NULL;
}

int main(int arguments, char **argument) {
  const char *denied = NULL, *filter = NULL;
  int i = 1;
  for (; i < arguments && strcmp(argument[i], "--") != 0; i++) {
    const char *word = argument[i], *value;
    if ((value = value_of(word, "as")) != NULL) {
      limit(RLIMIT_AS, value);
    } else if ((value = value_of(word, "data")) != NULL) {
      limit(RLIMIT_DATA, value);
    } else if ((value = value_of(word, "stack")) != NULL) {
      limit(RLIMIT_STACK, value);
    } else if (value_of(word, "thp") != NULL) {
      prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    } else if ((value = value_of(word, "cgroup")) != NULL) {
      join(value);
    } else if ((value = value_of(word, "preload")) != NULL) {
      setenv("LD_PRELOAD", value, 1);
    } else if ((value = value_of(word, "deny")) != NULL) {
      denied = value;
    } else if ((value = value_of(word, "filter")) != NULL) {
      filter = value;
    } else {
      errno = EINVAL;
      cannot(word);
    }
  }
  if (denied != NULL) {
    deny(denied);
  }
  if (filter != NULL && !confine(filter)) {
    cannot("filter");
  }
  if (i + 1 < arguments) {
    execv(argument[i + 1], argument + i + 1);
  }
  cannot("run the command");
}
