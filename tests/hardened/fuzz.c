/* Makes random requests, then one deliberate misuse that the profile claims to stop: fuzz TRIALS [SEED]
 *
 * Each trial is a child. It must end by the library's message and abort(), or by a fault if the misuse touches a page
 * without access. */
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "pattern.h"
#include "prng.h"

enum { SLOTS = 64, SMALL_MAX = 40000, LARGE_MAX = 300000, OPERATIONS = 150, SPAN_MAX = 48, LINE = 256 };

typedef struct {
  unsigned char *block;
  size_t bytes;
} Slot;

static Slot slots[SLOTS];
static Prng prng;
static unsigned char global[4096];

void free_sized(void *block, size_t bytes);

static size_t any_size(void) {
  static const size_t limits[] = {64, 64, 1024, 1024, SMALL_MAX, LARGE_MAX};
  return 1 + prng_below(&prng, (uint32_t)limits[prng_below(&prng, 6)]);
}

static void take(Slot *slot) {
  size_t align = (size_t)16 << prng_below(&prng, 9);
  slot->bytes = any_size();
  switch (prng_below(&prng, 4)) {
  case 0:
    slot->block = calloc(1, slot->bytes);
    CHECK(slot->block && all_zero(slot->block, slot->bytes));
    break;
  case 1:
    slot->block = memalign(align, slot->bytes);
    CHECK((uintptr_t)slot->block % align == 0);
    break;
  default:
    slot->block = malloc(slot->bytes);
  }
  CHECK(slot->block != NULL);
  pattern_fill(slot->block, slot->bytes, (size_t)(slot - slots));
}

static void give(Slot *slot) {
  if (slot->block) {
    CHECK(pattern_holds(slot->block, slot->bytes, slot->bytes, (size_t)(slot - slots)));
    prng_below(&prng, 2) ? free(slot->block) : free_sized(slot->block, slot->bytes);
    slot->block = NULL;
  }
}

static void resize(Slot *slot) {
  size_t bytes = any_size(), kept = bytes < slot->bytes ? bytes : slot->bytes;
  slot->block = realloc(slot->block, bytes);
  CHECK(slot->block && pattern_holds(slot->block, kept, slot->bytes, (size_t)(slot - slots)));
  slot->bytes = bytes;
  pattern_fill(slot->block, bytes, (size_t)(slot - slots));
}

static void work(void) {
  for (uint32_t left = prng_below(&prng, OPERATIONS); left > 0; left--) {
    Slot *slot = &slots[prng_below(&prng, SLOTS)];
    if (slot->block && prng_below(&prng, 4) == 0) {
      resize(slot);
    } else {
      give(slot);
      take(slot);
    }
  }
}

/* Changes every byte. */
static void change(unsigned char *at, size_t count) {
  for (size_t i = 0; i < count; i++) {
    ((volatile unsigned char *)hide_pointer(at))[i] ^= (unsigned char)(1 + prng_below(&prng, 255));
  }
}

static size_t span(void) {
  return 1 + prng_below(&prng, SPAN_MAX);
}

static void double_free(unsigned char *block, size_t bytes) {
  (void)bytes;
  free(block);
  if (prng_below(&prng, 2)) {
    free(hide_pointer(malloc(any_size())));
  }
  free(hide_pointer(block));
}

static void free_inside(unsigned char *block, size_t bytes) {
  free(hide_pointer(block + 1 + prng_below(&prng, (uint32_t)bytes)));
}

static void free_foreign(unsigned char *block, size_t bytes) { /* NOLINT(readability-non-const-parameter) */
  unsigned char local[256];
  (void)block;
  void *places[] = {local + bytes % 256, global + bytes % 4096,
                    hide_pointer((void *)(0x414141410000 + bytes))}; /* NOLINT */
  free(hide_pointer(places[prng_below(&prng, 3)]));
}

static void wrong_size(unsigned char *block, size_t bytes) {
  free_sized(block, bytes + span());
}

static void realloc_freed(unsigned char *block, size_t bytes) {
  free(block);
  free(realloc(hide_pointer(block), bytes + span()));
}

static void usable_freed(unsigned char *block, size_t bytes) {
  free(block);
  CHECK(malloc_usable_size(hide_pointer(block)) > bytes + LARGE_MAX);
}

static void overflow(unsigned char *block, size_t bytes) {
  change(block + bytes, span());
  free(block);
}

/* A large block may begin at the start of its first page; the write then faults. */
static void underflow(unsigned char *block, size_t bytes) {
  (void)bytes;
  size_t count = span();
  change(block - count, count);
  free(block);
}

static void write_freed(unsigned char *block, size_t bytes) {
  size_t count = 1 + prng_below(&prng, (uint32_t)(bytes < SPAN_MAX ? bytes : SPAN_MAX));
  size_t at = prng_below(&prng, (uint32_t)(bytes - count + 1));
  free(block);
  change((unsigned char *)hide_pointer(block) + at, count);
}

static const struct {
  const char *name;
  void (*commit)(unsigned char *block, size_t bytes);
  bool faults; /* the misuse may touch a page without access */
} classes[] = {
    {"double free", double_free, false}, {"free inside", free_inside, false},     {"foreign free", free_foreign, false},
    {"wrong size", wrong_size, false},   {"freed realloc", realloc_freed, false}, {"freed usable", usable_freed, false},
    {"overflow", overflow, true},        {"underflow", underflow, true},          {"freed write", write_freed, true}};
enum { CLASSES = sizeof classes / sizeof *classes };

_Noreturn static void run(uint64_t seed, unsigned which, int to) {
  Slot slot;
  dup2(to, STDERR_FILENO);
  prng = prng_seeded(seed);
  work();
  take(&slot);
  classes[which].commit(slot.block, slot.bytes);
  work();
  exit(0);
}

static void expect_end(uint64_t seed, unsigned which) {
  int pipes[2], status;
  char line[LINE] = "";
  CHECK(pipe(pipes) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    run(seed, which, pipes[1]);
  }
  close(pipes[1]);
  (void)!read(pipes[0], line, sizeof line - 1);
  close(pipes[0]);
  CHECK(waitpid(child, &status, 0) == child);
  int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  bool reported = number == SIGABRT && strncmp(line, "hakmem: ", 8) == 0;
  bool stopped = reported || (number == SIGSEGV && classes[which].faults);
  if (!stopped) {
    printf("%s, seed %llu: status %#x: %s\n", classes[which].name, (unsigned long long)seed, (unsigned)status, line);
    fflush(stdout);
  }
  CHECK(stopped);
}

int main(int count, char **words) {
  CHECK(count >= 2);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  uint64_t seed = count > 2 ? strtoull(words[2], NULL, 10) : (uint64_t)getpid() << 32;
  for (uint64_t i = 0, trials = strtoull(words[1], NULL, 10); i < trials; i++) {
    expect_end(seed + i, (unsigned)((seed + i) % CLASSES));
  }
  return 0;
}
