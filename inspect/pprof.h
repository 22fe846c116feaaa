/* Duty: a profile in a form that others read: pprof's profile.proto, collapsed stacks, text. Nothing is allocated, and
 * no address gets a name here: that is for the reader.
 * Data: the caller's. Layers below: sites, images, resident, file. */
#pragma once

#include "file.h"
#include "resident.h"

/* What all forms tell, besides the sites. */
typedef struct hak_profile_facts {
  hak_resident_t resident;
  size_t mean_bytes;             /* between samples; 0: sampling is off */
  uint64_t time_ns, duration_ns; /* of the clock since 1970; since sampling began */
  uint64_t taken, live, dropped; /* samples */
  const char *why;               /* it is written now */
} hak_profile_facts_t;

/* A count that is an estimate, for people. */
HAK_INLINE uint64_t hak_rounded(double value) {
  return value > 0 ? (uint64_t)(value + 0.5) : 0;
}

void hak_pprof_write(hak_sink_t *sink, const hak_profile_facts_t *facts);
/* "outermost;...;innermost bytes" a line: bytes in use. */
void hak_folded_write(hak_sink_t *sink, const hak_profile_facts_t *facts);
void hak_report_write(hak_sink_t *sink, const hak_profile_facts_t *facts);
