/* Duty: the rows of /proc/self/maps. Data: the caller's buffer. Layers below: os, text, match. */
#pragma once

#include "base/base.h"

typedef struct hak_mapping {
  uintptr_t start, end;
  size_t offset; /* offset in the file */
  bool executable;
  bool shared;      /* with other processes */
  const char *name; /* empty: the mapping has no name */
} hak_mapping_t;

enum { HAK_MAPS_BUFFER_BYTES = 8 << 10 }; /* a longer row loses a part of its name */

/* Visit every row, in ascending order, until `visit` returns false. Returns false if the rows cannot be read. */
bool hak_maps_each(bool (*visit)(const hak_mapping_t *mapping, void *argument), void *argument,
                   char buffer[HAK_MAPS_BUFFER_BYTES]);
/* Find the mapping of an address; its name is in the buffer. If no mapping holds the address, the result has no bytes.
 * False: the rows cannot be read. */
bool hak_maps_find(uintptr_t address, hak_mapping_t *found, char buffer[HAK_MAPS_BUFFER_BYTES]);
/* Whether some of the range is shared with other processes (MAP_SHARED). False where the system does not say. */
bool hak_maps_is_shared(const void *at, size_t bytes);

HAK_INLINE bool hak_map_holds(const hak_mapping_t *mapping, uintptr_t address) {
  return address >= mapping->start && address < mapping->end;
}
