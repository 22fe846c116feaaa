/* The calls to the operating system: their effects, and their results if they are refused. */
#include "system/os.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "pattern.h"
#include "system.h"

static size_t page;

static void page_size_is_known(void) {
  CHECK(hak_os_page_bytes() == (size_t)sysconf(_SC_PAGESIZE));
  CHECK(hak_os_page_bytes() == (size_t)sysconf(_SC_PAGESIZE));
}

static void page_size_is_guessed(void) {
  system_set_auxiliary(AT_PAGESZ, 0);
  CHECK(hak_os_page_bytes() == 4096);
}

static void memory_can_be_mapped_and_dropped(void) {
  char *pages = hak_os_map(NULL, 4 * page);
  CHECK(pages != NULL && all_zero(pages, 4 * page));
  memset(pages, 1, 4 * page);
  CHECK(hak_os_discard(pages + page, page));
  CHECK(pages[0] == 1 && all_zero(pages + page, page) && pages[2 * page] == 1);
  CHECK(hak_os_unmap(pages, 4 * page));
}

static void tables_can_be_made_writable(void) {
  for (uint32_t refused = 0; refused < 2; refused++) { /* a limit on data refuses mprotect, but not mmap */
    char *tables = hak_os_map_readonly(4 * page);
    CHECK(tables != NULL && all_zero(tables, 4 * page));
    system_refuse(SYSTEM_MPROTECT, 0, refused);
    CHECK(hak_os_make_writable(tables + page, 2 * page));
    CHECK(all_zero(tables, 4 * page));
    tables[page] = tables[3 * page - 1] = 1;
    CHECK(hak_os_unmap(tables, 4 * page));
  }
}

/* They may fail where the kernel has no huge pages; they change no contents. */
static void huge_pages_change_nothing(void) {
  char *pages = hak_os_map(NULL, 2 * page);
  CHECK(pages != NULL);
  pattern_fill(pages, 2 * page, 5);
  (void)hak_os_set_huge(pages, 2 * page, true);
  (void)hak_os_set_huge(pages, 2 * page, false);
  CHECK(pattern_holds(pages, 2 * page, 2 * page, 5));
  CHECK(hak_os_unmap(pages, 2 * page));
}

static void a_range_is_lengthened_where_it_is_or_elsewhere(void) {
  char *wide = hak_os_map(NULL, 4 * page);
  CHECK(wide != NULL && hak_os_unmap(wide + 2 * page, page)); /* room for one page */
  pattern_fill(wide, 2 * page, 7);
  CHECK(hak_os_lengthen(wide, 2 * page, 3 * page, false) == wide);
  CHECK(hak_os_lengthen(wide, 3 * page, 4 * page, false) == NULL);
  char *moved = hak_os_lengthen(wide, 3 * page, 6 * page, true);
  unsigned char resident;
  CHECK(moved != NULL && moved != wide && !hak_os_residency(wide, page, &resident));
  CHECK(pattern_holds(moved, 2 * page, 2 * page, 7) && all_zero(moved + 2 * page, 4 * page));
  CHECK(hak_os_unmap(moved, 6 * page) && hak_os_unmap(wide + 3 * page, page));
}

/* No part of several mappings is moved. */
static void several_mappings_stay(void) {
  char *pages = hak_os_map(NULL, 4 * page);
  CHECK(pages != NULL && mprotect(pages + page, page, PROT_READ) == 0);
  pattern_fill(pages, page, 9);
  CHECK(hak_os_lengthen(pages, 3 * page, 6 * page, true) == NULL && pattern_holds(pages, page, page, 9));
  CHECK(hak_os_unmap(pages, 4 * page));
}

static char *free_place(size_t bytes) {
  char *place = hak_os_map(NULL, bytes);
  CHECK(place != NULL && hak_os_unmap(place, bytes));
  return place;
}

static void a_place_is_mapped_only_if_it_is_free(void) {
  char *place = free_place(2 * page);
  CHECK(hak_os_map_at(place, page) == HAK_OS_MAPPED);
  place[0] = 1;
  CHECK(hak_os_map_at(place, 2 * page) == HAK_OS_OCCUPIED);
  CHECK(place[0] == 1);
  system_refuse(SYSTEM_MMAP, 0, 1);
  CHECK(hak_os_map_at(place + page, page) == HAK_OS_NO_MEMORY);
  CHECK(hak_os_unmap(place, page));
}

static void an_old_kernel_replaces_nothing_either(void) {
  hak_os_counts_t before, after;
  char *place = free_place(2 * page);
  system_forget_noreplace();
  CHECK(hak_os_map_at(place, page) == HAK_OS_MAPPED);
  place[0] = 1;
  hak_os_read_counts(&before);
  CHECK(hak_os_map_at(place, 2 * page) == HAK_OS_OCCUPIED);
  hak_os_read_counts(&after);
  CHECK(after.munmap == before.munmap + 1); /* a mapping at another address was given back */
  CHECK(place[0] == 1);
}

