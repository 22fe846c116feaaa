/* Duty: bytes beside a block that nobody uses. They were never handed out, or were given back to the system, so they
 * read as zeros unless the program wrote outside of its block.
 * Data: none. Layers below: seal, slab, large, arena. */
#pragma once

#include "base.h"

/* Look at both sides of a live block. No other thread takes blocks meanwhile, so the caller's is the only cache.
 * Aborts, and names `function`, if the program wrote there. */
void hak_edges_check(const void *block, uint32_t cls, const char *function);
