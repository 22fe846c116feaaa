/* The window: where it lies, its tables, mapping and unmapping of slots. */
#include "window.h"

#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "child.h"
#include "os.h"
#include "pattern.h"
#include "system.h"

static char *slot_address(size_t slot) {
  return hak_window_address(slot * HAK_SLOT_UNITS);
}

static void create(void) {
  CHECK(hak_window.units == 0);
  CHECK(hak_class_at("before the window") == HAK_CLASS_NONE);
  CHECK(hak_window_create());
  CHECK(hak_window.base % HAK_SLOT_BYTES == 0 && hak_window.base != 0);
  CHECK(hak_window.units % HAK_SLOT_UNITS == 0 && hak_window_slots() > 0);
}

static void it_is_made_and_empty(void) {
  create();
  CHECK(hak_window.slots_ready == 0 && hak_window.slots_used == 0);
  CHECK(hak_class_at(slot_address(0)) == HAK_CLASS_NONE);
  CHECK(hak_class_at(hak_window_address(hak_window.units - 1)) == HAK_CLASS_NONE);
  CHECK(hak_class_at(hak_window_address(hak_window.units)) == HAK_CLASS_NONE);
  CHECK(hak_class_at("outside") == HAK_CLASS_NONE && hak_class_at(NULL) == HAK_CLASS_NONE);
  CHECK(hak_unit_of(slot_address(1) + HAK_UNIT_BYTES) == HAK_SLOT_UNITS + 1);
}

static void it_can_be_tried_again(void) {
  for (uint32_t call = 0; call < 3; call++) { /* the probe, the class map, the slot table */
    hak_os_counts_t before, after;
    hak_os_read_counts(&before);
    system_refuse(SYSTEM_MMAP, call, 1);
    CHECK(!hak_window_create());
    CHECK(hak_window.units == 0 && !hak_window.classes && !hak_window.slots);
    hak_os_read_counts(&after);
    CHECK(after.mmap - before.mmap == 1 + after.munmap - before.munmap);
    system_allow();
  }
  create();
}

static uint64_t address_space_limit;

static void under_a_limit_it_is_smaller(void) {
  system_set_address_space_limit(address_space_limit);
  create();
  size_t bytes = hak_window.units << HAK_UNIT_SHIFT;
  CHECK(bytes >= address_space_limit && bytes <= 64 * address_space_limit);
  bool occupied;
  CHECK(hak_window_map(0, 1, false, &occupied));
}

static void a_slot_is_mapped_and_unmapped(void) {
  bool occupied;
  create();
  CHECK(hak_window_map(3, 1, false, &occupied) && !occupied);
  CHECK(hak_window.slots[3].state == HAK_SLOT_MAPPED && hak_window.slots[2].state == HAK_SLOT_UNMAPPED);
  CHECK(hak_window.slots_used == 4 && hak_window.slots_ready >= 4);
  hak_slot_t *slot = &hak_window.slots[3];
  CHECK(slot->free == UINT32_MAX && slot->dirty == 0 && slot->aged == 0);
  CHECK(!slot->super && hak_window_describe(3) && slot->super);
  hak_super_t *super = slot->super;
  CHECK(all_zero(slot_address(3), HAK_SLOT_BYTES));
  memset(slot_address(3), 1, HAK_SLOT_BYTES);
  system_refuse(SYSTEM_MUNMAP, 0, 1);
  CHECK(!hak_window_unmap(3) && hak_window.slots[3].state == HAK_SLOT_MAPPED && slot_address(3)[0] == 1);
  CHECK(hak_window_unmap(3) && slot->state == HAK_SLOT_UNMAPPED && slot->free == 0);
  CHECK(hak_window_map(2, 3, false, &occupied));
  CHECK(slot->super == super && slot->free == UINT32_MAX && hak_window_describe(3) && slot->super == super);
  CHECK(all_zero(slot_address(2), (size_t)3 * HAK_SLOT_BYTES));
}

/* What is mapped already keeps its contents. */
static void mapping_fills_the_gaps(void) {
  bool occupied;
  create();
  CHECK(hak_window_map(1, 1, false, &occupied) && hak_window_map(3, 1, false, &occupied));
  slot_address(1)[0] = slot_address(3)[0] = 1;
  CHECK(hak_window_map(0, 5, false, &occupied) && !occupied);
  CHECK(slot_address(1)[0] == 1 && slot_address(3)[0] == 1);
  for (size_t slot = 0; slot < 5; slot++) {
    CHECK(hak_window.slots[slot].state == HAK_SLOT_MAPPED);
  }
}

