/* Duty: arenas of jemalloc's interface, which are regions here. Data: see mallctl.c; no lock. Layers below: regions. */
#pragma once

#include "regions/regions.h"

enum { HAK_MALLCTL_SHIFT = 20 }; /* of flags of mallocx, which hold 1 more than the index of an arena */

/* Whether flags of mallocx name another arena than the ordinary heap, 0. */
HAK_INLINE bool hak_mallctl_names_arena(int flags) {
  return (unsigned)flags >> HAK_MALLCTL_SHIFT > 1;
}
/* The region that such flags name; NULL: that index was never given. False: the arena was destroyed. */
bool hak_mallctl_arena(int flags, hak_region_t **region);
