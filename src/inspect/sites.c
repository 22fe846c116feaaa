/* The call sites of sampled blocks, with their allocated and live bytes. */
#include "sites.h"

#include <string.h>

enum {
  PIECE_BYTES = 16 << 10, /* unit of the table's memory */
  SITE_BYTES_MOST = sizeof(hak_site_t) + HAK_SITE_FRAMES_MAX * sizeof(uint32_t),
  NEED_BYTES = SITE_BYTES_MOST + HAK_FRAMES_PER_PIECE * (int)sizeof(hak_frame_t) + 2 * HAK_CACHE_LINE,
};
_Static_assert((int)NEED_BYTES < (int)PIECE_BYTES, "one addition fits a piece");
_Static_assert(2 * HAK_SITE_BUCKETS * sizeof(void *) >= PIECE_BYTES,
               "buckets that another thread made first are a piece");
_Static_assert((int)HAK_SITE_FRAMES_MAX < (int)HAK_FRAMES_PER_PIECE, "a stack begins at most one piece of frames");

hak_lock_t hak_sites_lock = HAK_LOCK_INIT;

/* The site without a stack, also used once the table is full. */
static hak_site_t nowhere HAK_LARGE_DATA;

hak_sites_t hak_sites HAK_LARGE_DATA;

/* It is the last one of the list, for readers of the process, too. */
static hak_site_t *no_stack(void) {
  hak_site_t *none = NULL;
  atomic_compare_exchange_strong_explicit(&hak_sites.latest, &none, &nowhere, memory_order_release,
                                          memory_order_relaxed);
  return &nowhere;
}

/* Made with the first site: static data of the library would count against the limits of small programs. */
typedef struct buckets {
  _Atomic(hak_site_t *) sites[HAK_SITE_BUCKETS];
  hak_frame_t *frames[HAK_SITE_BUCKETS]; /* lock: that of additions */
} buckets_t;
static _Atomic(buckets_t *) buckets;
static struct {
  char *at;
  size_t left, taken;
} memory; /* lock: that of additions */

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
  return hash ^ hash >> 32;
}

static uint64_t hash_of(const uintptr_t *pcs, size_t count, const hak_site_label_t *label) {
  uint64_t hash = label ? mix(count, (uintptr_t)label) : count;
  for (size_t i = 0; i < count; i++) {
    hash = mix(hash, pcs[i]);
  }
  return hash;
}

static hak_frame_t *frame_at(size_t index) {
  return atomic_load_explicit(&hak_sites.frames[index / HAK_FRAMES_PER_PIECE], memory_order_acquire) +
         index % HAK_FRAMES_PER_PIECE;
}

uintptr_t hak_site_frame_pc(size_t index) {
  return frame_at(index)->pc;
}

size_t hak_site_frames_count(void) {
  return atomic_load_explicit(&hak_sites.frame_count, memory_order_acquire);
}

/* Find a stack's site. It compares hashes rather than frames, which are scattered over the table. With at most 2^17
 * sites, the probability that two share a 64-bit hash is below 2^-30. */
static hak_site_t *find(uint64_t hash, size_t count) {
  buckets_t *all = atomic_load_explicit(&buckets, memory_order_acquire);
  hak_site_t *site = all ? atomic_load_explicit(&all->sites[hash % HAK_SITE_BUCKETS], memory_order_acquire) : NULL;
  while (site && (site->hash != hash || site->frame_count != count)) {
    site = site->next;
  }
  return site;
}

hak_site_t *hak_site_known(const uintptr_t *pcs, size_t count, const hak_site_label_t *label) {
  return count > 0 ? find(hash_of(pcs, count, label), count) : NULL;
}

/* Take the lock, with enough memory for any one site. False: there is no memory, or the table has its full size. */
static bool lock_stocked(void) {
  for (void *piece = NULL;;) {
    hak_lock(&hak_sites_lock);
    if (piece && !buckets) {
      atomic_store_explicit(&buckets, piece, memory_order_release); /* pairs with find */
    } else if (piece) {
      memory.at = piece; /* if two threads make pieces, one is lost; both are counted */
      memory.left = PIECE_BYTES;
    }
    bool first = !buckets, full = memory.taken + PIECE_BYTES > HAK_SITES_BYTES_MAX;
    if (!first && memory.left >= NEED_BYTES) {
      return true;
    }
    memory.taken += first || full ? 0 : PIECE_BYTES;
    hak_unlock(&hak_sites_lock);
    piece = full ? NULL : hak_meta_alloc(first ? sizeof(buckets_t) : PIECE_BYTES);
    if (!piece) {
      return false;
    }
  }
}

