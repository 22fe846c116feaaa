/* Duty: the resident memory of the heap: the part that each site's blocks keep resident, and the part without a site.
 * The sum of all is the heap's resident memory.
 * Data: one result, for the profile that is being written; lock: hak_profile_lock. Layers below: stats, sample, sites,
 * arena.
 *
 * A class's blocks lie in slabs of their own, which also have room for free blocks. The resident memory of these slabs,
 * without the blocks in thread caches, is divided among the class's live blocks. A sample gets as many shares as its
 * weight. A class with few blocks in many slabs thus costs its sites more than the blocks' bytes. Blocks older than the
 * sampling belong to no site. */
#pragma once

#include "base/base.h"

#define HAK_RESIDENT_ROW(name, text) HAK_RESIDENT_##name,
typedef enum hak_resident_row {
#include "resident.def"
  HAK_RESIDENT_ROWS
} hak_resident_row_t;
#undef HAK_RESIDENT_ROW

typedef struct hak_resident {
  double row[HAK_RESIDENT_ROWS]; /* bytes without a site */
  double sites;                  /* bytes of all sites together */
} hak_resident_t;

extern const char *const hak_resident_names[HAK_RESIDENT_ROWS];

/* Measure, and set each site's resident_bytes. */
hak_resident_t hak_resident_look(void);
