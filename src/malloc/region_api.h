/* Duty: the interface of regions, and blocks of regions in ordinary calls. Data: none. Layers below: regions. */
#pragma once

#include "foreign.h"

/* Free a block of a region. False: the block is of no region. */
bool hak_region_api_free(void *block);
/* How to free and resize a block of a region. NULL: the block is of no region. */
const hak_owner_t *hak_region_api_owner(const void *block);
