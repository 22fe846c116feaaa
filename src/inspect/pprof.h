/* Duty: write a profile as pprof's profile.proto. The writer allocates nothing and symbolizes no address; the reading
 * tool does that. Data: the caller's. Layers below: sites, images, resident, file. */
#pragma once

#include "file.h"
#include "resident.h"

/* What a profile contains besides the sites. */
typedef struct hak_profile_facts {
  hak_resident_t resident;
  size_t mean_bytes;             /* mean gap between samples; 0: sampling is off */
  uint64_t time_ns, duration_ns; /* since 1970; since sampling began */
  uint64_t taken, live, dropped; /* counts of samples */
  const char *why;               /* the reason of this profile */
} hak_profile_facts_t;

/* An estimated count, rounded for people. */
HAK_INLINE uint64_t hak_pprof_rounded(double value) {
  return value > 0 ? (uint64_t)(value + 0.5) : 0;
}

void hak_pprof_write(hak_sink_t *sink, const hak_profile_facts_t *facts);
