/* Duty: format text into a buffer without allocating (snprintf may allocate, and other libraries may intercept it).
 * Data: the caller's. Layers below: os. */
#pragma once

#include "base/base.h"

/* `length` counts the whole text, even beyond `capacity`. The stored text always ends with a NUL. */
typedef struct hak_text {
  char *buffer;
  size_t capacity, length;
} hak_text_t;

hak_text_t hak_text_on(char *buffer, size_t capacity);
/* Append as printf does. The known conversions are %s, %-24s, %zu, %16zu and %zx. */
__attribute__((format(printf, 2, 3))) void hak_text_put(hak_text_t *text, const char *format, ...);
/* Append in quotes, as JSON and OpenMetrics read it. */
void hak_text_put_quoted(hak_text_t *text, const char *string);
/* Copy a name; `to` has `capacity` bytes. Control characters except new lines, and bytes that are not UTF-8, become
 * question marks. */
void hak_text_copy_name(char *to, size_t capacity, const char *from);
/* Parse lower-case digits of base 10 or 16 and move `at` behind them; UINT64_MAX if the number is larger. This function
 * replaces strtoull: headers of glibc 2.38 and later give that another name, and a library built with them would not
 * load on an older glibc. */
uint64_t hak_text_number(const char **at, unsigned base);
/* Write to stderr, up to 400 characters. */
__attribute__((format(printf, 1, 2))) void hak_text_say(const char *format, ...);
/* Write a report at exit: see hak_os_write_report. */
void hak_text_report(const hak_text_t *text);
