/* The calls to the operating system: what they do, and what they say when they are refused. */
#include "os.h"

#include <errno.h>
#include <fcntl.h>
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
  char *pages = hak_os_map(4 * page);
  CHECK(pages != NULL && all_zero(pages, 4 * page));
  memset(pages, 1, 4 * page);
  CHECK(hak_os_discard(pages + page, page));
  CHECK(pages[0] == 1 && all_zero(pages + page, page) && pages[2 * page] == 1);
  CHECK(hak_os_unmap(pages, 4 * page));
  char *tables = hak_os_map_readonly(4 * page);
  CHECK(tables != NULL && all_zero(tables, 4 * page));
  CHECK(hak_os_make_writable(tables + page, page));
  tables[page] = 1;
  CHECK(hak_os_unmap(tables, 4 * page));
}

/* hak_os_prefer_huge may fail where the kernel has no huge pages; it changes no contents. */
static void huge_pages_change_nothing(void) {
  char *pages = hak_os_map(2 * page);
  CHECK(pages != NULL);
  pattern_fill(pages, 2 * page, 5);
  (void)hak_os_prefer_huge(pages, 2 * page);
  CHECK(pattern_holds(pages, 2 * page, 2 * page, 5));
  CHECK(hak_os_unmap(pages, 2 * page));
}

static void pages_can_move(void) {
  char *from = hak_os_map(4 * page), *to = hak_os_map(4 * page);
  CHECK(from != NULL && to != NULL);
  pattern_fill(from, 4 * page, 7);
  if (hak_os_move(from, to, 4 * page) == HAK_OS_MOVED) { /* Linux 5.7 */
    CHECK(pattern_holds(to, 4 * page, 4 * page, 7));
    CHECK(all_zero(from, 4 * page));
  } else {
    CHECK(pattern_holds(from, 4 * page, 4 * page, 7));
  }
  CHECK(hak_os_unmap(from, 4 * page) && hak_os_unmap(to, 4 * page));
}

static char *free_place(size_t bytes) {
  char *place = hak_os_map(bytes);
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
  CHECK(after.munmap == before.munmap + 1); /* what came elsewhere was given back */
  CHECK(place[0] == 1);
}

static void a_probe_leaves_nothing(void) {
  char *place = hak_os_probe();
  CHECK(place != NULL && (uintptr_t)place % page == 0);
  CHECK(msync(place, page, MS_ASYNC) == -1 && errno == ENOMEM);
  system_refuse(SYSTEM_MMAP, 0, 1);
  CHECK(hak_os_probe() == NULL);
}

static void refusals_are_reported_and_counted(void) {
  hak_os_counts_t before, after;
  char *pages = hak_os_map(2 * page);
  CHECK(pages != NULL);
  CHECK(hak_os_move(pages + page, pages, page) == HAK_OS_MOVED); /* the first one tries out whether moving works */
  pages[0] = 1;
  for (SystemCall call = SYSTEM_MMAP; call <= SYSTEM_MREMAP; call++) {
    system_refuse(call, 0, SYSTEM_ALL);
  }
  hak_os_read_counts(&before);
  CHECK(hak_os_map(page) == NULL && hak_os_map_readonly(page) == NULL);
  CHECK(!hak_os_unmap(pages, page) && !hak_os_discard(pages, page) && !hak_os_prefer_huge(pages, page));
  CHECK(!hak_os_make_writable(pages, page) && hak_os_move(pages, pages + page, page) == HAK_OS_TARGET_LOST);
  hak_os_read_counts(&after);
  CHECK(after.mmap == before.mmap + 3 && after.munmap == before.munmap + 1 && after.madvise == before.madvise + 2);
  CHECK(after.mprotect == before.mprotect + 1 && after.mremap == before.mremap + 1);
  CHECK(after.failed == before.failed + 8 && after.bytes_mapped_total == before.bytes_mapped_total);
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

static void the_limit_is_read(void) {
  system_set_address_space_limit(UINT64_MAX);
  CHECK(hak_os_address_space_limit() == SIZE_MAX);
  system_set_address_space_limit(1 << 30);
  CHECK(hak_os_address_space_limit() == (size_t)1 << 30);
  system_refuse(SYSTEM_GETRLIMIT, 0, 1);
  CHECK(hak_os_address_space_limit() == SIZE_MAX);
}

static void random_bits_differ_by_seed_and_time(void) {
  static const unsigned char seed[16] = "another seed ...";
  system_set_clock_ms(1);
  uint64_t first = hak_os_random();
  system_set_clock_ms(2);
  uint64_t second = hak_os_random();
  system_set_auxiliary(AT_RANDOM, (unsigned long)(uintptr_t)seed);
  uint64_t third = hak_os_random();
  system_set_auxiliary(AT_RANDOM, 0);
  uint64_t fourth = hak_os_random();
  CHECK(first != second && second != third && third != fourth && second != fourth);
}

static void rights_are_asked_for(void) {
  system_set_auxiliary(AT_SECURE, 0);
  CHECK(!hak_os_secure_mode());
  system_set_auxiliary(AT_SECURE, 1);
  CHECK(hak_os_secure_mode());
}

static void write_three_lines(void) {
  static const char first[] = "first\n", second[] = "second\n", third[] = "third\n";
  errno = EDOM;
  system_refuse(SYSTEM_WRITE, 0, 3); /* interrupted, and begun again */
  hak_os_write_error(first, sizeof first - 1);
  hak_os_keep_stderr();
  CHECK(close(STDERR_FILENO) == 0);
  hak_os_write_error(second, sizeof second - 1);
  int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  CHECK(full == STDERR_FILENO);
  hak_os_write_error(third, sizeof third - 1);
  CHECK(errno == EDOM);
}

static void write_to_nobody(void) {
  errno = EDOM;
  CHECK(close(STDERR_FILENO) == 0);
  errno = EDOM;
  hak_os_write_error("lost", 4);
  hak_os_keep_stderr();
  hak_os_write_error("lost", 4);
  CHECK(errno == EDOM);
}

static void errors_are_written(void) {
  ChildResult result;
  child_run(write_three_lines, &result);
  CHECK(result.status == 0 && strcmp(result.errors, "first\nsecond\nthird\n") == 0);
  child_succeeds(write_to_nobody);
}

int main(void) {
  child_succeeds(page_size_is_known);
  child_succeeds(page_size_is_guessed);
  page = hak_os_page_bytes();
  child_succeeds(memory_can_be_mapped_and_dropped);
  child_succeeds(huge_pages_change_nothing);
  child_succeeds(pages_can_move);
  child_succeeds(a_place_is_mapped_only_if_it_is_free);
  child_succeeds(an_old_kernel_replaces_nothing_either);
  child_succeeds(a_probe_leaves_nothing);
  child_succeeds(refusals_are_reported_and_counted);
  child_succeeds(the_clock_is_monotonic);
  child_succeeds(the_limit_is_read);
  child_succeeds(random_bits_differ_by_seed_and_time);
  child_succeeds(rights_are_asked_for);
  errors_are_written();
  return 0;
}
