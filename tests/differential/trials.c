#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "machine.h"
#include "names.h"

/* KEPT: blocks of a busy thread that stay, and as many that come and go. */
enum { MOST_TEAM = 16, STRIDE = 1024 /* slots from thread to thread */, KEPT = 48, CHILD_SECONDS = 30, PASSES = 3 };
/* Refills after which hakmem has taken over the heap of a thread that did not survive a fork. The hardened profile does
 * so only in refills of small blocks, and each fetches two blocks of this size. */
enum { REFILLS = 80, RUN_BYTES = 64 << 10, SMALL_BYTES = 5000, SMALL_BLOCKS = 2 };
/* Address space with which an allocator can grow, beside what it was asked for. */
enum { ROOM_TO_GROW = 32 << 20 };

struct member {
  pthread_t id;
  struct context context;
  const struct op *op;
  struct member *before; /* whose blocks this one frees */
  atomic_bool filled;
  int pass;
};

static atomic_int arrived;
static atomic_bool over;

static void fill(struct context *context, const struct op *op, int64_t i) {
  slot_fill(context, slot_at(context, op, i), op->how, between(context, op->x, op->y), op->touch);
}

/* Numbers of threads that could be started. */
static int start(struct member *team, struct context *parent, const struct op *op, void *(*body)(void *)) {
  int begun = 0;
  for (int64_t i = 0; i < op->count && i < MOST_TEAM; i++) {
    struct member *member = &team[begun];
    *member = (struct member){.context = *parent, .op = op, .before = begun > 0 ? member - 1 : NULL};
    member->context.offset += (begun + 1) * STRIDE;
    member->context.chance = next_chance(parent);
    if (pthread_create(&member->id, NULL, body, member) == 0) {
      begun++;
    } else {
      measure_refusal();
    }
  }
  return begun;
}

static void empty_all(struct member *team, int members, const struct op *op, int64_t blocks) {
  for (int m = 0; m < members; m++) {
    for (int64_t i = 0; i < blocks; i++) {
      slot_empty(&team[m].context, slot_at(&team[m].context, op, i));
    }
  }
}

static void *be_busy(void *argument) {
  struct member *self = argument;
  struct context *context = &self->context;
  for (int i = 0; i < KEPT; i++) {
    fill(context, self->op, i);
  }
  atomic_fetch_add(&arrived, 1);
  while (!atomic_load_explicit(&over, memory_order_relaxed)) {
    int64_t i = KEPT + (int64_t)(next_chance(context) % KEPT);
    struct slot *slot = slot_at(context, self->op, i);
    if (slot->block != NULL) {
      slot_empty(context, slot);
    } else {
      fill(context, self->op, i);
    }
  }
  return NULL;
}

static void check_kept(const struct member *team, int members, const struct op *op) {
  for (int m = 0; m < members; m++) {
    for (int i = 0; i < KEPT; i++) {
      slot_check(slot_at(&team[m].context, op, i));
    }
  }
}

/* The blocks stay until the process ends, so no bin has one for the next request. */
static void provoke_refills(int64_t refills) {
  for (int64_t i = 0; i < refills && hak_malloc(RUN_BYTES) != NULL; i++) {
  }
  for (int64_t i = 0; i < refills * SMALL_BLOCKS && hak_malloc(SMALL_BYTES) != NULL; i++) {
  }
}

/* Blocks that other threads were freeing at the fork must not serve twice, nor a live one at all. */
static void child_of_busy(struct context *context, const struct op *op, struct member *team, int members) {
  alarm(CHILD_SECONDS);
  check_kept(team, members, op);
  provoke_refills((int64_t)(members + 1) * REFILLS);
  for (int64_t i = 0; i < 4 * KEPT; i++) {
    fill(context, op, i);
  }
  check_kept(team, members, op);
  for (int64_t i = 0; i < 4 * KEPT; i++) {
    slot_empty(context, slot_at(context, op, i));
  }
  empty_all(team, members, op, KEPT);
  _exit(0);
}

/* count: threads that allocate and free; x, y: least and most bytes; z: forks meanwhile. */
void busy(struct context *context, const struct op *op) {
  struct member team[MOST_TEAM];
  atomic_store(&arrived, 0);
  atomic_store(&over, false);
  int members = start(team, context, op, be_busy);
  while (atomic_load(&arrived) < members) {
    sched_yield();
  }
  for (int64_t n = 0; n < op->z; n++) {
    pid_t child = fork();
    if (child == 0) {
      child_of_busy(context, op, team, members);
    }
    if (child > 0) {
      await_child(child);
    }
  }
  atomic_store(&over, true);
  for (int m = 0; m < members; m++) {
    pthread_join(team[m].id, NULL);
  }
  empty_all(team, members, op, KEPT + KEPT);
}

