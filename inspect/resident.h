/* Duty: how much of the heap is resident, and by whom: what each site's blocks keep resident, and what belongs to no
 * site. The sum of all is the heap's resident memory.
 * Data: one picture, of the profile that is being written; lock: that of profiles. Layers below: stats, sample,
 * sites, arena.
 *
 * The blocks of a class lie in slabs of their own, with room for others. What is resident of those slabs, less what
 * threads hold in their caches, is shared among the live blocks of the class, and a sample has as many parts as it
 * weighs: a class of which few blocks are left in many slabs costs its sites more than these blocks' bytes, and what is
 * older than the sampling is nobody's. */
#pragma once

#include "base.h"

#define HAK_RESIDENT_ROW(name, text) HAK_RESIDENT_##name,
typedef enum hak_resident_row {
#include "resident.def"
  HAK_RESIDENT_ROWS
} hak_resident_row_t;
#undef HAK_RESIDENT_ROW

typedef struct hak_resident {
  double row[HAK_RESIDENT_ROWS]; /* bytes of no site */
  double sites;                  /* and those of all sites */
} hak_resident_t;

extern const char *const hak_resident_names[HAK_RESIDENT_ROWS];

/* Measures; each site's part is in its resident_bytes then. */
hak_resident_t hak_resident_look(void);