static void *cut_locked(size_t bytes) {
  void *p = memory.at;
  bytes = hak_round_up(bytes, _Alignof(max_align_t));
  memory.at += bytes;
  memory.left -= bytes;
  return p;
}

/* NULL: all numbers are in use. */
static hak_frame_t *intern_locked(uintptr_t pc) {
  buckets_t *all = atomic_load_explicit(&buckets, memory_order_acquire);
  hak_frame_t **bucket = &all->frames[mix(0, pc) % HAK_SITE_BUCKETS], *frame = *bucket;
  while (frame && frame->pc != pc) {
    frame = frame->next;
  }
  size_t index = atomic_load_explicit(&hak_sites.frame_count, memory_order_relaxed);
  if (frame || index == (size_t)HAK_FRAME_PIECES * HAK_FRAMES_PER_PIECE) {
    return frame;
  }
  _Atomic(hak_frame_t *) *piece = &hak_sites.frames[index / HAK_FRAMES_PER_PIECE];
  if (index % HAK_FRAMES_PER_PIECE == 0) {
    /* release: pairs with frame_at */
    atomic_store_explicit(piece, cut_locked(HAK_FRAMES_PER_PIECE * sizeof(hak_frame_t)), memory_order_release);
  }
  frame = frame_at(index);
  *frame = (hak_frame_t){pc, *bucket, (uint32_t)index};
  *bucket = frame;
  atomic_store_explicit(&hak_sites.frame_count, index + 1, memory_order_release); /* pairs with hak_site_frames_count */
  return frame;
}

static hak_site_t *make_locked(uint64_t hash, const uintptr_t *pcs, size_t count, hak_site_label_t *label) {
  hak_site_t *site = cut_locked(sizeof *site + count * sizeof *site->frame);
  for (size_t i = 0; i < count; i++) {
    hak_frame_t *frame = intern_locked(pcs[i]);
    if (!frame) {
      return no_stack();
    }
    site->frame[i] = frame->index;
  }
  buckets_t *all = atomic_load_explicit(&buckets, memory_order_acquire);
  _Atomic(hak_site_t *) *bucket = &all->sites[hash % HAK_SITE_BUCKETS];
  site->frame_count = (uint32_t)count;
  site->hash = hash;
  site->label = label;
  site->next = atomic_load_explicit(bucket, memory_order_relaxed);
  site->older = hak_site_next(NULL);
  atomic_store_explicit(bucket, site, memory_order_release);            /* pairs with find */
  atomic_store_explicit(&hak_sites.latest, site, memory_order_release); /* pairs with hak_site_next */
  return site;
}

hak_site_t *hak_site_of(const uintptr_t *pcs, size_t count, hak_site_label_t *label) {
  uint64_t hash = hash_of(pcs, count, label);
  hak_site_t *site = count > 0 ? find(hash, count) : no_stack();
  if (site) {
    return site;
  }
  if (!lock_stocked()) {
    return no_stack();
  }
  site = find(hash, count); /* another thread may have made it */
  site = site ? site : make_locked(hash, pcs, count, label);
  hak_unlock(&hak_sites_lock);
  return site;
}

static _Atomic(hak_site_label_t *) labels HAK_LARGE_DATA; /* the newest first */
static size_t label_count HAK_LARGE_DATA;                 /* lock: that of additions */

hak_site_label_t *hak_site_label_next(const hak_site_label_t *after) {
  return after ? after->next : atomic_load_explicit(&labels, memory_order_acquire);
}

static hak_site_label_t *find_label(const char *name) {
  hak_site_label_t *label = hak_site_label_next(NULL);
  while (label && strcmp(label->name, name) != 0) {
    label = label->next;
  }
  return label;
}

static hak_site_label_t *make_label_locked(const char *name) {
  hak_site_label_t *label = cut_locked(sizeof *label);
  label->next = atomic_load_explicit(&labels, memory_order_relaxed);
  hak_text_copy_name(label->name, sizeof label->name, name);
  label_count++;
  atomic_store_explicit(&labels, label, memory_order_release); /* pairs with hak_site_label_next */
  return label;
}

