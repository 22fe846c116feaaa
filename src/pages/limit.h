/* Duty: the limits of the whole process. The hard one is the option MEMORY_LIMIT, or a share of what the control group
 * may use. The soft one is only noticed: a slow path then asks the program. A heap profile may be due near a limit.
 * Data: relaxed atomics, and one flag of each thread. Layers below: retain, purge, options, group. */
#pragma once

#include "arena.h"

/* This thread took memory beyond the soft limit, and the program was not asked since. */
extern _Thread_local bool hak_limit_soft_met __attribute__((tls_model("initial-exec")));

/* The hard limit in bytes; 0: none. */
size_t hak_limit_bytes(void);
/* The soft limit in bytes; 0: none. */
size_t hak_limit_soft_bytes(void);
/* What the limits count: pages of live blocks, free ones that may be resident, and the heap's own. */
size_t hak_limit_used_bytes(void);
/* Set both limits; 0: none. */
void hak_limit_set(size_t soft, size_t hard);
/* Whether `bytes` more would pass the soft limit. */
bool hak_limit_passes_soft(size_t bytes);
/* Read the files of the control group if MEMORY_LIMIT depends on it and the last time is 100 ms ago. */
void hak_limit_look(void);
/* Read the files at once. `percent`: the share of MEMORY_LIMIT. The folders are as in hak_group_find. */
void hak_limit_look_at(const char *root, const char *process, uint64_t percent);

/* Find the control group for hak_limit_near. The folders are as in hak_group_find. */
void hak_limit_watch(const char *root, const char *process);
/* Whether `percent` of MEMORY_LIMIT, or of the limit of the watched group, is in use. The call reads files at most
 * every 100 ms, or after allocations of a tenth of the remaining memory. `allocated`: bytes allocated so far. */
bool hak_limit_near(size_t percent, uint64_t allocated);
