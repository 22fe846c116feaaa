/* Duty: the call sites of sampled blocks: for each stack, the memory allocated there and the part in use.
 * Data: a table that only grows, in memory of hak_meta_alloc, up to HAK_SITES_BYTES_MAX. When it is full, new stacks
 * count at one site without a stack. Readers find sites and frames, which never change, without a lock; additions take
 * a lock. Numbers are written under the samples' lock and read without it. All are integers in fractions of a byte and
 * of a block, so that a free subtracts exactly what was added. Layers below: meta, lock.
 *
 * Invariant: allocated >= in use, for each site, while no sample is being counted. */
#pragma once

#include "system/system.h"

enum {
  HAK_SITE_FRAMES_MAX = 64,
  HAK_SITES_BYTES_MAX = 8 << 20,
  HAK_SITE_LABELS_MAX = 256,
  HAK_SITE_LABEL_BYTES = 48,
  HAK_SITE_BYTE_PARTS = 1 << 8,
  HAK_SITE_OBJECT_PARTS = 1 << 16,
  HAK_SITE_BUCKETS = 1 << 12,
  HAK_FRAMES_PER_PIECE = 512,
  HAK_FRAME_PIECES = 256,
};

/* A return address that occurs in a stack, numbered from 0 in the order of arrival. */
typedef struct hak_frame {
  uintptr_t pc;
  struct hak_frame *next; /* next in its bucket; lock: hak_sites_lock */
  uint32_t index;
} hak_frame_t;

/* The name of a region. Names beyond HAK_SITE_LABELS_MAX share one. */
typedef struct hak_site_label {
  struct hak_site_label *next;
  uint64_t string; /* its number in the profile that is being written; lock: hak_profile_lock */
  char name[HAK_SITE_LABEL_BYTES];
} hak_site_label_t;

typedef struct hak_site {
  struct hak_site *next;           /* next in its bucket */
  struct hak_site *older;          /* next in the list of all sites */
  _Atomic uint64_t objects, bytes; /* allocated so far, in fractions */
  _Atomic uint64_t freed_objects, freed_bytes;
  _Atomic uint64_t inherited[2]; /* parts of `objects` and `bytes` that were live when the process was forked */
  hak_site_label_t *label;       /* the region of its blocks; NULL: the blocks are in none */
  double resident_bytes;         /* for the profile that is being written; lock: hak_profile_lock */
  uint64_t hash;
  uint32_t frame_count;
  uint32_t frame[]; /* numbers of frames, innermost first */
} hak_site_t;

#define HAK_SITE_UNKNOWN "[unknown]" /* name of the site without a stack */

typedef struct hak_site_counts {
  double objects, bytes; /* allocated by this process */
  double in_use_objects, in_use_bytes;
  double inherited_bytes; /* upper bound of the part of `in_use_bytes` that was allocated by the parent */
} hak_site_counts_t;

/* The table, for an external reader. */
typedef struct hak_sites {
  _Atomic(hak_site_t *) latest;
  _Atomic size_t frame_count;
  _Atomic uint64_t bytes, freed_bytes; /* of all sites, in fractions */
  _Atomic(hak_frame_t *) frames[HAK_FRAME_PIECES];
} hak_sites_t;
extern hak_sites_t hak_sites;
extern hak_lock_t hak_sites_lock;

/* The site of a stack of at most HAK_SITE_FRAMES_MAX return addresses, innermost first, and of a label or NULL. Never
 * NULL. */
hak_site_t *hak_site_of(const uintptr_t *pcs, size_t count, hak_site_label_t *label);
/* The known site of a stack. NULL: there is none yet. */
hak_site_t *hak_site_known(const uintptr_t *pcs, size_t count, const hak_site_label_t *label);
/* The label of a region's name. NULL: no memory. */
hak_site_label_t *hak_site_label(const char *name);
/* Iterate over all labels; start with NULL. */
hak_site_label_t *hak_site_label_next(const hak_site_label_t *after);
/* Count a sample that stands for `weight_bytes`, in blocks of `block_bytes`; remove_locked subtracts the same
 * numbers again. Call both under the samples' lock. */
void hak_site_add_locked(hak_site_t *site, double weight_bytes, size_t block_bytes);
void hak_site_remove_locked(hak_site_t *site, double weight_bytes, size_t block_bytes);

hak_site_counts_t hak_site_counts(const hak_site_t *site);
/* In a new child: live blocks count as inherited, and none as allocated. Call it under the lock of samples. */
void hak_sites_fork_child_locked(void);
/* Iterate over all sites, newest first; start with NULL. The site without a stack comes last. */
hak_site_t *hak_site_next(const hak_site_t *after);
/* Number of frames so far, each of which can be read. */
size_t hak_site_frames_count(void);
uintptr_t hak_site_frame_pc(size_t index);

/* Estimated bytes, over all sites. */
double hak_sites_allocated(void);
double hak_sites_in_use(void);
/* Bytes in use that the process has from its parent, at most. */
double hak_sites_inherited(void);
