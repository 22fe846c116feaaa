/* A validator for JSON texts (RFC 8259): grammar only, no tree. */
#ifndef HAK_TEST_JSON_H
#define HAK_TEST_JSON_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
  bool valid;
  size_t numbers;
  size_t negative_numbers;
  size_t error_offset; /* place of the first error in an invalid text */
} JsonReport;

JsonReport json_validate(const char *text);

#endif
