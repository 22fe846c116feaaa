// The recorded processes: notices when they connect and when they end.
#include "collect.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { EVENTS = 64, HELLO_S = 2, TRIES = 100, BACKLOG = 4096 };
#define ORPHAN_NS UINT64_C(1000000000) // a forked child may still connect for this time after its parent's end

static process_t *first, **last = &first;
static uint32_t count;
static uint64_t stack_bytes;
static int events = -1;
static int listeners[] = {-1, -1}; // at the path, and at the name for processes in another root folder

process_t *processes_first(void) {
  return first;
}

static bool listens(int *listener, const struct sockaddr_un *address) {
  *listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = listener};
  return *listener >= 0 && bind(*listener, (const struct sockaddr *)address, sizeof *address) == 0 &&
         listen(*listener, BACKLOG) == 0 && epoll_ctl(events, EPOLL_CTL_ADD, *listener, &event) == 0;
}

static bool is_listener(const void *place) {
  return place == &listeners[0] || place == &listeners[1];
}

bool processes_open(const char *path, uint64_t bytes) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  stack_bytes = bytes;
  if (strlen(path) >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return false;
  }
  strcpy(address.sun_path, path);
  events = epoll_create1(EPOLL_CLOEXEC);
  // Every user who can reach the folder may connect, since a server may change its user before it forks.
  bool open = events >= 0 && listens(&listeners[0], &address) && chmod(path, 0666) == 0;
  address.sun_path[0] = '\0';
  return open && listens(&listeners[1], &address);
}

process_t *processes_of(pid_t pid) {
  process_t *found = NULL;
  for (process_t *process = first; process != NULL; process = process->next)
    if (process->pid == pid)
      found = process;
  return found;
}

static void process_over(process_t *process) {
  if (process->over)
    return;
  process->over = true;
  process->waits = atomic_load(&process->segment->waits);
  sample_flush(process);
  stacks_take(process, true);
  queue_put((item_t){.kind = ITEM_PROCESS_END, .process = process});
}

// Handles the end of a process: takes all its words. It stays open while a forked child may still connect.
static void process_died(process_t *process) {
  if (process->died_ns != 0)
    return;
  stat_t stat;
  if (sample_stat(process->pid, &stat) && stat.state == 'Z') {
    process->exited = true;
    process->exit_code = WEXITSTATUS(stat.exit_status);
    process->signal = WTERMSIG(stat.exit_status);
  }
  sample_cpu(process);
  process_take_all(process);
  segment_t *segment = process->segment;
  process->left = atomic_load(&segment->peak_kib) != 0;
  uint64_t peak_kib = atomic_load(&segment->peak_kib), own_kib = process_own_kib(process);
  if (peak_kib > own_kib + process->peak_kib)
    process->peak_kib = peak_kib - own_kib;
  if (atomic_load(&segment->cpu_ms) > process->cpu_ms)
    process->cpu_ms = atomic_load(&segment->cpu_ms);
  process->died_ns = clock_now_ns();
  if (process->pidfd >= 0)
    close(process->pidfd);
  if (process->statm >= 0)
    close(process->statm);
  process->pidfd = process->statm = -1;
  if (atomic_load(&segment->forks) <= process->forks_claimed)
    process_over(process);
}

static bool answer(int connection, int memory) {
  char byte = 1;
  union {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct iovec part = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &memory, sizeof memory);
  return sendmsg(connection, &message, MSG_NOSIGNAL) == 1;
}

// Number of the process from which this one comes, or -1. For a forked child, queues everything that the parent did
// before.
static int64_t parent_of(const segment_hello_t *hello, pid_t pid, const process_t *former) {
  if (hello->parent != 0)
    for (process_t *process = first; process != NULL; process = process->next)
      if (process->number == hello->parent - 1 && !process->over) {
        uint64_t now = clock_since(process->segment->origin);
        for (int i = 0; process->died_ns == 0 && process->advanced <= now && i < TRIES; i++)
          process_take(process);
        process->forks_claimed++;
        return process->number;
      }
  stat_t stat;
  const process_t *parent = former;
  if (parent == NULL && sample_stat(pid, &stat))
    parent = processes_of(stat.parent);
  return parent ? (int64_t)parent->number : -1;
}

