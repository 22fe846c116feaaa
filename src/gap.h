/* Duty: guard slabs of the hardened profile. Behind some slabs, chosen at random, lies a slice without access.
 * Data: none; the slab records that it has one. Layers below: arena, seal, os. */
#pragma once

#include "base.h"

/* Slices for a slab, with a guard behind them. NULL: this slab gets no guard, by chance or for want of memory. */
char *hak_gap_take(size_t slices, bool *zeroed);
/* Give the guard its access back, so that its slice can be freed with the slab's. False: it stays without access. */
bool hak_gap_open(char *base, size_t slices);