static void a_hint_is_followed_where_nothing_is(void) {
  char *place = free_place(4 * page);
  CHECK(hak_os_map(place, page) == place);
  place[0] = 1;
  char *other = hak_os_map(place, 2 * page);
  CHECK(other != NULL && other != place && place[0] == 1 && all_zero(other, 2 * page));
}

static uint64_t unmaps(void) {
  hak_os_counts_t counts;
  hak_os_read_counts(&counts);
  return counts.munmap;
}

/* Nothing stays mapped beside an aligned range. */
static void memory_can_be_mapped_aligned(void) {
  for (size_t align = page; align <= (size_t)1 << 30; align *= 8) {
    for (size_t bytes = page; bytes <= 4 * align && bytes <= (size_t)64 << 20; bytes *= 4) {
      hak_os_counts_t before, after;
      hak_os_read_counts(&before);
      char *pages = hak_os_map_aligned(NULL, bytes, align);
      hak_os_read_counts(&after);
      CHECK(pages != NULL && (uintptr_t)pages % align == 0);
      CHECK(after.mmap - before.mmap == 1 + after.munmap - before.munmap);
      pages[0] = pages[bytes - 1] = 1;
    }
  }
}

static void an_aligned_hint_takes_one_call(void) {
  const size_t align = (size_t)2 << 20;
  char *place = hak_os_map_aligned(NULL, 2 * align, align);
  CHECK(place != NULL && hak_os_unmap(place, 2 * align));
  uint64_t before = unmaps();
  CHECK(hak_os_map_aligned(place, align, align) == place && unmaps() == before);
  char *other = hak_os_map_aligned(place, align, align); /* is taken */
  CHECK(other != NULL && other != place && (uintptr_t)other % align == 0);
}

static size_t space_kib(void) {
  size_t pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%zu", &pages) == 1);
  fclose(file);
  return pages * page / 1024;
}

/* If the kernel ignores hints, a larger range is mapped, and only the aligned part of it stays. */
static void hints_may_be_ignored(void) {
  const size_t align = (size_t)1 << 20;
  system_ignore_hints();
  size_t before = space_kib();
  for (size_t i = 1; i <= 40; i++) {
    char *pages = hak_os_map_aligned(NULL, 3 * page, align);
    CHECK(pages != NULL && (uintptr_t)pages % align == 0 && space_kib() == before + i * 3 * page / 1024);
    pages[0] = pages[3 * page - 1] = 1;
  }
}

/* Whichever call fails, the result is NULL or aligned memory, and nothing else stays mapped. */
static void without_memory_nothing_is_mapped(void) {
  const size_t align = (size_t)256 << 20;
  uint32_t failures = 0;
  for (uint32_t call = 0; call < 3; call++) {
    hak_os_counts_t before, after;
    hak_os_read_counts(&before);
    system_refuse(SYSTEM_MMAP, call, 1);
    char *pages = hak_os_map_aligned(NULL, page, align);
    system_allow();
    hak_os_read_counts(&after);
    CHECK((uintptr_t)pages % align == 0);
    uint64_t stay = (after.mmap - before.mmap) - (after.failed - before.failed) - (after.munmap - before.munmap);
    CHECK(stay == (pages != NULL));
    failures += pages == NULL;
  }
  CHECK(failures >= 1);
  CHECK(hak_os_map_aligned(NULL, (size_t)1 << 62, page) == NULL);
  CHECK(hak_os_map_aligned(NULL, page, (size_t)1 << 62) == NULL);
}

static void refusals_are_reported_and_counted(void) {
  hak_os_counts_t before, after;
  char *pages = hak_os_map(NULL, 2 * page);
  CHECK(pages != NULL);
  pages[0] = 1;
  for (SystemCall call = SYSTEM_MMAP; call <= SYSTEM_MREMAP; call++) {
    system_refuse(call, 0, SYSTEM_ALL);
  }
  hak_os_read_counts(&before);
  CHECK(hak_os_map(NULL, page) == NULL && hak_os_map_aligned(NULL, page, page) == NULL);
  CHECK(!hak_os_unmap(pages, page) && !hak_os_discard(pages, page) && !hak_os_set_huge(pages, page, true));
  CHECK(hak_os_map_readonly(page) == NULL && !hak_os_make_writable(pages, page));
  CHECK(!hak_os_set_huge(pages, page, false) && hak_os_lengthen(pages, page, 2 * page, true) == NULL);
  hak_os_read_counts(&after);
  CHECK(after.mmap == before.mmap + 4 && after.mprotect == before.mprotect + 1 && after.munmap == before.munmap + 1 &&
        after.madvise == before.madvise + 3);
  CHECK(after.mremap == before.mremap + 1);
  CHECK(after.failed == before.failed + 10 && after.bytes_mapped_total == before.bytes_mapped_total);
  system_allow();
  CHECK(pages[0] == 1);
  CHECK(hak_os_unmap(pages, 2 * page));
}

