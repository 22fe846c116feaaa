#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "names.h"

enum { MOST_THREADS = 64, WRONG = 3, IDLE_CALLS = 256, CLOCK_PER_CPU = 120 };

struct header header;
const struct op *operations;
struct slot *slots;

struct thread {
  pthread_t id;
  struct context context;
  const struct op *body;
  int64_t length;
  bool stays;
};

/* Threads that stay until the round ends. */
static struct thread staying[MOST_THREADS];
static int stays;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int arrived;
static bool round_over;
/* Whether the first round is over. Hardships come only in the first one. */
static bool settled;

static void run(struct context *context, const struct op *from, int64_t length);

void fail(const char *what) {
  const char *const parts[] = {"machine: ", what, "\n"};
  for (int i = 0; i < 3; i++) {
    if (write(STDERR_FILENO, parts[i], strlen(parts[i])) < 0) {
      break;
    }
  }
  _exit(WRONG);
}

uint64_t next_chance(struct context *context) {
  uint64_t x = context->chance += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

struct slot *slot_at(const struct context *context, const struct op *op, int64_t i) {
  int64_t number = context->offset + op->first + context->iteration * op->shift + i;
  return &slots[number % header.slots];
}

size_t between(struct context *context, int64_t low, int64_t high) {
  return (size_t)low + next_chance(context) % (uint64_t)(high - low + 1);
}

/* x: bytes of the first block; y: bytes more for each slot; z: bytes more for each iteration. */
static void allocate(struct context *context, const struct op *op) {
  for (int64_t i = 0; i < op->count; i++) {
    int64_t bytes = op->x + i * op->y + context->iteration * op->z;
    slot_fill(context, slot_at(context, op, i), op->how, bytes < 0 ? 0 : (size_t)bytes, op->touch);
  }
}

/* x: order; y: one block in so many stays (0: none). A random order frees each block once, from any place. */
static void release(struct context *context, const struct op *op) {
  int64_t stride = 1, start = 0;
  if (op->x == RANDOM) {
    start = (int64_t)(next_chance(context) % (uint64_t)op->count);
    for (stride = op->count * 5 / 8 | 1; stride > 1; stride -= 2) {
      int64_t a = op->count, b = stride;
      while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
      }
      if (a == 1) {
        break;
      }
    }
  }
  for (int64_t n = 0; n < op->count; n++) {
    int64_t i = op->x == LIFO ? op->count - 1 - n : (start + n * stride) % op->count;
    if (op->y == 0 || i % op->y != 0) {
      slot_empty(context, slot_at(context, op, i));
    }
  }
}

/* x, y: least and most bytes; z: number of times. */
static void churn(struct context *context, const struct op *op, bool shared) {
  struct context unmoved = *context;
  unmoved.offset = 0;
  for (int64_t n = 0; n < op->z; n++) {
    int64_t i = (int64_t)(next_chance(context) % (uint64_t)op->count);
    struct slot *slot = slot_at(shared ? &unmoved : context, op, i);
    size_t bytes = between(context, op->x, op->y);
    while (shared && atomic_flag_test_and_set_explicit(&slot->busy, memory_order_acquire)) {
      sched_yield();
    }
    if (!shared && slot->block != NULL && (n & 1) != 0) {
      slot_empty(context, slot);
    } else {
      slot_fill(context, slot, op->how, bytes, op->touch);
    }
    if (shared) {
      atomic_flag_clear_explicit(&slot->busy, memory_order_release);
    }
  }
}

