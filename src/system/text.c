/* Format text into a buffer without allocating. For messages, statistics and profiles. */
#include "text.h"

#include "os.h"

#include <stdarg.h>

enum {
  DIGITS_MAX = 20, /* decimal digits of UINT64_MAX */
  LINE_BYTES = 400,
};

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

static void put_blanks(hak_text_t *text, size_t from, size_t width) {
  for (size_t i = from; i < width; i++) {
    put(text, ' ');
  }
}

static void put_string(hak_text_t *text, const char *string, size_t width) {
  size_t n = 0;
  for (; string[n]; n++) {
    put(text, string[n]);
  }
  put_blanks(text, n, width);
}

static void put_number(hak_text_t *text, size_t number, unsigned base, size_t width) {
  char digits[DIGITS_MAX];
  size_t n = 0;
  do {
    digits[n++] = "0123456789abcdef"[number % base];
    number /= base;
  } while (number > 0);
  put_blanks(text, n, width);
  while (n > 0) {
    put(text, digits[--n]);
  }
}

static size_t kept(const hak_text_t *text) {
  return text->length < text->capacity ? text->length : text->capacity - 1;
}

static void put_values(hak_text_t *text, const char *format, va_list values) {
  for (; *format; format++) {
    size_t width = 0;
    if (*format != '%') {
      put(text, *format);
      continue;
    }
    for (format += format[1] == '-' ? 2 : 1; *format >= '0' && *format <= '9'; format++) {
      width = width * 10 + (size_t)(*format - '0');
    }
    /* NOLINTBEGIN(clang-analyzer-valist.Uninitialized): the caller began them */
    if (*format == 's') {
      put_string(text, va_arg(values, const char *), width);
    } else { /* zu or zx */
      size_t number = va_arg(values, size_t);
      /* NOLINTEND(clang-analyzer-valist.Uninitialized) */
      put_number(text, number, *++format == 'x' ? 16 : 10, width);
    }
  }
}

void hak_text_put(hak_text_t *text, const char *format, ...) {
  va_list values;
  va_start(values, format);
  put_values(text, format, values);
  va_end(values);
}

void hak_text_put_quoted(hak_text_t *text, const char *string) {
  put(text, '"');
  for (; *string; string++) {
    if (*string == '"' || *string == '\\' || *string == '\n') {
      put(text, '\\');
    }
    put(text, (char)(*string == '\n' ? 'n' : *string));
  }
  put(text, '"');
}

/* The number of bytes of the printable character of UTF-8 that begins here, or of a new line. 0: there is none. */
static size_t character_at(const char *at) {
  static const uint32_t least[] = {0, ' ', 0x80, 0x800, 0x10000};
  const unsigned char *byte = (const unsigned char *)at;
  size_t length = byte[0] < 0x80   ? 1
                  : byte[0] < 0xc0 ? 0
                  : byte[0] < 0xe0 ? 2
                  : byte[0] < 0xf0 ? 3
                  : byte[0] < 0xf8 ? 4
                                   : 0;
  uint32_t value = length > 1 ? byte[0] & (0x7fU >> length) : byte[0];
  for (size_t i = 1; i < length; i++) {
    if ((byte[i] & 0xc0) != 0x80) {
      return 0;
    }
    value = value << 6 | (byte[i] & 0x3f);
  }
  bool surrogate = value >> 11 == 0xd800 >> 11, delete = value == 0x7f;
  return value == '\n' || (value >= least[length] && value <= 0x10ffff && !surrogate && !delete) ? length : 0;
}

void hak_text_copy_name(char *to, size_t capacity, const char *from) {
  const char *end = to + capacity - 1;
  while (*from && to < end) {
    size_t length = character_at(from);
    bool whole = length > 0 && length <= (size_t)(end - to);
    *to++ = (char)(whole ? *from : '?');
    from++;
    for (size_t i = 1; whole && i < length; i++) {
      *to++ = *from++;
    }
  }
  *to = '\0';
}

void hak_text_say(const char *format, ...) {
  char line[LINE_BYTES + 1];
  hak_text_t text = hak_text_on(line, sizeof line);
  va_list values;
  va_start(values, format);
  put_values(&text, format, values);
  va_end(values);
  hak_os_write_error(line, kept(&text));
}

void hak_text_report(const hak_text_t *text) {
  hak_os_write_report(text->buffer, kept(text));
}

/* The value of a digit; at least 16 if the character is no digit. */
static unsigned digit_of(char c) {
  if (c >= '0' && c <= '9') {
    return (unsigned)(c - '0');
  }
  return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 16;
}

uint64_t hak_text_number(const char **at, unsigned base) {
  uint64_t number = 0;
  for (unsigned digit; (digit = digit_of(**at)) < base; ++*at) {
    if (__builtin_mul_overflow(number, base, &number) || __builtin_add_overflow(number, digit, &number)) {
      number = UINT64_MAX; /* further digits overflow again */
    }
  }
  return number;
}
