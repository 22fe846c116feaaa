/* Duty: build text in a buffer without allocating (snprintf may allocate, and is not ours to call inside malloc).
 * Data: the caller's. Layers below: os. */
#ifndef HAK_TEXT_H
#define HAK_TEXT_H

#include "base.h"

/* `length` counts what was asked for, also past `capacity`; the text kept is always NUL-terminated. */
typedef struct hak_text {
  char *buffer;
  size_t capacity, length;
} hak_text_t;

hak_text_t hak_text_on(char *buffer, size_t capacity);
void hak_text_string(hak_text_t *text, const char *string);
void hak_text_number(hak_text_t *text, uint64_t number);
void hak_text_hex(hak_text_t *text, uint64_t number);
/* `string`, then blanks up to `width` columns. */
void hak_text_padded(hak_text_t *text, const char *string, size_t width);
/* `number`, right-aligned in `width` columns. */
void hak_text_column(hak_text_t *text, uint64_t number, size_t width);
void hak_text_to_stderr(const hak_text_t *text);
/* A report at exit: see hak_os_write_report. */
void hak_text_report(const hak_text_t *text);

#endif
