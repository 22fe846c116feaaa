/* Duty: the counts of the observe build on the hot path: blocks and frees by class, and the latest events. Other builds
 * compile none of it.
 * Data: counters and a ring, shared by all threads (relaxed atomics). Layers below: text, geometry. */
#pragma once

#include "geometry.h"

#ifdef HAKMEM_OBSERVE
#define HAK_OBSERVE(call) (call)
#define HAK_OBSERVED true
#else
#define HAK_OBSERVE(call) (0 ? (call) : (void)0)
#define HAK_OBSERVED false
#endif

void hak_observe_alloc(const void *block, size_t bytes);
void hak_observe_free(const void *block, size_t cls);
/* Print the histogram on stderr. */
void hak_observe_print(void);
/* Print the recent events of the block. */
void hak_observe_explain(const void *block);
