/* The words of a leaked free block reveal nothing about AT_RANDOM, from which the C library makes the stack canary.
 *
 * The XOR of two words of a free block is the key. The program inverts it as if it were a mix of the form
 *   ((bytes 0..7 of AT_RANDOM, first byte on top) ^ nanoseconds << 32 ^ seconds), x ^= x >> 31, x * odd constant
 * plus a small count, and compared with the bytes. argument: "refused" does the same without getrandom */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include <string.h>

#include "trap.h"

enum { SPAN = 8 };
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static void refuse_getrandom(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    trap_skip("no seccomp filters");
  }
}

static uint64_t inverse_of(uint64_t odd) {
  uint64_t x = odd;
  for (int i = 0; i < 6; i++) {
    x *= 2 - odd * x;
  }
  return x;
}

static uint64_t unmix(uint64_t mixed) {
  uint64_t x = mixed * inverse_of(GOLDEN);
  return x ^ x >> 31 ^ x >> 62;
}

/* The nanoseconds do not affect the low half of the seed, so only the second would be unknown. */
static bool gives_away(uint64_t key, uint64_t seed, uint64_t seconds) {
  for (uint64_t top = 0; top < 2; top++) {
    for (uint64_t count = 0; count < SPAN; count++) {
      uint64_t bits = unmix((key ^ top << 63) - count * GOLDEN);
      for (uint64_t ago = 0; ago < SPAN; ago++) {
        if ((uint32_t)(bits ^ (seconds - ago)) == (uint32_t)seed) {
          return true;
        }
      }
    }
  }
  return false;
}

static uint64_t seed_of(const unsigned char *bytes, bool backwards) {
  uint64_t seed = 0;
  for (int i = 0; i < 8; i++) {
    seed = seed << 8 | bytes[backwards ? 7 - i : i];
  }
  return seed;
}

static bool leaks(const uintptr_t words[2]) {
  const unsigned char *bytes = hide_pointer((const void *)getauxval(AT_RANDOM));
  uint64_t keys[] = {words[0] ^ words[1], words[0], words[1]};
  struct timespec now;
  CHECK(bytes != NULL && clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
    for (int half = 0; half < 2; half++) {
      for (int backwards = 0; backwards < 2; backwards++) {
        if (gives_away(keys[k], seed_of(bytes + 8 * half, backwards), (uint64_t)now.tv_sec)) {
          return true;
        }
      }
    }
  }
  return false;
}

int main(int count, char **arguments) {
  trap_watchdog(60);
  if (count > 1 && strcmp(arguments[1], "refused") == 0) {
    refuse_getrandom();
  }
  uintptr_t cached[2], in_slab[2], *blocks[3];
  for (int i = 0; i < 3; i++) {
    blocks[i] = hak_malloc(1000);
    CHECK(blocks[i] != NULL);
  }
  hak_free(blocks[0]);
  hak_free(blocks[1]);
  memcpy(cached, hide_pointer(blocks[1]), sizeof cached); /* the third block keeps the memory mapped */
  HAK(hak_thread_flush)();
  memcpy(in_slab, hide_pointer(blocks[1]), sizeof in_slab);
  cached[1] = in_slab[1] = (uintptr_t)blocks[1];
  CHECK(!leaks(cached));
  CHECK(!leaks(in_slab));
  return 0;
}