static pthread_key_t key;

/* Of six blocks, 0 and 3 are freed by their thread, 1 and 4 by the next one, 2 and 5 at the thread's end, 2 comes
 * anew, and both are left for the one that started the threads. */
static void at_end(void *argument) {
  struct member *self = argument;
  for (int64_t i = 0; i < self->op->z; i++) {
    struct slot *slot = slot_at(&self->context, self->op, i);
    if (i % 6 == (self->pass == 2 ? 5 : 2)) {
      if (self->pass == 1) {
        fill(&self->context, self->op, i);
      } else {
        slot_empty(&self->context, slot);
      }
    }
  }
  if (++self->pass < PASSES) {
    pthread_setspecific(key, self);
  }
}

static void *end_soon(void *argument) {
  struct member *self = argument;
  struct context *context = &self->context;
  for (int64_t i = 0; i < self->op->z; i++) {
    fill(context, self->op, i);
  }
  atomic_store(&self->filled, true);
  for (int64_t i = 0; i < self->op->z; i += 3) {
    slot_empty(context, slot_at(context, self->op, i));
  }
  while (self->before != NULL && !atomic_load(&self->before->filled)) {
    sched_yield();
  }
  for (int64_t i = 1; self->before != NULL && i < self->op->z; i += 3) {
    slot_empty(context, slot_at(&self->before->context, self->op, i));
  }
  pthread_setspecific(key, self);
  return NULL;
}

static void make_key(void) {
  pthread_key_create(&key, at_end);
}

/* count: threads that end; x, y: least and most bytes; z: blocks of each. */
void exits(struct context *context, const struct op *op) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  struct member team[MOST_TEAM];
  pthread_once(&once, make_key);
  int members = start(team, context, op, end_soon);
  for (int m = 0; m < members; m++) {
    pthread_join(team[m].id, NULL);
  }
  empty_all(team, members, op, op->z);
}

static void fill_with_most(struct context *context, const struct op *op, struct slot *slot) {
  slot_fill(context, slot, op->how, (size_t)op->y, op->touch);
}

/* Number of the z blocks, of `step` only every one, that could be allocated before the first refusal. */
static int64_t fill_until_refused(struct context *context, const struct op *op, int64_t step) {
  int64_t i = 0;
  for (; i < op->z; i += step) {
    struct slot *slot = slot_at(context, op, i);
    fill_with_most(context, op, slot);
    if (slot->block == NULL) {
      break;
    }
  }
  return i / step;
}

static void empty(struct context *context, const struct op *op, int64_t step) {
  for (int64_t i = 0; i < op->z; i += step) {
    slot_empty(context, slot_at(context, op, i));
  }
}

static void check_all(struct context *context, const struct op *op) {
  for (int64_t i = 0; i < op->z; i++) {
    slot_check(slot_at(context, op, i));
  }
}

/* What was freed can be allocated again while nothing more is to be had. No block lies in another one. */
static void use_up(struct context *context, const struct op *op) {
  bool several = fill_until_refused(context, op, 1) > 1;
  check_all(context, op);
  empty(context, op, 2);
  if (fill_until_refused(context, op, 2) == 0 && several) {
    fail("freed memory serves no request of the same size");
  }
  check_all(context, op);
}

static bool could_map(size_t bytes) {
  long address = syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return address != -1 && syscall(SYS_munmap, address, bytes) == 0;
}

/* The limit is gone: of the blocks that were refused, all of the others being live, one at least can be allocated. */
static void fill_rest(struct context *context, const struct op *op) {
  int64_t missing = 0, filled = 0;
  bool could = could_map((size_t)op->y + ROOM_TO_GROW);
  for (int64_t i = 0; i < op->z; i++) {
    struct slot *slot = slot_at(context, op, i);
    if (slot->block == NULL) {
      missing++;
      fill_with_most(context, op, slot);
      filled += slot->block != NULL;
    }
  }
  if (could && missing > 0 && filled == 0) {
    fail("memory stays short after its limit is gone");
  }
  check_all(context, op);
}