static void the_clock_is_monotonic(void) {
  uint64_t before = hak_os_now_ms();
  CHECK(before > 0 && hak_os_now_ms() >= before);
  system_set_clock_ms(123456789);
  CHECK(hak_os_now_ms() == 123456789);
  system_refuse(SYSTEM_CLOCK_GETTIME, 0, 1);
  CHECK(hak_os_now_ms() == 0);
}

static void nanoseconds_are_finer(void) {
  uint64_t before = hak_os_now_ns();
  CHECK(before > 0 && hak_os_now_ns() >= before);
  system_set_clock_ms(123456789);
  CHECK(hak_os_now_ns() == 123456789000000);
  system_refuse(SYSTEM_CLOCK_GETTIME, 0, 1);
  CHECK(hak_os_now_ns() == 0);
}

static void random_bits_differ(void) {
  enum { DRAWS = 200 };
  uint64_t draws[DRAWS], ones = 0, zeros = 0;
  for (int i = 0; i < DRAWS; i++) {
    draws[i] = hak_os_random();
    ones |= draws[i];
    zeros |= ~draws[i];
    for (int j = 0; j < i; j++) {
      CHECK(draws[i] != draws[j]);
    }
  }
  CHECK(ones == UINT64_MAX && zeros == UINT64_MAX);
}

/* Without getrandom, the numbers differ even at the same time and place. AT_RANDOM, the seed of libc's guards, is not
 * used. */
static void without_the_kernels_they_differ_too(void) {
  static const unsigned char seed[16] = "another seed ..";
  system_refuse(SYSTEM_GETRANDOM, 0, SYSTEM_ALL);
  random_bits_differ();
  system_set_clock_ms(1);
  random_bits_differ();
  system_set_auxiliary(AT_RANDOM, (unsigned long)(uintptr_t)seed);
  uint64_t before = hak_os_random();
  system_set_auxiliary(AT_RANDOM, 0);
  CHECK(hak_os_random() != before);
}

static _Atomic uint32_t word;
static _Atomic bool woken;

static void *sleep_on_word(void *unused) {
  (void)unused;
  while (word == 1) {
    hak_os_wait(&word, 1, HAK_OS_WAIT_MS);
  }
  woken = true;
  return NULL;
}

static void a_sleeper_is_woken(void) {
  pthread_t thread;
  word = 2;
  hak_os_wait(&word, 1, HAK_OS_WAIT_MS); /* the word has another value, so there is no sleep */
  hak_os_wake(&word);
  word = 1;
  CHECK(pthread_create(&thread, NULL, sleep_on_word, NULL) == 0);
  for (int i = 0; i < 100; i++) {
    hak_os_yield();
  }
  CHECK(!woken);
  word = 0;
  hak_os_wake(&word);
  CHECK(pthread_join(thread, NULL) == 0 && woken);
}

static void rights_are_asked_for(void) {
  system_set_auxiliary(AT_SECURE, 0);
  CHECK(!hak_os_secure_mode());
  system_set_auxiliary(AT_SECURE, 1);
  CHECK(hak_os_secure_mode());
}

int main(void) {
  child_succeeds(page_size_is_known);
  child_succeeds(page_size_is_guessed);
  page = hak_os_page_bytes();
  child_succeeds(memory_can_be_mapped_and_dropped);
  child_succeeds(tables_can_be_made_writable);
  child_succeeds(huge_pages_change_nothing);
  child_succeeds(a_range_is_lengthened_where_it_is_or_elsewhere);
  child_succeeds(several_mappings_stay);
  child_succeeds(a_place_is_mapped_only_if_it_is_free);
  child_succeeds(an_old_kernel_replaces_nothing_either);
  child_succeeds(a_hint_is_followed_where_nothing_is);
  child_succeeds(memory_can_be_mapped_aligned);
  child_succeeds(an_aligned_hint_takes_one_call);
  child_succeeds(hints_may_be_ignored);
  child_succeeds(without_memory_nothing_is_mapped);
  child_succeeds(refusals_are_reported_and_counted);
  child_succeeds(the_clock_is_monotonic);
  child_succeeds(nanoseconds_are_finer);
  child_succeeds(random_bits_differ);
  child_succeeds(without_the_kernels_they_differ_too);
  child_succeeds(a_sleeper_is_woken);
  child_succeeds(rights_are_asked_for);
  return 0;
}
