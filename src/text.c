#include "text.h"

#include "os.h"

#include <string.h>

enum { DIGITS_MAX = 20 }; /* decimal digits of UINT64_MAX */

hak_text_t hak_text_on(char *buffer, size_t capacity) {
  if (capacity > 0) {
    buffer[0] = '\0';
  }
  return (hak_text_t){buffer, capacity, 0};
}

static void put(hak_text_t *text, char c) {
  if (text->length + 1 < text->capacity) {
    text->buffer[text->length] = c;
    text->buffer[text->length + 1] = '\0';
  }
  text->length++;
}

void hak_text_string(hak_text_t *text, const char *string) {
  while (*string) {
    put(text, *string++);
  }
}

static size_t digits_of(uint64_t number, unsigned base, char digits[DIGITS_MAX]) {
  size_t n = 0;
  do {
    digits[n++] = "0123456789abcdef"[number % base];
    number /= base;
  } while (number > 0);
  return n;
}

static void put_number(hak_text_t *text, uint64_t number, unsigned base, size_t width) {
  char digits[DIGITS_MAX];
  size_t n = digits_of(number, base, digits);
  for (size_t i = n; i < width; i++) {
    put(text, ' ');
  }
  while (n > 0) {
    put(text, digits[--n]);
  }
}

void hak_text_number(hak_text_t *text, uint64_t number) {
  put_number(text, number, 10, 0);
}

void hak_text_hex(hak_text_t *text, uint64_t number) {
  put_number(text, number, 16, 0);
}

void hak_text_column(hak_text_t *text, uint64_t number, size_t width) {
  put_number(text, number, 10, width);
}

void hak_text_padded(hak_text_t *text, const char *string, size_t width) {
  size_t n = strlen(string);
  hak_text_string(text, string);
  for (; n < width; n++) {
    put(text, ' ');
  }
}

static size_t kept(const hak_text_t *text) {
  return text->length < text->capacity ? text->length : text->capacity - 1;
}

void hak_text_to_stderr(const hak_text_t *text) {
  hak_os_write_error(text->buffer, kept(text));
}

void hak_text_report(const hak_text_t *text) {
  hak_os_write_report(text->buffer, kept(text));
}
