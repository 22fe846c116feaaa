/* Text in a buffer: contents, alignment, and what happens at the end of the buffer. */
#include "text.h"

#include <string.h>

#include "check.h"
#include "child.h"

enum { CAPACITY = 64 };

static void numbers_are_written_in_full(void) {
  static const struct {
    uint64_t number;
    const char *decimal, *hex;
  } rows[] = {{0, "0", "0"},
              {9, "9", "9"},
              {10, "10", "a"},
              {255, "255", "ff"},
              {UINT64_MAX, "18446744073709551615", "ffffffffffffffff"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char decimal[CAPACITY], hex[CAPACITY];
    hak_text_t text = hak_text_on(decimal, sizeof decimal);
    hak_text_number(&text, rows[i].number);
    CHECK(strcmp(decimal, rows[i].decimal) == 0 && text.length == strlen(decimal));
    text = hak_text_on(hex, sizeof hex);
    hak_text_hex(&text, rows[i].number);
    CHECK(strcmp(hex, rows[i].hex) == 0 && text.length == strlen(hex));
  }
}

static void columns_line_up(void) {
  char buffer[CAPACITY];
  hak_text_t text = hak_text_on(buffer, sizeof buffer);
  CHECK(buffer[0] == '\0');
  hak_text_padded(&text, "ab", 4);
  hak_text_padded(&text, "too long", 3);
  hak_text_column(&text, 7, 3);
  hak_text_column(&text, 12345, 2);
  hak_text_string(&text, "");
  hak_text_string(&text, "|");
  CHECK(strcmp(buffer, "ab  too long  712345|") == 0);
}

static hak_text_t some_text(char *buffer, size_t capacity) {
  hak_text_t text = hak_text_on(buffer, capacity);
  hak_text_string(&text, "begin ");
  hak_text_padded(&text, "pad", 5);
  hak_text_column(&text, 42, 6);
  hak_text_hex(&text, 0xbeef);
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

static void write_whole(void) {
  char buffer[CAPACITY];
  hak_text_t text = some_text(buffer, sizeof buffer);
  hak_text_to_stderr(&text);
}

static void write_cut(void) {
  char buffer[10];
  hak_text_t text = some_text(buffer, sizeof buffer);
  hak_text_to_stderr(&text);
}

static void stderr_gets_what_was_kept(void) {
  char whole[CAPACITY];
  ChildResult result;
  (void)some_text(whole, sizeof whole);
  child_run(write_whole, &result);
  CHECK(strcmp(result.errors, whole) == 0);
  memset(result.errors, '#', sizeof result.errors);
  child_run(write_cut, &result);
  CHECK(memcmp(result.errors, whole, 9) == 0 && result.errors[9] == '\0');
  CHECK(result.errors[10] == '#'); /* nor what lies behind the buffer */
}

int main(void) {
  numbers_are_written_in_full();
  columns_line_up();
  what_does_not_fit_is_counted_and_cut();
  stderr_gets_what_was_kept();
  return 0;
}
