/* A handler of SIGABRT that behaves as crash reporters do: it allocates and frees blocks of the damaged sizes, formats
 * text and starts a thread. It must run to its end after each kind of misuse, wherever the damaged blocks are, and one
 * line must be printed. */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trap.h"

enum { MANY = 600, FEW = 4, WRITABLE_MAX = 40000, MANY_MAX = 4096, HANG_S = 60 };

static const size_t sizes[] = {16, 24, 48, 120, 504, 1000, 4000, 20000, 40000, 100000, 900000, 3000000};

typedef struct {
  void (*commit)(void);
  size_t most; /* largest size for which the crime makes sense */
} crime_t;

static crime_t crime;
static size_t bytes;
static void (*flush)(void);
static void *blocks[2 * MANY];
static enum { REPORT, MISUSE, EXIT, FORK } handler_does;

static void write_word(void *block) {
  *(volatile uint64_t *)hide_pointer(block) = 0x4141414141414141;
}

static void take(size_t count) {
  for (size_t i = 0; i < count; i++) {
    CHECK((blocks[i] = hak_malloc(bytes)) != NULL);
    memset(blocks[i], 0x5a, bytes < 16 ? bytes : 16);
  }
}

static void give(size_t count) {
  for (size_t i = 0; i < count; i++) {
    hak_free(blocks[i]);
  }
}

static void *take_and_give(void *none) {
  take(MANY);
  give(MANY);
  return none;
}

static void double_free(void) {
  take(FEW);
  give(1);
  hak_free(hide_pointer(blocks[0]));
}

static void double_free_of_two(void) {
  take(FEW);
  give(2);
  hak_free(hide_pointer(blocks[0]));
  take(FEW);
}

static void double_free_of_two_often(void) {
  take_and_give(NULL);
  take(FEW);
  for (size_t i = 0; i < FEW; i++) {
    hak_free(hide_pointer(blocks[i]));
  }
  for (size_t i = 0; i < FEW; i++) {
    hak_free(hide_pointer(blocks[i]));
  }
  take(FEW * FEW);
}

static void free_inside(void) {
  take(FEW);
  hak_free((char *)hide_pointer(blocks[1]) + 8);
}

static void free_of_stack(void) {
  long local[4] = {0};
  take(FEW);
  hak_free(hide_pointer(local));
}

static void realloc_freed(void) {
  take(FEW);
  give(FEW);
  CHECK(hak_realloc(hide_pointer(blocks[0]), 2 * bytes) != NULL);
}

static void write_to_newest(void) {
  take(FEW);
  give(FEW);
  write_word(blocks[FEW - 1]);
  take(FEW);
}

static void write_to_all(size_t count) {
  for (size_t i = 0; i < count; i++) {
    write_word(blocks[i]);
  }
  take(2 * count);
}

static void write_to_cached(void) {
  take_and_give(NULL);
  take(MANY / 10);
  give(MANY / 10);
  write_to_all(MANY / 10);
}

static void write_to_returned(void) {
  void *kept[FEW]; /* at least one is in a slab of its class, so that the pages of others stay */
  take_and_give(NULL);
  take(MANY);
  for (size_t i = 0; i < FEW; i++) {
    kept[i] = blocks[i * (MANY / FEW)];
    blocks[i * (MANY / FEW)] = hak_malloc(bytes);
  }
  give(MANY);
  flush();
  write_to_all(MANY);
  for (size_t i = 0; i < FEW; i++) {
    hak_free(kept[i]);
  }
}

/* Another thread frees, so the blocks reach the depot; this one allocates. */
static void *give_all(void *none) {
  give(MANY);
  return none;
}

static void write_to_passed_on(void) {
  pthread_t other;
  for (int round = 0; round < 3; round++) {
    take(MANY);
    CHECK(pthread_create(&other, NULL, give_all, NULL) == 0);
    CHECK(pthread_join(other, NULL) == 0);
  }
  write_to_all(MANY);
}

/* Behind all blocks that were handed out. */
static void write_to_unused(void) {
  take(MANY / 2); /* more than the pages hold that all classes share */
  for (size_t i = MANY / 2 - FEW; i < MANY / 2; i++) {
    memset(hide_pointer(blocks[i]), 0x41, hak_malloc_usable_size(blocks[i]) + sizeof(uint64_t));
  }
  take(MANY);
}

