/* Duty: check unused bytes beside a block. Such bytes were never handed out, or were given back to the system, so they
 * read as zeros unless the program wrote outside of its block. Data: none. Layers below: seal, slab, large, arena. */
#pragma once

#include "base/base.h"

/* Look at both sides of a live block, while no other thread takes blocks. True: *reason says where it was written. */
bool hak_edges_find_damage(const void *block, uint32_t cls, hak_misuse_t *reason);
