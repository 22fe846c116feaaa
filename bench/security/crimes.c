/* One misuse of the heap, as a program would commit it: crimes NAME BYTES; without arguments, the names.
 *
 * The way the program ends says whether the misuse was stopped. A signal before the line "harm": stopped before it
 * could take effect. A signal after that line: stopped late, at the end of the process. Status 0 or 9: not stopped;
 * with 9, the program read or lost data that a safe allocator would have protected. scripts/security runs all. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEGA = 1 << 20, OTHERS = 200, SEEN = 9, SECRET = 0x5e };

static size_t bytes;
static char global[4096] __attribute__((aligned(16)));

/* Hides from the compiler which object the pointer points to. */
static char *hidden(const void *pointer) {
  __asm__ volatile("" : "+r"(pointer));
  return (char *)(uintptr_t)pointer;
}

static char *take(void) {
  char *block = hidden(malloc(bytes));
  if (!block) {
    _exit(2);
  }
  return block;
}

static void give(const void *block) {
  free(hidden(block));
}

/* Goes on as if nothing had happened: allocates some blocks, writes and frees them. */
static void go_on(void) {
  char *others[8];
  for (int i = 0; i < 8; i++) {
    others[i] = take();
    memset(others[i], 1, bytes);
  }
  for (int i = 0; i < 8; i++) {
    give(others[i]);
  }
}

/* Overwrites bytes by single stores, which the compiler may not turn into a call of memset. */
static void store(char *to, size_t count) {
  for (size_t i = 0; i < count; i++) {
    *(volatile char *)(to + i) = (char)(to[i] ^ 0x42);
  }
}

/* The same downwards from `end`, so that the bytes next to the block are written first. */
static void store_down(char *end, size_t count) {
  for (size_t i = 1; i <= count; i++) {
    *(volatile char *)(end - i) = (char)(end[-(ptrdiff_t)i] ^ 0x42);
  }
}

static void copy(char *to, size_t count) {
  static char from[64];
  for (size_t i = 0; i < count; i++) {
    from[i] = (char)(to[i] ^ 0x42);
  }
  memcpy(to, hidden(from), count);
}

static void over(void (*write)(char *, size_t), size_t count) {
  char *block = take();
  memset(block, 1, bytes);
  write(block + bytes, count);
  give(block);
  go_on();
}

static void under(void (*write)(char *, size_t), size_t count) {
  char *block = take();
  memset(block, 1, bytes);
  write(block - count, count);
  give(block);
  go_on();
}

static void over_1(void) {
  over(store, 1);
}
static void over_8(void) {
  over(store, 8);
}
static void over_32(void) {
  over(store, 32);
}
static void over_1_copy(void) {
  over(copy, 1);
}
static void over_8_copy(void) {
  over(copy, 8);
}
static void over_32_copy(void) {
  over(copy, 32);
}
static void over_mega(void) {
  over(store, MEGA);
}
static void under_1(void) {
  under(store, 1);
}
static void under_8(void) {
  under(store, 8);
}
static void under_32(void) {
  under(store, 32);
}
static void under_1_copy(void) {
  under(copy, 1);
}
static void under_8_copy(void) {
  under(copy, 8);
}
static void under_32_copy(void) {
  under(copy, 32);
}

static void under_mega(void) {
  char *block = take();
  store_down(block, MEGA);
  give(block);
  go_on();
}

static void over_null(void) {
  char *block = take();
  memset(block, 'x', bytes);
  *(volatile char *)(block + bytes) = '\0';
  give(block);
  go_on();
}

/* Writes beyond the block's end into the next block, which is live. */
static void over_neighbour(void) {
  char *blocks[OTHERS];
  for (int i = 0; i < OTHERS; i++) {
    blocks[i] = take();
  }
  char *block = blocks[OTHERS / 2];
  store(block + bytes, bytes > 64 ? 64 : bytes);
  for (int i = 0; i < OTHERS; i++) {
    give(blocks[i]);
  }
  go_on();
}

static void kept_overflow(void) {
  store(take() + bytes, 8);
  go_on();
}

static void write_freed(void) {
  char *block = take();
  give(block);
  store(block + bytes / 2, 8);
  go_on();
}

static void write_freed_first(void) {
  char *block = take();
  give(block);
  store(block, 8);
  go_on();
}

/* Returns a block that was freed before many others of its size. */
static char *freed_among_others(void) {
  char *block = take(), *others[OTHERS];
  for (int i = 0; i < OTHERS; i++) {
    others[i] = take();
  }
  give(block);
  for (int i = 0; i < OTHERS; i++) {
    give(others[i]);
  }
  return block;
}

static void write_freed_late(void) {
  char *block = freed_among_others();
  store(block + bytes / 2, 8);
  for (int i = 0; i < OTHERS; i++) {
    (void)take();
  }
}

