/* Duty: arenas of jemalloc's interface, which are regions here. Data: see mallctl.c; no lock. Layers below: regions. */
#pragma once

#include "regions/regions.h"

/* The region that flags of mallocx name; NULL: the ordinary heap. False: that arena was destroyed. */
bool hak_mallctl_arena(int flags, hak_region_t **region);
