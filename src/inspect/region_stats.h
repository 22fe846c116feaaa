/* Duty: what the regions hold, by name, for the statistics. Regions whose own name and whose parent's name are equal
 * form one row of sums, since programs make thousands of regions of one name. If there are more names than rows, the
 * rows are those that use most.
 * Data: the caller's table. Reading locks some regions at a time. Layers below: regions, text, meta.
 */
#pragma once

#include "regions/regions.h"

enum { HAK_REGION_ROWS = 256, HAK_REGION_ROWS_TEXT = 10 };

typedef struct hak_region_row {
  size_t regions, retired; /* number of regions; of those that make no new blocks */
  size_t used, peak;       /* bytes with all descendants */
  size_t soft, hard;       /* sums of the limits in bytes; 0: a region has no limit */
  size_t live_bytes, live_blocks;
  size_t allocated, freed; /* bytes */
  char name[HAK_REGION_NAME], parent[HAK_REGION_NAME];
} hak_region_row_t;

typedef struct hak_region_table {
  size_t regions, live_bytes, live_blocks; /* of all, including those without a row */
  size_t rows;                             /* the one that uses most comes first */
  size_t left_out;                         /* regions without a row */
  size_t floor;                            /* the least that a row used when all were last compared */
  uint32_t hash[HAK_REGION_ROWS];          /* of both names; until the rows are sorted */
  hak_region_row_t row[HAK_REGION_ROWS];
} hak_region_table_t;

/* Fill the table, or a new one if it is NULL. Returns NULL if there was never a region, or no memory. */
hak_region_table_t *hak_region_stats_read(hak_region_table_t *table);
void hak_region_stats_put_json(hak_text_t *text, const hak_region_table_t *table);
void hak_region_stats_put_text(hak_text_t *text, const hak_region_table_t *table);
/* As OpenMetrics, with the labels heap="NAME" and parent="NAME". */
void hak_region_stats_put_metrics(hak_text_t *text, const hak_region_table_t *table);