hak_site_label_t *hak_site_label(const char *name) {
  char known[HAK_SITE_LABEL_BYTES];
  hak_text_copy_name(known, sizeof known, *name ? name : "[unnamed]");
  hak_site_label_t *label = find_label(known);
  if (label || !lock_stocked()) {
    return label;
  }
  const char *wanted = label_count < HAK_SITE_LABELS_MAX ? known : "[other regions]";
  label = find_label(wanted); /* another thread may have made it */
  label = label ? label : make_label_locked(wanted);
  hak_unlock(&hak_sites_lock);
  return label;
}

static void count_up(_Atomic uint64_t *counter, uint64_t n) {
  atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

HAK_INLINE void count(_Atomic uint64_t *objects, _Atomic uint64_t *bytes, _Atomic uint64_t *of_all, double weight_bytes,
                      size_t block_bytes) {
  uint64_t parts = (uint64_t)(weight_bytes * HAK_SITE_BYTE_PARTS + 0.5);
  count_up(objects, (uint64_t)(weight_bytes / (double)block_bytes * HAK_SITE_OBJECT_PARTS + 0.5));
  count_up(bytes, parts);
  count_up(of_all, parts);
}

void hak_site_add_locked(hak_site_t *site, double weight_bytes, size_t block_bytes) {
  count(&site->objects, &site->bytes, &hak_sites.bytes, weight_bytes, block_bytes);
}

void hak_site_remove_locked(hak_site_t *site, double weight_bytes, size_t block_bytes) {
  count(&site->freed_objects, &site->freed_bytes, &hak_sites.freed_bytes, weight_bytes, block_bytes);
}

static uint64_t read(const _Atomic uint64_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Read the freed amount first: every freed byte was allocated before. */
static uint64_t live(uint64_t freed, const _Atomic uint64_t *allocated) {
  uint64_t all = read(allocated);
  return all > freed ? all - freed : 0;
}

static double in_use(uint64_t freed, const _Atomic uint64_t *allocated, double parts) {
  return (double)live(freed, allocated) / parts;
}

hak_site_counts_t hak_site_counts(const hak_site_t *site) {
  uint64_t freed_objects = read(&site->freed_objects), freed_bytes = read(&site->freed_bytes);
  uint64_t inherited = read(&site->inherited[1]), left = live(freed_bytes, &site->bytes);
  return (hak_site_counts_t){
      .in_use_objects = in_use(freed_objects, &site->objects, HAK_SITE_OBJECT_PARTS),
      .in_use_bytes = in_use(freed_bytes, &site->bytes, HAK_SITE_BYTE_PARTS),
      .objects = (double)(read(&site->objects) - read(&site->inherited[0])) / HAK_SITE_OBJECT_PARTS,
      .bytes = (double)(read(&site->bytes) - inherited) / HAK_SITE_BYTE_PARTS,
      .inherited_bytes = (double)(inherited < left ? inherited : left) / HAK_SITE_BYTE_PARTS,
  };
}

void hak_sites_fork_child_locked(void) {
  for (hak_site_t *site = NULL; (site = hak_site_next(site));) {
    if (read(&site->bytes) == 0) {
      continue; /* its page stays shared with the parent */
    }
    uint64_t objects = live(read(&site->freed_objects), &site->objects);
    uint64_t bytes = live(read(&site->freed_bytes), &site->bytes);
    atomic_store_explicit(&site->objects, objects, memory_order_relaxed);
    atomic_store_explicit(&site->bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&site->freed_objects, 0, memory_order_relaxed);
    atomic_store_explicit(&site->freed_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&site->inherited[0], objects, memory_order_relaxed);
    atomic_store_explicit(&site->inherited[1], bytes, memory_order_relaxed);
  }
}

hak_site_t *hak_site_next(const hak_site_t *after) {
  hak_site_t *latest = after ? after->older : atomic_load_explicit(&hak_sites.latest, memory_order_acquire);
  return after || latest ? latest : &nowhere;
}

double hak_sites_allocated(void) {
  return (double)read(&hak_sites.bytes) / HAK_SITE_BYTE_PARTS;
}

double hak_sites_in_use(void) {
  return in_use(read(&hak_sites.freed_bytes), &hak_sites.bytes, HAK_SITE_BYTE_PARTS);
}

double hak_sites_inherited(void) {
  double all = 0;
  for (const hak_site_t *site = NULL; (site = hak_site_next(site));) {
    all += hak_site_counts(site).inherited_bytes;
  }
  return all;
}
