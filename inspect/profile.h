/* Duty: the heap profile: what the sampler tells is counted by site, and written where and when the options or the
 * program ask for it.
 * Data: which writings are due. One profile is written at a time: the lock is held throughout, with system calls under
 * it, and is outside of every other. Layers below: sample, sites, unwind, pprof, headroom, probes, options.
 *
 * A signal may come while its thread holds a lock of ours: then the profile is written when the next block is
 * sampled. */
#pragma once

#include "lock.h"

extern hak_lock_t hak_profile_lock;

/* Now and then, as blocks are sampled: writes what is due. */
void hak_profile_write_due(void);

/* What the options ask for at the start. `holds_lock`: whether the calling thread holds any lock of the heap. */
void hak_profile_start_up(bool (*holds_lock)(void));
void hak_profile_at_exit(void);
