/* The arrays of a thread's bins: they grow with the bins, as far as memory and their greatest size allow. */
#include "child.h"
#include "pages/arena.h"
#include "setting.h"
#include "system.h"
#include "system/meta.h"
#include "threads/cache.h"
#include "two_bins.h"

enum { BYTES = 1024 };

/* Also uses up the unused magazines. */
static void use_up_memory(void) {
  hak_magazine_t magazine;
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  for (uint32_t size = 1; size <= HAK_MAGAZINE_MAX; size *= 2) {
    while (hak_magazine_make(&magazine, size)) {
    }
  }
}

/* A magazine grows with its bin, and no block is lost. */
static void a_bin_grows(void) {
  enum { MANY = 6000 };
  const uint32_t cls = hak_class_of(BYTES);
  set_variable("HAKMEM_CACHE_C5=100000");
  open_both();
  for (size_t i = 0; i < MANY; i++) {
    blocks[i] = bins_alloc(&other, BYTES);
  }
  uint32_t sizes = 0, last = 0;
  for (size_t i = 0; i < MANY; i++) {
    bins_free(&mine, blocks[i]);
    uint32_t size = mine.info[cls].magazine.size;
    CHECK(size >= last && size > i && hak_bin_blocks(&mine, cls) == i + 1 && mine.bin[cls].head == blocks[i]);
    sizes += size != last;
    last = size;
  }
  CHECK(sizes > 3 && bins_length(&mine, cls) == MANY && last < 2 * MANY + 16);
  hak_verify_check(&mine);
  for (size_t i = MANY; i-- > 0;) {
    CHECK(bins_alloc(&mine, BYTES) == blocks[i]);
  }
}

/* Without memory for a larger magazine, excess blocks go to the slabs or to the depot, and no request fails. */
static void a_bin_that_cannot_grow_overflows(void) {
  const uint32_t cls = hak_class_of(BYTES);
  set_variable("HAKMEM_CACHE_C5=100000");
  open_both();
  for (size_t i = 0; i < 1000; i++) {
    blocks[i] = bins_alloc(&other, BYTES);
  }
  use_up_memory();
  for (size_t i = 0; i < 1000; i++) {
    bins_free(&mine, blocks[i]);
    hak_verify_check(&mine);
  }
  CHECK(bins_length(&mine, cls) <= mine.info[cls].magazine.size && bins_length(&mine, cls) < 1000);
  for (size_t i = 0; i < 1000; i++) {
    blocks[i] = bins_alloc(&mine, BYTES);
  }
  system_allow();
  for (size_t i = 0; i < 1000; i++) {
    bins_free(&mine, blocks[i]);
  }
  CHECK(bins_length(&mine, cls) >= 1000);
  bins_return(&mine, &other);
  CHECK(hak_retain_used_slices() == 0);
}

/* Without memory for a remote-free buffer, other threads' blocks do not wait in the bin. */
static void a_closed_bin_without_memory_keeps_nothing(void) {
  open_both();
  for (size_t i = 0; i < 500; i++) {
    blocks[i] = bins_alloc(&other, 32);
  }
  use_up_memory();
  for (size_t i = 0; i < 500; i++) {
    bins_free(&mine, blocks[i]);
  }
  CHECK(mine.info[hak_class_of(32)].remote_count == 0 && bins_length(&mine, hak_class_of(32)) <= 500);
  hak_verify_check(&mine);
  system_allow();
  bins_return(&mine, &other);
  CHECK(hak_retain_used_slices() == 0);
}

/* A bin ends at the greatest magazine, however large its capacity is. */
static void a_bin_ends_where_magazines_end(void) {
  enum { MORE = HAK_MAGAZINE_MAX + 1000, BYTES_EACH = 16 };
  static void *many[MORE];
  const uint32_t cls = hak_class_of(BYTES_EACH);
  set_variable("HAKMEM_CACHE_C0=1048576");
  open_both();
  CHECK(bins_capacity(&mine, cls) > MORE);
  for (size_t i = 0; i < MORE; i++) {
    many[i] = bins_alloc(&mine, BYTES_EACH);
  }
  bins_drain(&mine, cls);
  for (size_t i = 0; i < MORE; i++) {
    bins_free(&mine, many[i]);
    CHECK(hak_bin_blocks(&mine, cls) <= HAK_MAGAZINE_MAX);
  }
  CHECK(hak_bin_blocks(&mine, cls) > HAK_MAGAZINE_MAX / 4);
  hak_verify_check(&mine);
  hak_cache_close(&mine, "test");
  CHECK(mine.info[cls].magazine.size == 0);
}

int main(void) {
  system_set_clock_ms(1000000); /* no bin becomes idle on a slow machine */
  child_succeeds(a_bin_grows);
  child_succeeds(a_bin_that_cannot_grow_overflows);
  child_succeeds(a_closed_bin_without_memory_keeps_nothing);
  child_succeeds(a_bin_ends_where_magazines_end);
  return 0;
}
