/* Duty: what another process, or the reader of a core file, must know to read the heap: one table of names and values.
 * Data: hak_layout, constant. Found by its symbol, or by its first bytes and its own address.
 * Layers below: all whose objects it tells of.
 *
 * A row is "size.TYPE", "TYPE.FIELD" (an offset), "CONSTANT" or "&OBJECT" (an address). Rows may be added under the
 * same layout version; what a row means never changes under it. */
#pragma once

#include "base.h"

enum { HAK_LAYOUT_VERSION = 1, HAK_LAYOUT_NAME_BYTES = 40 };

typedef struct hak_layout_row {
  char name[HAK_LAYOUT_NAME_BYTES];
  uintptr_t value;
} hak_layout_row_t;

/* One of the options, in the order of their values. */
typedef struct hak_layout_option {
  char name[24], kind[8], when[8]; /* as options.def spells them */
  int64_t low, high;
} hak_layout_option_t;

typedef struct hak_layout {
  char magic[16]; /* "hakmem layout" */
  uint32_t layout_version, library_version, row_count, row_bytes, option_count, option_bytes;
  const void *self; /* a copy has another address */
  const hak_layout_row_t *rows;
  const hak_layout_option_t *options;
  const uint32_t *class_sizes;
} hak_layout_t;

extern const hak_layout_t hak_layout;
