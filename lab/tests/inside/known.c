/* A program that knows which blocks are live. For each letter on standard input it does as listed, then prints, in one
 * line of JSON, how many blocks of each usable size are live: {"SIZE": BLOCKS, ...}. Nothing else allocates.
 *   a  allocate blocks of every kind, and write to all of them
 *   f  free every second one of the small blocks
 *   t  one thread allocates, another frees half of these blocks; then both sleep
 *   h  free the huge blocks
 *   e  a thread allocates, frees all of it, and ends
 *   l  print the address of a live block, of a freed one, and of a huge one (after a and f); of the first
 *      two kinds also "late" ones, which are not among the first blocks of their class */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KINDS = 8, MOST = 4000, PASSED = 2000, SIZES = 64, LATE = 2000 };
static const struct {
  size_t bytes, count;
} kinds[KINDS] = {{24, 4000},  {100, 3000}, {1000, 1000}, {5000, 100},
                  {30000, 20}, {40000, 10}, {300000, 6},  {3000000, 2}};

static char *blocks[KINDS][MOST];
static char *passed[PASSED];
static const size_t passed_bytes[2] = {630, 40}; /* blocks of 40 bytes pass through a remote-free buffer */
static struct {
  size_t size, count;
} live[SIZES];
static pthread_barrier_t handed, done;
static char *volatile freed, *volatile late_freed;

static void count(char *block, int change) {
  size_t size = malloc_usable_size(block), i = 0;
  while (live[i].size != 0 && live[i].size != size) {
    i++;
  }
  live[i].size = size;
  live[i].count += (size_t)change;
}

static void allocate(void) {
  for (size_t k = 0; k < KINDS; k++) {
    for (size_t i = 0; i < kinds[k].count; i++) {
      blocks[k][i] = malloc(kinds[k].bytes);
      memset(blocks[k][i], 0x5a, kinds[k].bytes);
      count(blocks[k][i], 1);
    }
  }
}

static void release(char **block) {
  count(*block, -1);
  free(*block);
  *block = NULL;
}

static void free_some(void) {
  freed = blocks[0][1];
  late_freed = blocks[0][LATE + 1];
  for (size_t k = 0; k < 5; k++) {
    for (size_t i = 1; i < kinds[k].count; i += 2) {
      release(&blocks[k][i]);
    }
  }
}

static void *gives(void *unused) {
  for (size_t i = 0; i < PASSED; i++) {
    size_t bytes = passed_bytes[i / 2 % 2];
    passed[i] = malloc(bytes);
    memset(passed[i], 0xa5, bytes);
    count(passed[i], 1);
  }
  pthread_barrier_wait(&handed);
  pause();
  return unused;
}

static void *takes(void *unused) {
  pthread_barrier_wait(&handed);
  for (size_t i = 0; i < PASSED; i += 2) {
    release(&passed[i]);
  }
  pthread_barrier_wait(&done);
  pause();
  return unused;
}

static void threads(void) {
  pthread_t giver, taker;
  pthread_barrier_init(&handed, NULL, 2);
  pthread_barrier_init(&done, NULL, 2);
  pthread_create(&giver, NULL, gives, NULL);
  pthread_create(&taker, NULL, takes, NULL);
  pthread_barrier_wait(&done);
}

static void *comes_and_goes(void *unused) {
  char *some[200];
  for (size_t i = 0; i < 200; i++) {
    some[i] = malloc(1000);
    memset(some[i], 0xa5, 1000);
  }
  for (size_t i = 0; i < 200; i++) {
    free(some[i]);
  }
  return unused;
}

static void end_a_thread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, comes_and_goes, NULL);
  pthread_join(thread, NULL);
}

static char line[4096];
static int length;

__attribute__((format(printf, 1, 2))) static void put(const char *format, ...) {
  va_list values;
  va_start(values, format);
  length += vsnprintf(line + length, sizeof line - (size_t)length, format, values);
  va_end(values);
}

static void tell(char letter) {
  length = 0;
  if (letter == 'l') {
    put("{\"live\": \"%p\", \"freed\": \"%p\", \"huge\": \"%p\", ", (void *)blocks[0][2], (void *)freed,
        (void *)blocks[KINDS - 1][0]);
    put("\"late\": \"%p\", \"late freed\": \"%p\"}\n", (void *)blocks[0][LATE], (void *)late_freed);
  } else {
    put("{");
    for (size_t i = 0; i < SIZES && live[i].size; i++) {
      put("%s\"%zu\": %zu", i ? ", " : "", live[i].size, live[i].count);
    }
    put("}\n");
  }
  if (write(STDOUT_FILENO, line, (size_t)length) != length) {
    _exit(1);
  }
}

int main(void) {
  char letter;
  free(malloc(1));
  if (write(STDOUT_FILENO, "ready\n", 6) != 6) {
    return 1;
  }
  while (read(STDIN_FILENO, &letter, 1) == 1) {
    switch (letter) {
    case 'a':
      allocate();
      break;
    case 'f':
      free_some();
      break;
    case 't':
      threads();
      break;
    case 'e':
      end_a_thread();
      break;
    case 'h':
      release(&blocks[KINDS - 1][0]);
      release(&blocks[KINDS - 1][1]);
      break;
    default:
      break;
    }
    tell(letter);
  }
  return 0;
}
