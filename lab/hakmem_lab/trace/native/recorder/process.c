// A process: how it gets its segment from the collector, and what happens when it forks and exits.
#include "next.h"
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_S = 10 };

recorder_home_t *recorder_home;
static char socket_path[sizeof((struct sockaddr_un *)0)->sun_path];
static segment_t *mapped; // at first the parent's in a forked child
static uint32_t parent_number;
static uint64_t parent_fork;
static __thread uint64_t forking; // number of the fork that this thread is making

void recorder_lock(_Atomic uint32_t *lock) {
  while (atomic_exchange_explicit(lock, 1, memory_order_acquire))
    sched_yield();
}

void recorder_unlock(_Atomic uint32_t *lock) {
  atomic_store_explicit(lock, 0, memory_order_release);
}

// A forked child that has recorded nothing yet begins to record before its own fork, since its child inherits its
// blocks.
static void fork_prepare(void) {
  if (!recorder_begin())
    return;
  forking = atomic_fetch_add(&recorder_home->segment->forks, 1) + 1;
  recorder_put(forking << RAW_CODE_BITS | (RAW_SIZE_LIMIT + RAW_FORK));
}

static void fork_parent(void) {
  forking = 0;
}

static void fork_child(void) {
  parent_fork = forking;
  forking = 0;
}