static void deny_memory(void) {
  static const int denied[] = {SYS_mmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_munmap, SYS_brk};
  enum { CALLS = sizeof denied / sizeof *denied };
  struct sock_filter rules[CALLS + 3] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  for (int i = 0; i < CALLS; i++) {
    rules[1 + i] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)denied[i], (unsigned char)(CALLS - i), 0);
  }
  rules[CALLS + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  rules[CALLS + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM);
  struct sock_fprog program = {CALLS + 3, rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    _exit(0);
  }
}

static void be_denied(struct context *context, const struct op *op) {
  pid_t child = fork();
  if (child == 0) {
    alarm(CHILD_SECONDS);
    deny_memory();
    use_up(context, op);
    empty(context, op, 1);
    _exit(0);
  }
  if (child > 0) {
    await_child(child);
  }
}

static size_t address_space(void) {
  char text[64] = "";
  int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0) {
    close(file);
  }
  return bytes <= 0 ? 0 : strtoull(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* shift: the kind of shortage; x: bytes of address space that are left; y: bytes of each of z blocks. */
void fall_short(struct context *context, const struct op *op) {
  struct rlimit limit, tight;
  if (op->shift == DENIED) {
    be_denied(context, op);
    return;
  }
  getrlimit(RLIMIT_AS, &limit);
  tight = limit;
  rlim_t most = (rlim_t)address_space() + (rlim_t)op->x;
  tight.rlim_cur = most < limit.rlim_cur ? most : limit.rlim_cur;
  setrlimit(RLIMIT_AS, &tight);
  use_up(context, op);
  setrlimit(RLIMIT_AS, &limit);
  fill_rest(context, op);
  empty(context, op, 1);
  if (fill_until_refused(context, op, op->z) == 0) {
    fail("freed memory serves no request after its limit is gone");
  }
  empty(context, op, 1);
}

static void must_fail(const void *block, int expected, const char *what) {
  if (block != NULL || errno != expected) {
    fail(what);
  }
  errno = EXDEV;
}

static void must_return(int status, int expected, void *const *block, const char *what) {
  if (status != expected || *block != &arrived || (is_ours() && errno != EXDEV)) {
    fail(what);
  }
  errno = EXDEV;
}

static volatile size_t huge = PTRDIFF_MAX + (size_t)1, most = SIZE_MAX, many = (size_t)1 << 33, quarter = SIZE_MAX / 4;

static void refuse_alignments(void) {
  static volatile size_t wrong[] = {0, 1, 3, 4, 24, 4097, SIZE_MAX};
  void *block = &arrived;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    must_return(hak_posix_memalign(&block, wrong[i], 64), EINVAL, &block, "posix_memalign took a wrong alignment");
  }
  must_return(hak_posix_memalign(&block, 64, most - 63), ENOMEM, &block, "posix_memalign of SIZE_MAX - 63 bytes");
  must_return(hak_posix_memalign(&block, huge, huge), ENOMEM, &block, "posix_memalign of half of all memory");
  if (is_ours()) {
    must_fail(hak_memalign(most, 64), EINVAL, "memalign took SIZE_MAX for an alignment");
  }
}

/* x: bytes of a block that must outlive the failure of realloc. */
void refuse(struct context *context, const struct op *op) {
  struct slot *slot = slot_at(context, op, 0);
  slot_fill(context, slot, op->how, (size_t)op->x, op->touch);
  errno = EXDEV;
  must_fail(hak_malloc(huge), ENOMEM, "malloc of half of all memory");
  must_fail(hak_malloc(most), ENOMEM, "malloc of SIZE_MAX bytes");
  must_fail(hak_calloc(many, many), ENOMEM, "calloc took 2^66 bytes for 4");
  must_fail(hak_calloc(8, quarter), ENOMEM, "calloc of twice all memory");
  must_fail(hak_realloc(NULL, most), ENOMEM, "realloc of NULL to SIZE_MAX bytes");
  must_fail(hak_reallocarray(NULL, many, many), ENOMEM, "reallocarray took 2^66 bytes for 4");
  must_fail(hak_aligned_alloc(64, most - 63), ENOMEM, "aligned_alloc of SIZE_MAX - 63 bytes");
  must_fail(hak_memalign(4096, most - 4095), ENOMEM, "memalign of SIZE_MAX - 4095 bytes");
  must_fail(hak_valloc(most), ENOMEM, "valloc of SIZE_MAX bytes");
  if (slot->block != NULL) {
    must_fail(hak_realloc(slot->block, huge), ENOMEM, "realloc to half of all memory");
    must_fail(hak_reallocarray(slot->block, 8, quarter), ENOMEM, "reallocarray to twice all memory");
  }
  refuse_alignments();
  slot_empty(context, slot);
}
