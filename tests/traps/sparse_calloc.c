/* calloc of large blocks of which one page is used. The other pages cost nothing, even if an earlier block wrote to
 * them. */
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "trap.h"

enum { ROUNDS = 16, FAULTS_A_ROUND = 64 };
#define BYTES ((size_t)100 << 20)

static long faults(void) {
  struct rusage now;
  CHECK(getrusage(RUSAGE_SELF, &now) == 0);
  return now.ru_minflt;
}

static bool is_zero(const char *block) {
  return block[0] == 0 && memcmp(block, block + 1, BYTES + 76) == 0;
}

static void a_page_used_is_a_page_paid(void) {
  long before = faults();
  for (int round = 0; round < ROUNDS; round++) {
    char *block = hak_calloc(BYTES, 1);
    CHECK(block != NULL && block[BYTES / 2] == 0 && block[BYTES - 1] == 0);
    block[BYTES / 2] = 1;
    hak_free(block);
  }
  before = faults() - before;
  printf("%ld faults in %d rounds\n", before, ROUNDS);
  CHECK(before <= (long)ROUNDS * FAULTS_A_ROUND);
}

static void what_others_wrote_reads_as_zeros(void) {
  for (int round = 0; round < 3; round++) { /* so that freed memory stays resident */
    char *block = hak_malloc(BYTES + 12345);
    CHECK(block != NULL);
    memset(block, 0xa5, BYTES + 12345);
    hak_free(block);
  }
  char *block = hak_calloc(1, BYTES + 77);
  CHECK(block != NULL && is_zero(block));
  hak_free(block);
}

int main(void) {
  trap_watchdog(60);
  a_page_used_is_a_page_paid();
  what_others_wrote_reads_as_zeros();
  return 0;
}
