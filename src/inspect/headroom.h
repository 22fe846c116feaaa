/* Duty: how close the process is to its memory limits. These are the option MEMORY_LIMIT, and memory.max of its control
 * group or an ancestor (memory.limit_in_bytes in version 1). Cached files do not count, since the kernel can reclaim
 * them. Data: the group with the lowest limit, found once. Layers below: arena, limit, group. */
#pragma once

#include "base/base.h"

/* Find the control group with the lowest limit: the process's own or an ancestor. `root`: the folder of all groups
 * (/sys/fs/cgroup). `process`: the folder of the process (/proc/self), whose file `cgroup` names its group. */
void hak_headroom_start(const char *root, const char *process);

/* Whether `percent` of a limit is in use. It reads files at most every 100 ms, or after allocations of a tenth of the
 * remaining memory. `allocated`: bytes allocated so far, a total that only grows. */
bool hak_headroom_near(size_t percent, uint64_t allocated);
