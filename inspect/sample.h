/* Duty: sampling by bytes: which blocks are looked at, where they lie, and what is known of each.
 * Data: a record for each live sample, in a table by address; lock: the samples', under which nothing is called.
 * Layers below: slow's own, fast, heap, arena, meta, os.
 *
 * Off, it costs nothing: see docs/design.md. */
#pragma once

#include "heap.h"

/* Filled by who profiles: sites.h. */
struct hak_site;

typedef struct hak_sample {
  void *block;
  size_t asked; /* bytes of the request */
  size_t bytes; /* that it counts with: its class's, or a huge block's */
  double weight_bytes; /* of allocations that it stands for: bytes / (1 - e^(-bytes / mean)); / bytes: so many blocks */
  uint32_t cls;        /* which it would have had: HAK_CLASS_HUGE, or one below HAK_CLASS_COUNT */
  uint32_t thread;     /* hak_lock_id of the thread that allocated it */
  uint64_t mean_bytes; /* between samples, when it was taken */
  struct hak_site *site;       /* of the profile, which sets it in hak_profile_allocated; NULL: none */
  uint64_t generation;         /* of the setting under which it was taken: hak_sample_setting() */
  struct hak_sample_home *home; /* the sampler's: where a small one's memory is from */
  struct hak_sample *next;      /* the sampler's */
  uint32_t guard;               /* 0: not guarded; else 1 + its slot */
  uint32_t index;               /* of its record */
} hak_sample_t;

/* Mean bytes between two samples of a thread and class, from 1 (every block) up to 2^40; 0: off. Any thread, any time;
 * in force for a thread when it next leaves the fast path. */
bool hak_sample_start(size_t mean_bytes);
void hak_sample_stop(void);
size_t hak_sample_rate(void); /* 0: off */

/* The setting, and how another process changes it: the mean in the low 48 bits, above them a number that each change
 * counts up by one. Whoever writes it, a thread that passes by soon puts it into force. */
extern _Atomic uint64_t hak_sample_request;
enum { HAK_SAMPLE_MEAN_BITS = 48 };

/* Every live sample, from a copy; no lock is held meanwhile, so some of them may be gone by then. A sample is seen once
 * if it lives throughout. */
void hak_sample_each(void (*visit)(const hak_sample_t *sample, void *argument), void *argument);

typedef struct hak_sample_totals {
  uint64_t taken, live;
  uint64_t dropped;  /* should have been taken, but for want of memory were ordinary blocks */
  size_t slot_bytes; /* memory that samples have or had, now the sampler's */
} hak_sample_totals_t;
hak_sample_totals_t hak_sample_totals(void);

/* Who profiles defines these (profile.c). The block is the calling thread's: not handed out yet, or just freed. No lock
 * is held; neither may allocate or free. */
void hak_profile_allocated(hak_sample_t *sample);
void hak_profile_freed(hak_sample_t *sample);
