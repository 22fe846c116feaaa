/* Text in a buffer: contents, alignment, and what happens at the end of the buffer. */
#include "system/text.h"

#include <string.h>

#include "check.h"
#include "child.h"

enum { CAPACITY = 64 };

static void numbers_are_written_in_full(void) {
  static const struct {
    size_t number;
    const char *decimal, *hex;
  } rows[] = {{0, "0", "0"},
              {9, "9", "9"},
              {10, "10", "a"},
              {255, "255", "ff"},
              {SIZE_MAX, "18446744073709551615", "ffffffffffffffff"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char decimal[CAPACITY], hex[CAPACITY];
    hak_text_t text = hak_text_on(decimal, sizeof decimal);
    hak_text_put(&text, "%zu", rows[i].number);
    CHECK(strcmp(decimal, rows[i].decimal) == 0 && text.length == strlen(decimal));
    text = hak_text_on(hex, sizeof hex);
    hak_text_put(&text, "%zx", rows[i].number);
    CHECK(strcmp(hex, rows[i].hex) == 0 && text.length == strlen(hex));
  }
}

static void numbers_are_parsed_to_the_first_other_character(void) {
  static const struct {
    const char *text;
    unsigned base;
    uint64_t number;
    size_t length;
  } rows[] = {{"", 10, 0, 0},
              {"max", 10, 0, 0},
              {" 1", 10, 0, 0},
              {"0", 10, 0, 1},
              {"4096\n", 10, 4096, 4},
              {"12a", 10, 12, 2},
              {"7f00ab-", 16, 0x7f00ab, 6},
              {"1g", 16, 1, 1},
              {"18446744073709551614", 10, UINT64_MAX - 1, 20},
              {"18446744073709551616", 10, UINT64_MAX, 20},
              {"184467440737095516150", 10, UINT64_MAX, 21},
              {"ffffffffffffffff", 16, UINT64_MAX, 16},
              {"10000000000000000", 16, UINT64_MAX, 17}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *at = rows[i].text;
    CHECK(hak_text_number(&at, rows[i].base) == rows[i].number);
    CHECK(at == rows[i].text + rows[i].length);
  }
}

static void columns_line_up(void) {
  char buffer[CAPACITY];
  hak_text_t text = hak_text_on(buffer, sizeof buffer);
  CHECK(buffer[0] == '\0');
  hak_text_put(&text, "%-4s%-3s", "ab", "too long");
  hak_text_put(&text, "%3zu%2zu%s|", (size_t)7, (size_t)12345, "");
  hak_text_put(&text, "%-10s%12zx", "a", (size_t)0xb);
  CHECK(strcmp(buffer, "ab  too long  712345|a                    b") == 0);
}

static hak_text_t some_text(char *buffer, size_t capacity) {
  hak_text_t text = hak_text_on(buffer, capacity);
  hak_text_put(&text, "begin %-5s%6zu", "pad", (size_t)42);
  hak_text_put(&text, "%zx", (size_t)0xbeef);
  return text;
}

static void what_does_not_fit_is_counted_and_cut(void) {
  char whole[CAPACITY];
  size_t length = some_text(whole, sizeof whole).length;
  CHECK(length == strlen(whole));
  for (size_t capacity = 0; capacity <= length + 2; capacity++) {
    char cut[CAPACITY];
    memset(cut, '#', sizeof cut);
    CHECK(some_text(cut, capacity).length == length);
    size_t kept = capacity > length ? length : capacity > 0 ? capacity - 1 : 0;
    CHECK(memcmp(cut, whole, kept) == 0);
    CHECK(capacity == 0 || cut[kept] == '\0');
    CHECK(cut[capacity] == '#');
  }
  CHECK(some_text(NULL, 0).length == length);
}

static char long_text[1000];

static void say(void) {
  hak_text_say("%s%zu", "number ", (size_t)7);
  hak_text_say("%s", long_text);
}

static void report_cut(void) {
  char buffer[10];
  hak_text_t text = some_text(buffer, sizeof buffer);
  hak_text_report(&text);
}

/* Text that is too long is cut off, and stderr gets nothing from behind the buffer. */
static void stderr_gets_what_was_kept(void) {
  static const char said[] = "number 7";
  ChildResult result;
  memset(long_text, 'x', sizeof long_text - 1);
  child_run(say, &result);
  CHECK(memcmp(result.errors, said, strlen(said)) == 0 && strlen(result.errors) == strlen(said) + 400);
  child_run(report_cut, &result);
  CHECK(strcmp(result.errors, "begin pad") == 0 && result.length == strlen("begin pad"));
}

int main(void) {
  numbers_are_written_in_full();
  numbers_are_parsed_to_the_first_other_character();
  columns_line_up();
  what_does_not_fit_is_counted_and_cut();
  stderr_gets_what_was_kept();
  return 0;
}
