/* The profile leaves mappings to the program: mappings blocks|small|large|mixed [old]
 * With `old`, the kernel has no advice that takes access away without a mapping, as before Linux 6.13. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

enum {
  GUARD_INSTALL = 102,
  PAGE = 4096,
  BLOCKS = 50000,
  BLOCK_BYTES = 48 << 10,
  SMALL_BYTES = 31000,    /* one in a slab of 64 KiB, beside its fence */
  SMALL_BLOCKS = 1 << 17, /* 8 GiB of addresses */
  LARGE_BYTES = 600000,
  LARGE_BLOCKS = 20000,
};

static char *blocks[SMALL_BLOCKS];

/* Start the program anew, under a filter that answers as an older kernel does. */
static void become_old(char **words) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, GUARD_INSTALL, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
  CHECK(syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
  CHECK(execv("/proc/self/exe", words) == 0);
}

static size_t lines_of(const char *name) {
  char text[1 << 16];
  size_t lines = 0;
  FILE *file = fopen(name, "r");
  CHECK(file != NULL);
  for (size_t n; (n = fread(text, 1, sizeof text, file)) > 0;) {
    for (size_t i = 0; i < n; i++) {
      lines += text[i] == '\n';
    }
  }
  fclose(file);
  return lines;
}

static size_t limit(void) {
  char text[32] = "";
  FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
  CHECK(file != NULL && fgets(text, sizeof text, file) != NULL);
  fclose(file);
  return strtoul(text, NULL, 10);
}

static void allocate(size_t count, size_t bytes) {
  for (size_t i = 0; i < count; i++) {
    CHECK((blocks[i] = malloc(bytes)) != NULL);
    blocks[i][0] = (char)i;
  }
}

static void check_and_free(size_t count, size_t step) {
  for (size_t i = 0; i < count; i += step) {
    if (blocks[i]) {
      CHECK(blocks[i][0] == (char)i);
      free(blocks[i]);
      blocks[i] = NULL;
    }
  }
}

/* Half of its mappings are the program's. */
static void expect_room(const char *when) {
  size_t used = lines_of("/proc/self/maps"), most = limit();
  printf("%s: %zu of %zu mappings\n", when, used, most);
  CHECK(used <= most / 2);
}

static bool dies_at(const char *address) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  bool faults = write(ends[1], address, 1) < 0;
  CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
  return faults;
}

static void try_blocks(size_t count, size_t bytes) {
  allocate(count, bytes);
  expect_room("all live");
  check_and_free(count, 2); /* leaves holes */
  expect_room("every second one live");
  check_and_free(count, 1);
}

/* Blocks of many sizes, and one of each that is overrun. */
static void try_mixed(bool old) {
  size_t guarded = 0, count = 0;
  for (size_t bytes = 41 << 10; bytes <= 256 << 10; bytes += 1024, count++) {
    char *block = malloc(bytes);
    CHECK(block != NULL);
    memset(block, 1, bytes);
    guarded += dies_at(block + bytes + PAGE / 2);
    blocks[count] = block;
  }
  printf("%zu of %zu blocks end at a page without access\n", guarded, count);
  CHECK(old ? guarded > 0 && guarded < count : guarded == count);
  for (size_t i = 0; i < count; i++) {
    free(blocks[i]);
  }
}

static bool has_advice(void) {
  char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  return syscall(SYS_madvise, page, PAGE, GUARD_INSTALL) == 0;
}

int main(int count, char **words) {
  CHECK(count >= 2);
  bool old = count > 2;
  if (old && has_advice()) {
    become_old(words);
  }
  if (strcmp(words[1], "blocks") == 0) {
    try_blocks(BLOCKS, BLOCK_BYTES);
  } else if (strcmp(words[1], "small") == 0) {
    try_blocks(SMALL_BLOCKS, SMALL_BYTES);
  } else if (strcmp(words[1], "large") == 0) {
    try_blocks(LARGE_BLOCKS, LARGE_BYTES);
  } else {
    try_mixed(old || !has_advice());
  }
  return 0;
}
