/* mlockall(MCL_FUTURE) under the usual limit of 8 MiB: every mapping counts in full. 4 MiB of blocks can be allocated,
 * as with the C library's malloc. */
#include <linux/capability.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trap.h"

enum { LIMIT_BYTES = 8 << 20, BLOCKS_MAX = 40000 };
#define TOTAL_BYTES ((size_t)4 << 20)

/* The limit does not apply to a process with the privilege to lock memory. */
static void drop_privilege(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}};
  CHECK(syscall(SYS_capget, &header, data) == 0);
  data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~(uint32_t)CAP_TO_MASK(CAP_IPC_LOCK);
  CHECK(syscall(SYS_capset, &header, data) == 0);
}

static size_t size_of(size_t i) {
  static const size_t sizes[] = {16, 40, 100, 250, 600, 1500, 4000, 100, 30, 8000};
  return sizes[i % (sizeof sizes / sizeof *sizes)];
}

static char *blocks[BLOCKS_MAX];

static void fill_and_clear(void) {
  size_t count = 0;
  for (size_t total = 0; total < TOTAL_BYTES; count++) {
    size_t bytes = size_of(count);
    CHECK(count < BLOCKS_MAX);
    blocks[count] = hak_malloc(bytes);
    CHECK(blocks[count] != NULL);
    memset(blocks[count], (int)count, bytes);
    total += bytes;
  }
  for (size_t i = 0; i < count; i++) {
    CHECK(blocks[i][0] == (char)i && blocks[i][size_of(i) - 1] == (char)i);
    hak_free(blocks[i]);
  }
}

int main(void) {
  trap_watchdog(60);
  drop_privilege();
  CHECK(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){LIMIT_BYTES, LIMIT_BYTES}) == 0);
  if (mlockall(MCL_FUTURE) != 0) {
    trap_skip("mlockall is refused");
  }
  void *first = hak_malloc(1);
  CHECK(first != NULL);
  fill_and_clear();
  void *large = hak_malloc(600 << 10);
  CHECK(large != NULL);
  hak_free(large);
  fill_and_clear();
  hak_free(first);
  return 0;
}
