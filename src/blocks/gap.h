/* Duty: pages without access, of the hardened profile: behind some slabs, at both ends of framed runs, and of freed
 * runs that wait. From Linux 6.13 on the first two cost no mapping (MADV_GUARD_INSTALL). Every other such page
 * splits a mapping, so no more are made once the profile has made a quarter of the mappings that a process may have
 * (vm.max_map_count).
 * Data: whether the kernel has such advice and the limit, both written before the profile is in force; the number of
 * mappings (atomic). Layers below: arena, seal, chance, os. */
#pragma once

#include "base/base.h"

/* Start-up. */
void hak_gap_start(void);

/* Discard whole pages and take their access away. False: the pages keep access, for want of mappings or memory. */
bool hak_gap_close(void *at, size_t bytes);
/* Give pages their access back; they read as zeros. False: the pages stay without access. */
bool hak_gap_open(void *at, size_t bytes);
/* Like close and open, but the pages keep their contents, and each range costs mappings on any kernel. */
bool hak_gap_protect(void *at, size_t bytes);
bool hak_gap_unprotect(void *at, size_t bytes);
/* Whether pages without access are free of cost, so that each run can have them. */
bool hak_gap_is_free(void);

/* Count mappings that the caller is about to make. False: there are too many already, and nothing was counted. */
bool hak_gap_count(size_t mappings);
void hak_gap_uncount(size_t mappings);

/* Slices for a slab, with a gap of one slice behind them. NULL: this slab gets none, by chance or for want of memory or
 * mappings. */
char *hak_gap_take_slab(size_t slices, bool *zeroed);
/* Open the gap behind a slab, so that its slice can be freed with the slab's. False: the gap stays without access. */
bool hak_gap_open_behind(char *base, size_t slices);
