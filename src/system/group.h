/* Duty: the control group that limits the process's memory: of its own group and those above, the one with the lowest
 * limit (memory.max; memory.limit_in_bytes in version 1). Files that cannot be read mean no limit. The reader neither
 * allocates nor changes errno. Data: the caller's. Layers below: direct, text. */
#pragma once

#include "base/base.h"

enum { HAK_GROUP_PATH = 512 };

typedef struct hak_group {
  char folder[HAK_GROUP_PATH]; /* empty: no group has a limit */
  const struct hak_group_version *version;
  uint64_t limit; /* in bytes */
} hak_group_t;

/* `root`: the folder of all groups (/sys/fs/cgroup). `process`: the folder of the process (/proc/self), whose file
 * `cgroup` names its group. False: no group has a limit. */
bool hak_group_find(hak_group_t *group, const char *root, const char *process);
/* The bytes that the group uses, without cached files, which the kernel can reclaim. A total below `enough` is returned
 * as it is, without a second file. */
uint64_t hak_group_use(const hak_group_t *group, uint64_t enough);
/* How often the group met a limit. The number only grows. */
uint64_t hak_group_met(const hak_group_t *group);