static const crime_t crimes[] = {
    {double_free, SIZE_MAX},         {double_free_of_two, SIZE_MAX}, {double_free_of_two_often, 1000000},
    {free_inside, SIZE_MAX},         {free_of_stack, SIZE_MAX},      {realloc_freed, SIZE_MAX},
    {write_to_newest, WRITABLE_MAX}, {write_to_cached, MANY_MAX},    {write_to_returned, MANY_MAX},
    {write_to_passed_on, 1000},      {write_to_unused, MANY_MAX},
};

static void *use_heap(void *none) {
  static void *mine[2][MANY];
  void **here = mine[none != NULL];
  size_t count = bytes < MANY_MAX ? MANY : FEW * FEW;
  for (size_t i = 0; i < count; i++) {
    CHECK((here[i] = hak_malloc(i % 8 == 7 ? 32 + i : bytes)) != NULL);
    memset(here[i], 1, i % 8 == 7 ? 32 + i : bytes);
  }
  for (size_t i = 0; i < count; i++) {
    hak_free(here[i]);
  }
  return none;
}

static void say(const char *text) {
  CHECK(write(STDERR_FILENO, text, strlen(text)) == (ssize_t)strlen(text));
}

static void on_abort(int number) {
  char text[64];
  pthread_t other;
  alarm(HANG_S);
  if (handler_does == MISUSE) {
    hak_free(hide_pointer(text));
  }
  use_heap(NULL);
  CHECK(snprintf(text, sizeof text, "%.40f", (double)number) > 0);
  CHECK(pthread_create(&other, NULL, use_heap, text) == 0);
  CHECK(pthread_join(other, NULL) == 0);
  if (handler_does == FORK) {
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
      use_heap(NULL);
      exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  }
  say("handled\n");
  if (handler_does == EXIT) {
    exit(3);
  }
}

static void *commit(void *none) {
  crime.commit();
  return none;
}

static void act(void *second_thread) {
  pthread_t thread;
  CHECK(signal(SIGABRT, on_abort) != SIG_ERR);
  alarm(HANG_S);
  if (second_thread) {
    hak_free(hak_malloc(bytes));
    CHECK(pthread_create(&thread, NULL, commit, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  } else {
    commit(NULL);
  }
  exit(0); /* the last chance to notice the crime */
}

static size_t lines(const char *text) {
  size_t count = 0;
  for (; *text; text++) {
    count += *text == '\n';
  }
  return count;
}

static bool ends_well(const TrapEnd *end) {
  bool aborted = WIFSIGNALED(end->status) && WTERMSIG(end->status) == SIGABRT;
  bool exited = WIFEXITED(end->status) && WEXITSTATUS(end->status) == 3;
  bool handled = strstr(end->text, "\nhandled\n") != NULL;
  return strncmp(end->text, "hakmem: ", 8) == 0 && lines(end->text) == 2 && (handler_does == EXIT ? exited : aborted) &&
         handled == (handler_does != MISUSE);
}

static unsigned try_all(size_t crime_number) {
  unsigned failures = 0;
  crime = crimes[crime_number];
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    bytes = sizes[i];
    for (int thread = 0; thread < 2 && bytes <= crime.most; thread++) {
      TrapEnd end = trap_in_child(act, thread ? blocks : NULL);
      if (!ends_well(&end)) {
        printf("crime %zu, %zu bytes, thread %d, handler %d: status %d, text: %.300s\n", crime_number, bytes, thread,
               (int)handler_does, end.status, end.text);
        failures++;
      }
    }
  }
  return failures;
}

int main(void) {
  unsigned failures = 0;
  setbuf(stdout, NULL); /* the children end by exit() */
  trap_watchdog(2 * HANG_S);
  flush = HAK(hak_thread_flush);
  for (size_t i = 0; i < sizeof crimes / sizeof *crimes; i++) {
    handler_does = i < 4 ? (int)i : REPORT;
    failures += try_all(i);
    if (handler_does != REPORT) {
      handler_does = REPORT;
      failures += try_all(i);
    }
  }
  return failures > 0;
}