static void *thread_main(void *argument) {
  struct thread *thread = argument;
  run(&thread->context, thread->body, thread->length);
  if (thread->stays) {
    pthread_mutex_lock(&mutex);
    arrived++;
    pthread_cond_broadcast(&changed);
    while (!round_over) {
      pthread_cond_wait(&changed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

static void start(struct thread *thread, struct context *parent, const struct op *op, int64_t number) {
  thread->context = *parent;
  thread->context.offset += number * op->y;
  thread->context.chance = next_chance(parent);
  thread->body = op + 1;
  thread->length = op->body;
  thread->stays = op->x != 0;
  if (pthread_create(&thread->id, NULL, thread_main, thread) != 0) {
    thread->id = 0;
    measure_refusal();
  }
}

/* count: number of threads; x: whether they stay until the round ends; y: slots between one thread and the next. */
static void threads(struct context *context, const struct op *op) {
  struct thread team[MOST_THREADS];
  bool stay = op->x != 0;
  int begun = 0;
  for (int64_t i = 0; i < op->count; i++) {
    struct thread *thread = stay ? &staying[stays] : &team[i];
    if (stay && stays == MOST_THREADS) {
      break;
    }
    start(thread, context, op, i);
    stays += stay && thread->id != 0;
    begun++;
  }
  if (stay) {
    pthread_mutex_lock(&mutex);
    while (arrived < stays) {
      pthread_cond_wait(&changed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    return;
  }
  for (int i = 0; i < begun; i++) {
    if (team[i].id != 0) {
      pthread_join(team[i].id, NULL);
    }
  }
}

static void end_round(void) {
  pthread_mutex_lock(&mutex);
  round_over = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  for (int i = 0; i < stays; i++) {
    pthread_join(staying[i].id, NULL);
  }
  stays = arrived = 0;
  round_over = false;
}

/* The child of vfork shares all memory, and the parent goes on when the child has ended. So the parent frees the blocks
 * that the child allocates. */
__attribute__((noinline)) static pid_t borrow(struct context *context, const struct op *op) {
  pid_t child = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
  if (child == 0) {
    run(context, op + 1, op->body); /* NOLINT(clang-analyzer-unix.Vfork) */
    _exit(0);
  }
  return child;
}

void await_child(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) {
    fail("a child did not end with status 0");
  }
}

/* x: the kind of fork. The direct system call is used only while there is no other thread, since it runs no fork
 * handlers. */
static void fork_off(struct context *context, const struct op *op) {
  bool alone = stays == 0 && syscall(SYS_gettid) == getpid();
  pid_t child = op->x == VFORKED           ? borrow(context, op)
                : op->x == CLONED && alone ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)
                                           : fork();
  if (child < 0) {
    measure_refusal();
    return;
  }
  if (child == 0) {
    stays = 0;
    run(context, op + 1, op->body);
    _exit(0);
  }
  await_child(child);
}

static void wait_ms(int64_t ms) {
  struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0) {
  }
}

static void step(struct context *context, const struct op *op) {
  context->op = op;
  switch (op->code) {
  case LOOP:
    for (int64_t n = 0, outer = context->iteration; n < op->count; n++) {
      context->iteration = n;
      run(context, op + 1, op->body);
      context->iteration = outer;
    }
    break;
  case ALLOC:
    allocate(context, op);
    break;
  case FREE:
    release(context, op);
    break;
  case RESIZE: /* x: final bytes; y: bytes a step; z: percent a step if y is 0 */
    for (int64_t i = 0; i < op->count; i++) {
      slot_resize(context, slot_at(context, op, i), (size_t)op->x, op->y, op->z);
    }
    break;
  case CHURN:
  case EXCHANGE:
    churn(context, op, op->code == EXCHANGE);
    break;
  case THREADS:
    threads(context, op);
    break;
  case FORK:
    fork_off(context, op);
    break;
  case PAUSE:
    wait_ms(op->x);
    break;
  case TRIM:
    malloc_trim(0);
    break;
  case BUSY:
    busy(context, op);
    break;
  case EXITS:
    exits(context, op);
    break;
  case SHORT:
    fall_short(context, op);
    break;
  case REFUSE:
    refuse(context, op);
    break;
  case CRASH:
    crash(op);
    break;
  case APART:
    apart(context, op);
    break;
  default:
    if (!settled) {
      hardship(op);
    }
  }
}

static void run(struct context *context, const struct op *from, int64_t length) {
  for (const struct op *op = from; op < from + length; op += 1 + op->body) {
    step(context, op);
  }
}

/* Waits, then uses every size class once: some allocators give memory back only during calls. */
static void idle(void) {
  wait_ms(header.idle_ms);
  for (size_t i = 1; i <= IDLE_CALLS; i++) {
    hak_free(hak_malloc(i * 128));
  }
  measure_round(-1);
}

void *own_map(size_t bytes, int protection, int flags, int file) {
  long address = syscall(SYS_mmap, NULL, bytes, protection, MAP_PRIVATE | MAP_POPULATE | flags, file, 0);
  return (void *)address; /* NOLINT(performance-no-int-to-ptr) */
}

static void read_program(const char *path) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0) {
    fail("cannot read the program");
  }
  const char *at = own_map((size_t)status.st_size, PROT_READ, 0, file);
  close(file);
  memcpy(&header, at, sizeof header);
  operations = (const struct op *)(const void *)(at + sizeof header);
  size_t bytes = (size_t)header.slots * sizeof *slots;
  slots = own_map(bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1);
  if (at == MAP_FAILED || slots == MAP_FAILED) {
    fail("no memory for the machine's own tables");
  }
}

static void run_round(struct context *context) {
  run(context, operations, header.operations);
  end_round();
  settled = true;
}

/* Runs rounds for so many seconds, prints a line a second, and writes the figures to a file. */
static int steady(int64_t seconds, const char *figures) {
  int file = open(figures, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  struct context context = {.chance = 1};
  measure_start();
  for (int64_t round = 1; measure_time(round, seconds); round++) {
    run_round(&context);
  }
  measure_print(file);
  return 0;
}

int main(int arguments, char **argument) {
  if (arguments != 2 && arguments != 4) {
    fail("usage: machine PROGRAM [SECONDS FIGURES]");
  }
  read_program(argument[1]);
  if (arguments == 4) {
    return steady(strtoll(argument[2], NULL, 10), argument[3]);
  }
  setrlimit(RLIMIT_CPU, &(struct rlimit){(rlim_t)header.seconds, RLIM_INFINITY});
  alarm((unsigned)header.seconds * CLOCK_PER_CPU);
  measure_start();
  struct context context = {.chance = 1};
  for (int64_t round = 1; round <= header.rounds; round++) {
    run_round(&context);
    measure_round(round);
  }
  if (header.idle_ms > 0) {
    idle();
  }
  measure_print(STDOUT_FILENO);
  return 0;
}
