/* Duty: the data that another process, or the reader of a core file, needs to read the heap: one table of names and
 * values. Data: hak_layout, constant. Layers below: every module whose objects the table describes.
 *
 * A reader finds the table by its symbol; or it searches for the first bytes, and knows the table from a mere copy by
 * the field `self`, which holds the table's own address.
 *
 * A row is "size.TYPE", "TYPE.FIELD" (an offset), "CONSTANT" or "&OBJECT" (an address). A layout version may gain rows,
 * but the meaning of a row never changes. */
#pragma once

#include "system/system.h"

enum { HAK_LAYOUT_VERSION = 3, HAK_LAYOUT_NAME_BYTES = 40, HAK_LAYOUT_ROWS = 224 };

typedef struct hak_layout_row {
  char name[HAK_LAYOUT_NAME_BYTES]; /* empty: the entry holds no row */
  uintptr_t value;
} hak_layout_row_t;

/* One option. The options have the same order as hak_option_values. */
typedef struct hak_layout_option {
  char name[24], kind[8], when[8]; /* spelled as in options.def */
  int64_t low, high;
} hak_layout_option_t;

/* The whole table in one object. The loader writes addresses into it, so a core file contains it; a core file may omit
 * data that only the library's file holds. The number of rows keeps the addresses within one page with other constants
 * that the loader writes: golden.start counts it. */
typedef struct hak_layout {
  char magic[16]; /* "hakmem layout" */
  uint32_t layout_version, library_version, row_count, row_bytes, option_count, option_bytes;
  const void *self; /* the table's own address: a mere copy of its bytes lies elsewhere */
  const hak_layout_row_t *first_row;
  const hak_layout_option_t *first_option;
  const uint32_t *first_class_size;
  hak_layout_row_t rows[HAK_LAYOUT_ROWS];
  hak_layout_option_t options[HAK_OPTION_COUNT];
  uint32_t class_sizes[HAK_BIN_COUNT];
} hak_layout_t;

/* Protected: the loader need not look up the name for the addresses in it. */
extern const hak_layout_t hak_layout __attribute__((visibility("protected")));
