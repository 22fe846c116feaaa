/* Mapped code: every row of the kernel's list, the ranges that hold code, and files with their build ids. */
#include "inspect/modules.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "inspect/images.h"
#include "system.h"

enum { MANY = 600 };

static char buffer[HAK_MAPS_BUFFER_BYTES];

typedef struct Count {
  size_t rows, stop_at;
  uintptr_t end;
  bool stack, named;
} Count;

static bool count(const hak_mapping_t *mapping, void *argument) {
  Count *counted = argument;
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  CHECK(mapping->start >= counted->end && mapping->end > mapping->start);
  counted->end = mapping->end;
  counted->rows++;
  counted->stack |= strcmp(mapping->name, "[stack]") == 0 && here >= mapping->start && here < mapping->end;
  counted->named |= mapping->executable && mapping->start <= (uintptr_t)&count && (uintptr_t)&count < mapping->end &&
                    strstr(mapping->name, "unit_modules") != NULL;
  return counted->rows != counted->stop_at;
}

static void every_row_is_visited(void) {
  Count few = {0}, many = {0}, stopped = {.stop_at = 3};
  size_t page = hak_os_page_bytes();
  CHECK(hak_maps_each(count, &few, buffer) && few.stack && few.named);
  char *room = mmap(NULL, 2 * MANY * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(room != MAP_FAILED);
  for (size_t i = 0; i < MANY; i++) {
    CHECK(mprotect(room + 2 * i * page, page, PROT_READ) == 0);
  }
  CHECK(hak_maps_each(count, &many, buffer) && many.rows >= few.rows + 2 * MANY - 2 && many.stack && many.named);
  CHECK(hak_maps_each(count, &stopped, buffer) && stopped.rows == 3);
}

/* The path of a file in so many folders takes more than the buffer. */
static void a_long_row_hides_no_other(void) {
  enum { FOLDERS = 45, NAME = 200 };
  char top[] = "/tmp/hak-modules-XXXXXX", name[NAME + 1] = {0};
  size_t page = hak_os_page_bytes();
  memset(name, 'a', NAME);
  CHECK(mkdtemp(top) && chdir(top) == 0);
  for (int i = 0; i < FOLDERS; i++) {
    CHECK(mkdir(name, S_IRWXU) == 0 && chdir(name) == 0);
  }
  int fd = open("file", O_RDWR | O_CREAT, S_IRUSR | S_IWUSR);
  char *room = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(fd >= 0 && room != MAP_FAILED && ftruncate(fd, (off_t)page) == 0);
  CHECK(mmap(room, page, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == room);
  CHECK(mmap(room + page, page, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == room + page);
  Count counted = {0};
  bool visited = hak_maps_each(count, &counted, buffer), shared = hak_maps_is_shared(room + page, page);
  CHECK(close(fd) == 0 && unlink("file") == 0);
  for (int i = 0; i < FOLDERS; i++) {
    CHECK(chdir("..") == 0 && rmdir(name) == 0);
  }
  CHECK(rmdir(top) == 0 && visited && counted.stack && shared && !hak_maps_is_shared(room, page));
}

static void code_is_told_from_data(void) {
  static int data;
  int local = 0;
  CHECK(hak_modules_look());
  CHECK(hak_modules_is_code((uintptr_t)&code_is_told_from_data) && hak_modules_is_code((uintptr_t)&memcpy));
  CHECK(!hak_modules_is_code((uintptr_t)&data) && !hak_modules_is_code((uintptr_t)&local));
  CHECK(!hak_modules_is_code(0) && !hak_modules_is_code(UINTPTR_MAX));
  CHECK(!hak_modules_is_mine((uintptr_t)&hak_modules_look)); /* it is in the program */
}

static void new_code_is_found_after_a_pause(void) {
  system_set_clock_ms(1000);
  CHECK(hak_modules_look());
  void *code = mmap(NULL, hak_os_page_bytes(), PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED && !hak_modules_is_code((uintptr_t)code));
  system_advance_clock_ms(10000);
  CHECK(hak_modules_is_code((uintptr_t)code));
  CHECK(munmap(code, hak_os_page_bytes()) == 0);
  system_advance_clock_ms(10000);
  CHECK(hak_modules_look() && !hak_modules_is_code((uintptr_t)code));
}

static void a_new_caller_is_learned_at_once(void) {
  size_t page = hak_os_page_bytes();
  system_set_clock_ms(1000);
  CHECK(hak_modules_look());
  char *code = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED && !hak_modules_is_code((uintptr_t)code));
  CHECK(hak_modules_learn((uintptr_t)code) && hak_modules_is_code((uintptr_t)code));
  CHECK(munmap(code, page) == 0 && hak_modules_look());
  /* For an address that is no code, the ranges are read once, and again only after a pause. */
  CHECK(!hak_modules_learn((uintptr_t)&page));
  code = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED && !hak_modules_learn((uintptr_t)code));
  system_advance_clock_ms(10000);
  CHECK(hak_modules_learn((uintptr_t)code) && munmap(code, page) == 0);
}

static void without_the_list_the_last_one_stands(void) {
  CHECK(hak_modules_look());
  system_refuse(SYSTEM_OPEN, 0, SYSTEM_ALL);
  CHECK(!hak_modules_look() && hak_modules_is_code((uintptr_t)&memcpy));
  hak_mapping_t mapping;
  CHECK(!hak_modules_mapping_of((uintptr_t)&mapping, &mapping));
  system_allow();
}

static void a_mapping_is_found_by_an_address(void) {
  hak_mapping_t mapping;
  uintptr_t here = (uintptr_t)&mapping;
  CHECK(hak_modules_mapping_of(here, &mapping) && mapping.start <= here && here < mapping.end);
  CHECK(hak_modules_mapping_of(1, &mapping) && mapping.start == 0 && mapping.end == 0);
  CHECK(hak_lock_try(&hak_modules_lock) && !hak_modules_mapping_of(here, &mapping) && !hak_modules_look());
  hak_unlock(&hak_modules_lock);
}

static void images_begin_with_the_program(void) {
  unsigned char id[HAK_BUILD_ID_MAX];
  hak_images_look();
  CHECK(hak_images_count() > 2 && strstr(hak_images->image[0].name, "unit_modules") != NULL);
  size_t own = hak_images_find((uintptr_t)&images_begin_with_the_program), libc = hak_images_find((uintptr_t)&sysconf);
  CHECK(own == 0 && libc > 0 && libc < hak_images_count() && strstr(hak_images->image[libc].name, "libc") != NULL);
  CHECK(hak_images_find(1) == hak_images_count());
  CHECK(hak_images_build_id(hak_images->image[libc].name, id) == 20); /* of SHA-1 */
}

/* The second mapping of the file stands at the same place, one page shorter. */
static void an_image_is_known_until_another_takes_its_place(void) {
  size_t page = hak_os_page_bytes();
  char name[] = "/tmp/hak-modules-XXXXXX";
  int fd = mkstemp(name);
  CHECK(fd >= 0 && ftruncate(fd, (off_t)(2 * page)) == 0);
  char *first = mmap(NULL, 2 * page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
  CHECK(first != MAP_FAILED);
  hak_images_look();
  CHECK(munmap(first, 2 * page) == 0);
  hak_images_look();
  size_t at = hak_images_find((uintptr_t)first + page);
  CHECK(at < hak_images_count() && strcmp(hak_images->image[at].name, name) == 0);
  CHECK(mmap(first, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, (off_t)page) == first);
  hak_images_look();
  at = hak_images_find((uintptr_t)first);
  CHECK(at < hak_images_count() && hak_images->image[at].offset == page);
  CHECK(hak_images_find((uintptr_t)first + page) == hak_images_count());
  size_t count = hak_images_count();
  hak_images_look();
  CHECK(hak_images_count() == count && close(fd) == 0 && unlink(name) == 0);
}

static void what_is_no_program_has_no_build_id(void) {
  unsigned char id[HAK_BUILD_ID_MAX];
  char name[] = "/tmp/hak-modules-XXXXXX";
  int fd = mkstemp(name);
  CHECK(fd >= 0);
  CHECK(hak_images_build_id(name, id) == 0 && hak_images_build_id("/no/such/file", id) == 0);
  CHECK(hak_images_build_id("[vdso]", id) == 0 && hak_images_build_id("", id) == 0);
  CHECK(write(fd, "\177ELF\2 and nothing more of one, though it is long enough for a head", 66) == 66);
  CHECK(hak_images_build_id(name, id) == 0);
  CHECK(close(fd) == 0 && unlink(name) == 0);
}

int main(void) {
  child_succeeds(every_row_is_visited);
  child_succeeds(a_long_row_hides_no_other);
  child_succeeds(code_is_told_from_data);
  child_succeeds(new_code_is_found_after_a_pause);
  child_succeeds(a_new_caller_is_learned_at_once);
  child_succeeds(without_the_list_the_last_one_stands);
  child_succeeds(a_mapping_is_found_by_an_address);
  child_succeeds(images_begin_with_the_program);
  child_succeeds(an_image_is_known_until_another_takes_its_place);
  child_succeeds(what_is_no_program_has_no_build_id);
  return 0;
}
