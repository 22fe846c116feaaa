/* Shared by the programs of properties.py: blocks, accesses, and how a program ends.
 *
 * A program says "harm" when its misuse has happened, and goes on as if nothing were wrong. It ends with status GONE if
 * the heap left no way to commit the misuse. With the argument "valid" it does the same things without the misuse. */
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GONE = 0x40, BLOCKS = 64, STEP = 64, REACH_MAX = 1 << 27, TRIES_MAX = 100000, TRIED_BYTES_MAX = 1 << 30 };

static bool valid;
static char sink;
static char *blocks[BLOCKS]; /* of `nearest` */

/* Hides from the compiler which object the pointer points to. */
static char *hidden(const void *pointer) {
  __asm__ volatile("" : "+r"(pointer)::"memory");
  return (char *)(uintptr_t)pointer;
}

static char *take(size_t bytes) {
  char *block = hidden(malloc(bytes));
  if (!block) {
    _exit(2);
  }
  memset(block, 1, bytes);
  return hidden(block);
}

static void give(const void *block) {
  free(hidden(block));
}

static void require(bool possible) {
  if (!possible && !valid) {
    _exit(GONE);
  }
}

static void happened(void) {
  (void)!write(STDOUT_FILENO, "harm\n", 5);
}

/* Goes on with more blocks of the size than a thread cache holds, and frees all of them. */
static void go_on(size_t bytes) {
  char *others[4 * BLOCKS];
  for (int i = 0; i < 4 * BLOCKS; i++) {
    others[i] = take(bytes);
  }
  for (int i = 0; i < 4 * BLOCKS; i++) {
    give(others[i]);
  }
  for (int i = 0; i < BLOCKS; i++) {
    give(blocks[i]);
  }
}

/* Finds the two of many blocks that are closest to each other; `above`: the target is the upper one. */
static void nearest(size_t bytes, bool above, char **origin, char **target) {
  size_t best = SIZE_MAX;
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = take(bytes);
  }
  for (int i = 0; i < BLOCKS; i++) {
    for (int j = 0; j < BLOCKS; j++) {
      size_t distance = (uintptr_t)blocks[j] - (uintptr_t)blocks[i];
      if (i != j && distance < best) {
        best = distance;
        *origin = blocks[above ? i : j];
        *target = blocks[above ? j : i];
      }
    }
  }
}

/* Limits an access to REACH_MAX bytes; one that gets this far has proved its harm. */
static size_t within(size_t count) {
  return count < REACH_MAX ? count : REACH_MAX;
}

/* Accesses upwards from an address: by the program's own loads and stores, and by functions of the C library. */
static void read_direct(char *at, size_t count) {
  for (size_t i = 0; i < count; i++) {
    sink = (char)(sink ^ *(volatile char *)(at + i));
  }
}

static void write_direct(char *at, size_t count) {
  for (size_t i = 0; i < count; i++) {
    *(volatile char *)(at + i) = 0x41;
  }
}

static void read_library(char *at, size_t count) {
  char into[STEP];
  for (size_t step; count > 0; at += step, count -= step) {
    step = count < STEP ? count : STEP;
    memcpy(into, hidden(at), step);
    sink = (char)(sink ^ *hidden(into));
  }
}

static void write_library(char *at, size_t count) {
  for (size_t step; count > 0; at += step, count -= step) {
    step = count < STEP ? count : STEP;
    memset(hidden(at), 0x41, step);
  }
}

/* One load or store of eight bytes, of which the first four lie before the address. */
typedef struct __attribute__((packed)) wide {
  uint64_t word;
} wide_t;

static inline void read_wide(char *at) {
  sink = (char)(sink ^ (char)((volatile wide_t *)(at - 4))->word);
}

static inline void write_wide(char *at) {
  ((volatile wide_t *)(at - 4))->word = 0x4141414141414141;
}

/* The same accesses downwards: the bytes nearest to `end` come first. */
static void down(void (*access)(char *, size_t), char *end, size_t count) {
  size_t most = access == read_direct || access == write_direct ? 1 : STEP;
  for (size_t step; count > 0; count -= step) {
    step = count < most ? count : most;
    end -= step;
    access(end, step);
  }
}

/* Allocates until a request gets the stale block, so that it has a new owner; ends the program if none does. */
static char *reuse(const char *stale, size_t bytes, bool again) {
  char *next = take(bytes);
  for (size_t i = 0; again && next != stale && i < TRIES_MAX && i * bytes < TRIED_BYTES_MAX; i++) {
    give(next);
    next = take(bytes);
  }
  require(next == stale);
  return next;
}