static void process_begins(int connection, pid_t pid, segment_hello_t *hello) {
  process_t *former = processes_of(pid);
  if (former != NULL)
    process_died(former); // it has become another program
  int64_t parent = parent_of(hello, pid, former);
  int memory = -1;
  process_t *process = process_new(pid, count, &memory);
  if (process == NULL) {
    failure_note(errno, "the memory for a process");
    return;
  }
  process->began_ns = clock_now_ns();
  process->segment->stack_bytes = stack_bytes;
  char *text = sample_describe(process, hello, parent);
  queue_put((item_t){.kind = ITEM_PROCESS,
                     .process = process,
                     .parent = hello->fork ? parent : -1,
                     .fork = parent < 0 ? 0 : hello->fork,
                     .text = text});
  stacks_begin(process);
  count++;
  *last = process;
  last = &process->next;
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = process};
  if (process->pidfd >= 0)
    epoll_ctl(events, EPOLL_CTL_ADD, process->pidfd, &event);
  answer(connection, memory);
  close(memory);
}

static void greet(int connection) {
  struct timeval patience = {HELLO_S, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  segment_hello_t hello;
  struct ucred who;
  socklen_t bytes = sizeof who;
  ssize_t got = recv(connection, &hello, sizeof hello, 0);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0)
    got = 0;
  hello.allocator[sizeof hello.allocator - 1] = '\0';
  if (got == (ssize_t)sizeof hello && hello.version == SEGMENT_VERSION)
    process_begins(connection, who.pid, &hello);
  else if (got == 1)
    strangers_add(who.pid);
  close(connection);
}

void processes_serve(int timeout_ms, int control) {
  static bool added;
  struct epoll_event found[EVENTS], event = {.events = EPOLLIN, .data.ptr = NULL};
  if (!added)
    added = epoll_ctl(events, EPOLL_CTL_ADD, control, &event) == 0;
  int got = epoll_wait(events, found, EVENTS, timeout_ms);
  // Ends come before new connections, since the kernel may reuse a process number at once.
  for (int i = 0; i < got; i++)
    if (found[i].data.ptr != NULL && !is_listener(found[i].data.ptr))
      process_died(found[i].data.ptr);
  for (int i = 0; i < got; i++)
    if (is_listener(found[i].data.ptr))
      for (int connection; (connection = accept4(*(int *)found[i].data.ptr, NULL, NULL, SOCK_CLOEXEC)) >= 0;)
        greet(connection);
}

bool processes_take(void) {
  bool news = false;
  uint64_t now = clock_now_ns();
  for (process_t *process = first; process != NULL; process = process->next) {
    if (process->over)
      continue;
    if (process->died_ns == 0) {
      atomic_fetch_add_explicit(&process->segment->heartbeat, 1, memory_order_relaxed);
      news |= process_take(process);
      stacks_take(process, false);
      if (process->replaced || (process->pidfd < 0 && kill(process->pid, 0) != 0 && errno == ESRCH))
        process_died(process);
    } else if (now - process->died_ns > ORPHAN_NS) {
      process_over(process);
    }
  }
  return news;
}

bool processes_any(void) {
  for (const process_t *process = first; process != NULL; process = process->next)
    if (!process->over)
      return true;
  return false;
}

// Processes that try to connect from now on fail at once, so they do not wait for an answer.
void processes_stop(void) {
  for (size_t i = 0; i < sizeof listeners / sizeof *listeners; i++)
    close(listeners[i]);
  for (process_t *process = first; process != NULL; process = process->next)
    if (!process->over)
      process_stop(process);
  for (process_t *process = first; process != NULL; process = process->next)
    if (!process->over) {
      if (process->died_ns == 0) {
        sample_cpu(process);
        process_take_all(process);
      }
      process_over(process);
    }
}