static void the_last_slot_has_tables_too(void) {
  bool occupied;
  create();
  size_t last = hak_window_slots() - 1;
  CHECK(hak_window_map(last, 1, false, &occupied) && hak_window_describe(last));
  hak_window.classes[hak_window.units - 1] = 1;
  CHECK(hak_class_at(slot_address(last) + HAK_SLOT_BYTES - 1) == 1);
  CHECK(hak_slab_at(hak_window.units - 1) == &hak_window.slots[last].super->slabs[HAK_SLOT_UNITS - 1]);
}

static void huge_pages_are_asked_for(void) {
  bool occupied;
  hak_os_counts_t before, after;
  create();
  hak_os_read_counts(&before);
  CHECK(hak_window_map(0, 1, false, &occupied));
  hak_os_read_counts(&after);
  CHECK(after.madvise == before.madvise);
  CHECK(hak_window_map(1, 2, true, &occupied));
  hak_os_read_counts(&after);
  CHECK(after.madvise == before.madvise + 1);
}

static void a_foreign_slot_is_left_alone(void) {
  bool occupied;
  create();
  char *theirs = slot_address(2) + HAK_UNIT_BYTES;
  CHECK(mmap(theirs, HAK_UNIT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
             0) == theirs);
  pattern_fill(theirs, HAK_UNIT_BYTES, 3);
  /* Mapping goes step by step until the foreign slot is known. */
  int tries = 0;
  while (!hak_window_map(0, 4, false, &occupied) && hak_window.slots[2].state != HAK_SLOT_FOREIGN) {
    CHECK(occupied && ++tries < 4);
  }
  CHECK(hak_window.slots[2].state == HAK_SLOT_FOREIGN && hak_window.slots_used >= 3);
  CHECK(hak_window.slots[0].state == HAK_SLOT_UNMAPPED && hak_window.slots[3].state == HAK_SLOT_UNMAPPED);
  CHECK(pattern_holds(theirs, HAK_UNIT_BYTES, HAK_UNIT_BYTES, 3));
  CHECK(hak_window_map(3, 1, false, &occupied));
}

static void without_memory_nothing_is_mapped(void) {
  bool occupied;
  create();
  system_refuse(SYSTEM_MPROTECT, 0, 1); /* the class map */
  CHECK(!hak_window_map(0, 1, false, &occupied) && !occupied);
  system_refuse(SYSTEM_MPROTECT, 1, 1); /* the slot table */
  CHECK(!hak_window_map(0, 1, false, &occupied) && !occupied);
  system_refuse(SYSTEM_MMAP, 0, 1); /* the slot */
  CHECK(!hak_window_map(0, 1, false, &occupied) && !occupied);
  CHECK(hak_window.slots[0].state == HAK_SLOT_UNMAPPED && hak_window.slots_used == 0);
  system_allow();
  CHECK(hak_window_map(0, 1, false, &occupied));
  system_refuse(SYSTEM_MMAP, 0, 1); /* the descriptors */
  CHECK(!hak_window_describe(0) && !hak_window.slots[0].super);
  system_allow();
  CHECK(hak_window_describe(0));
}

/* Of a range with a mapped slot in it, either both gaps are mapped or none. */
static void a_gap_is_not_left_half_mapped(void) {
  bool occupied;
  create();
  CHECK(hak_window_map(1, 1, false, &occupied));
  system_refuse(SYSTEM_MMAP, 1, 1);
  CHECK(!hak_window_map(0, 3, false, &occupied) && !occupied);
  system_allow();
  CHECK(hak_window.slots[0].state == HAK_SLOT_UNMAPPED && hak_window.slots[2].state == HAK_SLOT_UNMAPPED);
  CHECK(msync(slot_address(0), HAK_UNIT_BYTES, MS_ASYNC) == -1);
  CHECK(hak_window_map(0, 3, false, &occupied));
}

int main(void) {
  child_succeeds(it_is_made_and_empty);
  child_succeeds(it_can_be_tried_again);
  for (address_space_limit = (uint64_t)1 << 28; address_space_limit <= (uint64_t)1 << 34; address_space_limit *= 4) {
    child_succeeds(under_a_limit_it_is_smaller);
  }
  child_succeeds(a_slot_is_mapped_and_unmapped);
  child_succeeds(mapping_fills_the_gaps);
  child_succeeds(the_last_slot_has_tables_too);
  child_succeeds(huge_pages_are_asked_for);
  child_succeeds(a_foreign_slot_is_left_alone);
  child_succeeds(without_memory_nothing_is_mapped);
  child_succeeds(a_gap_is_not_left_half_mapped);
  return 0;
}