static void read_freed(void) {
  char *block = take();
  memset(block, SECRET, bytes);
  give(block);
  if (*(volatile char *)(block + bytes / 2) == SECRET) {
    _exit(SEEN);
  }
  _exit(0x40); /* the secret was gone */
}

static void read_fresh(void) {
  char *block = take();
  memset(block, SECRET, bytes);
  give(block);
  for (int i = 0; i < OTHERS; i++) {
    if (*(volatile char *)(take() + bytes / 2) == SECRET) {
      _exit(SEEN);
    }
  }
  _exit(0x40);
}

static void write_through_stale(void) {
  char *block = take();
  give(block);
  char *next = take();
  memset(next, 1, bytes);
  store(block + bytes / 2, 8);
  for (size_t i = 0; i < bytes; i++) {
    if (next[i] != 1) {
      _exit(SEEN);
    }
  }
  give(next);
  go_on();
}

static void twice(void) {
  char *block = take();
  give(block);
  give(block);
  go_on();
}

static void twice_aba(void) {
  char *a = take(), *b = take();
  give(a);
  give(b);
  give(a);
  go_on();
}

static void twice_late(void) {
  char *block = freed_among_others();
  give(block);
  go_on();
}

/* Between the two frees the block gets another owner, who loses it by the second one. */
static void twice_reused(void) {
  char *block = take();
  give(block);
  char *next = take();
  give(block);
  memset(next, 1, bytes);
  go_on();
  for (size_t i = 0; i < bytes; i++) {
    if (next[i] != 1) {
      _exit(SEEN);
    }
  }
}

static void free_inside(void) {
  give(take() + 16);
  go_on();
}

static void free_middle(void) {
  give(take() + ((bytes / 2 + 15) & ~(size_t)15));
  go_on();
}

static void free_unaligned(void) {
  give(take() + 1);
  go_on();
}

static void free_stack(void) {
  char local[256] __attribute__((aligned(16)));
  memset(local, 0x20, sizeof local);
  give(local + 64);
  go_on();
}

static void free_global(void) {
  memset(global, 0x20, sizeof global);
  give(global + 64);
  go_on();
}

static void free_wild(void) {
  give((void *)0x414141414140);
  go_on();
}

static void realloc_freed(void) {
  char *block = take();
  give(block);
  hidden(realloc(hidden(block), 2 * bytes));
  go_on();
}

static void usable_freed(void) {
  char *block = take();
  give(block);
  if (malloc_usable_size(hidden(block)) > 0) {
    go_on();
  }
}

/* Frees a C++ object by a sized delete that names a smaller or a larger size than it has. */
static void wrong_size(size_t named) {
  void *(*make)(size_t) = NULL;
  void (*drop)(void *, size_t) = NULL;
  *(void **)&make = dlsym(RTLD_DEFAULT, "_Znwm");
  *(void **)&drop = dlsym(RTLD_DEFAULT, "_ZdlPvm");
  if (!make || !drop) {
    _exit(2);
  }
  drop(hidden(make(bytes)), named);
  go_on();
}
static void size_smaller(void) {
  wrong_size(bytes / 2);
}
static void size_larger(void) {
  wrong_size(2 * bytes);
}
static void size_near(void) {
  wrong_size(bytes - 1);
}

static const struct {
  const char *name;
  void (*commit)(void);
} crimes[] = {
#define CRIME(name) {#name, name},
    CRIME(over_1) CRIME(over_8) CRIME(over_32) CRIME(over_1_copy) CRIME(over_8_copy) CRIME(over_32_copy)
        CRIME(over_null) CRIME(over_neighbour) CRIME(over_mega) CRIME(kept_overflow) CRIME(under_1) CRIME(under_8)
            CRIME(under_32) CRIME(under_1_copy) CRIME(under_8_copy) CRIME(under_32_copy) CRIME(under_mega)
                CRIME(write_freed) CRIME(write_freed_first) CRIME(write_freed_late) CRIME(write_through_stale)
                    CRIME(read_freed) CRIME(read_fresh) CRIME(twice) CRIME(twice_aba) CRIME(twice_late)
                        CRIME(twice_reused) CRIME(free_inside) CRIME(free_middle) CRIME(free_unaligned)
                            CRIME(free_stack) CRIME(free_global) CRIME(free_wild) CRIME(realloc_freed)
                                CRIME(usable_freed) CRIME(size_smaller) CRIME(size_larger) CRIME(size_near)};

int main(int count, char **words) {
  bytes = count == 3 ? strtoul(words[2], NULL, 10) : 0;
  for (size_t i = 0; i < sizeof crimes / sizeof *crimes; i++) {
    if (count < 3) {
      puts(crimes[i].name);
    } else if (strcmp(words[1], crimes[i].name) == 0) {
      crimes[i].commit();
      (void)!write(STDOUT_FILENO, "harm\n", 5);
      return 0;
    }
  }
  return count < 3 ? 0 : 2;
}
