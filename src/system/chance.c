/* Random numbers: a counter, mixed twice with keys. mapped.c, framed.c and gap.c call it. */
#include "chance.h"

#include "os.h"

static uint64_t keys[2];
static _Atomic uint64_t drawn;

void hak_chance_renew(void) {
  keys[0] = hak_os_random() | 1;
  keys[1] = hak_os_random() | 1;
}

static uint64_t fold(uint64_t number, uint64_t key) {
  unsigned __int128 product = (unsigned __int128)number * key;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint32_t hak_chance(uint32_t limit) {
  uint64_t number = atomic_fetch_add_explicit(&drawn, 1, memory_order_relaxed);
  uint64_t mixed = fold(fold(number ^ keys[0], keys[1]) ^ keys[1], keys[0]);
  return (uint32_t)((mixed >> 32) * limit >> 32);
}
