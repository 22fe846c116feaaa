/* Duty: the heap profile. The profile counts samples by site, and writes profiles where and when the options or the
 * program ask. Data: the profiles that are due. One profile is written at a time, under a lock that comes before every
 * other and is held during system calls. Layers below: sample, sites, unwind, pprof, limit, probes, options.
 *
 * A signal may interrupt a thread that holds a lock of the heap. The profile is then written when the next block is
 * sampled. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Write the profiles that are due. The sampler calls this now and then. */
void hak_profile_write_due(void);

/* Apply the start-up options. `holds_lock`: whether the calling thread holds any lock of the heap. */
void hak_profile_start_up(bool (*holds_lock)(void));
/* If `inside`, a signal handler ends the process while the thread holds a lock, so no profile is written. */
void hak_profile_at_exit(bool inside);
/* The heap refused a request for want of memory. */
void hak_profile_refused(size_t bytes);