static bool home_make(const char *path) {
  if (path == NULL || strlen(path) >= sizeof socket_path)
    return false;
  void *home =
      mmap(NULL, sizeof(recorder_home_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (home == MAP_FAILED)
    return false;
  if (madvise(home, sizeof(recorder_home_t), MADV_WIPEONFORK) != 0 || !recorder_make_key() ||
      pthread_atfork(fork_prepare, fork_parent, fork_child) != 0) {
    munmap(home, sizeof(recorder_home_t));
    return false;
  }
  strcpy(socket_path, path);
  recorder_home = home;
  return true;
}

static bool reached(int fd, const struct sockaddr_un *address) {
  int result;
  do
    result = connect(fd, (const struct sockaddr *)address, sizeof *address);
  while (result != 0 && errno == EINTR);
  return result == 0;
}

static int connected(void) {
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return -1;
  struct timeval patience = {ANSWER_S, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path, socket_path, sizeof socket_path);
  if (reached(fd, &address))
    return fd;
  address.sun_path[0] = '\0'; // the name without a file: the process may have another root folder by now
  if (reached(fd, &address))
    return fd;
  close(fd);
  return -1;
}

static int answered(int fd) {
  char byte;
  union {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec part = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  ssize_t got;
  do
    got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  const struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  if (header == NULL || header->cmsg_type != SCM_RIGHTS)
    return -1;
  int memory;
  memcpy(&memory, CMSG_DATA(header), sizeof memory);
  return memory;
}

// Connects, and maps the segment. A process without address space for it sends one byte instead, and waits until the
// collector has read its name.
static segment_t *segment_take(void) {
  segment_hello_t hello = {SEGMENT_VERSION, parent_fork ? parent_number : 0, parent_fork, ""};
  next_file(hello.allocator, sizeof hello.allocator);
  void *room = mmap(NULL, SEGMENT_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void *segment = MAP_FAILED;
  ssize_t bytes = room == MAP_FAILED ? 1 : (ssize_t)sizeof hello;
  int fd = connected(), memory = -1;
  if (fd >= 0 && send(fd, room == MAP_FAILED ? "" : (const void *)&hello, (size_t)bytes, MSG_NOSIGNAL) == bytes)
    memory = answered(fd);
  if (memory >= 0 && room != MAP_FAILED) {
    segment = mmap(room, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, memory, 0);
    close(memory);
  }
  if (segment == MAP_FAILED && room != MAP_FAILED)
    munmap(room, SEGMENT_BYTES);
  if (fd >= 0)
    close(fd);
  return segment == MAP_FAILED ? NULL : segment;
}

COLD static bool begin(recorder_home_t *home) {
  if (mapped != NULL)
    munmap(mapped, SEGMENT_BYTES);
  mapped = segment_take();
  if (mapped != NULL) {
    home->segment = mapped;
    home->pid = getpid();
    parent_number = mapped->process + 1;
  }
  parent_fork = 0;
  atomic_store(&home->state, mapped ? HOME_READY : HOME_OFF);
  if (mapped == NULL) // e.g. in a forked child after the end of the recording
    recorder_detach();
  return mapped != NULL;
}

bool recorder_begin(void) {
  static _Atomic uint32_t making;
  if (UNLIKELY(recorder_home == NULL)) {
    next_find();
    // It is too early until the C library has set the environment.
    if (environ == NULL || atomic_load_explicit(&making, memory_order_relaxed) || atomic_exchange(&making, 1) ||
        !home_make(getenv(SEGMENT_SOCKET)))
      return false;
  }
  recorder_home_t *home = recorder_home;
  uint32_t state = atomic_load_explicit(&home->state, memory_order_acquire);
  if (LIKELY(state == HOME_READY || state == HOME_OFF))
    return state == HOME_READY;
  int self = (int)syscall(SYS_gettid);
  if (state == HOME_NEW && atomic_compare_exchange_strong(&home->state, &state, HOME_BEGINNING)) {
    atomic_store(&home->beginner, self);
    return begin(home);
  }
  while (atomic_load(&home->state) == HOME_BEGINNING && atomic_load(&home->beginner) != self)
    sched_yield();
  return atomic_load(&home->state) == HOME_READY;
}

// Private pages replace the shared ones, so that threads which have not noticed the end may still write there.
void recorder_end(void) {
  recorder_home_t *home = recorder_home;
  if (atomic_exchange(&home->state, HOME_OFF) == HOME_OFF)
    return;
  recorder_detach();
  for (uint32_t i = 0; i < home->used_places; i++)
    __atomic_store_n(&home->threads[i].limit, NULL, __ATOMIC_RELAXED);
  home->stray.limit = NULL;
  if (mapped != NULL)
    mmap(mapped, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

// Asks the collector if no thread has noticed an end yet, since threads notice it only when they allocate.
bool recorder_over(void) {
  recorder_home_t *home = recorder_home;
  if (home == NULL || atomic_load(&home->state) == HOME_OFF)
    return true;
  if (home->segment == NULL || !atomic_load(&home->segment->stop)) {
    int fd = connected();
    if (fd >= 0) {
      close(fd);
      return false;
    }
  }
  recorder_end();
  return true;
}

// Threads may be inside recorder_slow and still write to the former segment, so that is unmapped only at the next
// start.
bool recorder_begin_anew(const char *path) {
  static void *former;
  recorder_home_t *home = recorder_home;
  if (home == NULL)
    return home_make(path) && recorder_begin();
  if (!recorder_over() || strlen(path) >= sizeof socket_path)
    return false;
  if (former != NULL)
    munmap(former, SEGMENT_BYTES);
  former = mapped;
  mapped = NULL;
  strcpy(socket_path, path);
  for (uint32_t i = 0; i < home->used_places; i++) {
    home->threads[i].number = 0; // its number belonged to the last recording
    __atomic_store_n(&home->threads[i].left, -1, __ATOMIC_RELAXED);
    __atomic_store_n(&home->threads[i].limit, NULL, __ATOMIC_RELAXED);
  }
  home->stray = (recorder_thread_t){0};
  parent_fork = 0;
  atomic_store(&home->state, HOME_NEW);
  return recorder_begin();
}

// Peak resident memory from VmHWM. Unlike getrusage's value, it excludes earlier programs of the process. The buffer is
// static because the stack may be small, as in a signal handler; the function is called once.
static uint64_t peak_kib(void) {
  static char text[4096];
  int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0)
    close(fd);
  text[got > 0 ? got : 0] = '\0';
  const char *line = strstr(text, "VmHWM:");
  return line ? strtoull(line + sizeof "VmHWM:" - 1, NULL, 10) : 0;
}

// If a debugger loaded the library, it begins only at hak_record_attach.
__attribute__((constructor)) static void process_starts(void) {
  int error = errno;
  if (recorder_is_preloaded())
    recorder_begin();
  errno = error;
}

// A child from vfork is skipped, since it runs in its parent's memory.
__attribute__((destructor)) static void process_exits(void) {
  static _Atomic bool exiting;
  int error = errno;
  if (recorder_home != NULL && atomic_load(&recorder_home->state) == HOME_READY && getpid() == recorder_home->pid &&
      !atomic_exchange(&exiting, true)) {
    struct timespec used = {0};
    recorder_large_look();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    atomic_store(&recorder_home->segment->cpu_ms, (uint64_t)used.tv_sec * 1000 + (uint64_t)used.tv_nsec / 1000000);
    atomic_store(&recorder_home->segment->peak_kib, peak_kib());
  }
  errno = error;
}

// A process that exits in this way runs no destructors.
EXPORT __attribute__((noreturn)) void _exit(int status) {
  process_exits();
  for (;;)
    syscall(SYS_exit_group, status);
}

EXPORT __attribute__((noreturn, alias("_exit"))) void _Exit(int status);
