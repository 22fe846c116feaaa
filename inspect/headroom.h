/* Duty: how near the process is to the end of its memory: to the option MEMORY_LIMIT, and to memory.max of its control
 * group or of one above it (memory.limit_in_bytes where groups are of version 1), as far as what is used there cannot
 * be given up (files that are cached can). Data: the group with the least limit, found once. Layers below: arena,
 * options, file, text. */
#pragma once

#include "base.h"

/* Find the group: what `process` (/proc/self) says to be the process's own, below `root` (/sys/fs/cgroup). */
void hak_headroom_start(const char *root, const char *process);

/* Whether `percent` of a limit are in use. Reads files, at most every 100 ms or so many bytes of `allocated`, a count
 * that grows, as a tenth of what is left. */
bool hak_headroom_near(size_t percent, uint64_t allocated);
