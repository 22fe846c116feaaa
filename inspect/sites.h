/* Duty: the call sites of sampled blocks: for each stack, what was allocated there and what of it is in use.
 * Data: a table that only grows, in memory of hak_meta_alloc, up to HAK_SITES_BYTES_MAX; what came too late counts at
 * one site without a stack. Sites and frames are found without a lock and never change; the lock is that of additions.
 * The numbers are written under the samples' lock and read without, and in parts of a byte and of a block, so that what
 * is freed takes away exactly what was added. Layers below: meta, lock.
 *
 * Invariant: allocated >= in use, of each site, once no sample is being counted. */
#pragma once

#include "geometry.h"
#include "lock.h"

enum {
  HAK_SITE_FRAMES_MAX = 64,
  HAK_SITES_BYTES_MAX = 8 << 20,
  HAK_SITE_BYTE_PARTS = 1 << 8,
  HAK_SITE_OBJECT_PARTS = 1 << 16,
  HAK_SITE_BUCKETS = 1 << 12,
  HAK_FRAMES_PER_PIECE = 512,
  HAK_FRAME_PIECES = 256,
};

/* A return address that occurs in a stack; numbered from 0 in the order in which they came. */
typedef struct hak_frame {
  uintptr_t pc;
  struct hak_frame *next; /* in its bucket; lock: of additions */
  uint32_t index;
} hak_frame_t;

typedef struct hak_site {
  struct hak_site *next;           /* in its bucket */
  struct hak_site *older;          /* of all sites */
  _Atomic uint64_t objects, bytes; /* allocated so far, in parts */
  _Atomic uint64_t freed_objects, freed_bytes;
  double resident_bytes;        /* of the profile that is being written; its lock */
  struct hak_site *next_sorted; /* likewise */
  uint64_t hash;
  uint32_t frame_count;
  uint32_t frame[]; /* numbers of frames, the innermost first */
} hak_site_t;

#define HAK_SITE_UNKNOWN "[unknown]" /* the site without a stack */

typedef struct hak_site_counts {
  double objects, bytes, in_use_objects, in_use_bytes;
} hak_site_counts_t;

/* What a reader from outside needs. */
typedef struct hak_sites {
  _Atomic(hak_site_t *) latest;
  _Atomic size_t frame_count;
  _Atomic uint64_t bytes, freed_bytes; /* of all sites, in parts */
  _Atomic(hak_frame_t *) frames[HAK_FRAME_PIECES];
} hak_sites_t;
extern hak_sites_t hak_sites;
extern hak_lock_t hak_sites_lock;

/* The site of a stack of at most HAK_SITE_FRAMES_MAX return addresses, the innermost first. Never NULL. */
hak_site_t *hak_site_of(const uintptr_t *pcs, size_t count);
/* NULL: it has none yet. */
hak_site_t *hak_site_known(const uintptr_t *pcs, size_t count);
/* Count a block there that stands for so many bytes, of blocks of so many; taken away again by the same numbers. Under
 * the samples' lock. */
void hak_site_add_locked(hak_site_t *site, double weight_bytes, size_t block_bytes);
void hak_site_remove_locked(hak_site_t *site, double weight_bytes, size_t block_bytes);

hak_site_counts_t hak_site_counts(const hak_site_t *site);
/* All sites, the latest first: start with NULL. The one without a stack is the last. */
hak_site_t *hak_site_next(const hak_site_t *after);
/* Frames so far; those below it may be asked for. */
size_t hak_frames_count(void);
uintptr_t hak_frame_pc(size_t index);

/* Estimates of all sites together, in bytes. */
double hak_sites_allocated(void);
double hak_sites_in_use(void);
