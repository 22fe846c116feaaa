/* The resident memory of the heap, and the call sites that keep it resident. profile.c calls it. */
#include "resident.h"

#include "sample.h"
#include "sites.h"
#include "stats.h"

#include <string.h>

#define HAK_RESIDENT_ROW(name, text) text,
const char *const hak_resident_names[HAK_RESIDENT_ROWS] = {
#include "resident.def"
};
#undef HAK_RESIDENT_ROW

/* One kind for each small class. Runs and huge blocks, which share no slabs, form one kind together; and so do regions.
 */
enum { REGIONS = HAK_CLASS_NONE, LARGE = HAK_RUN_FIRST, KINDS };
enum { PAGE_LEAST = 4096 };

static uint32_t kind_of(uint32_t cls) {
  return cls < HAK_RUN_FIRST ? cls : (uint32_t)LARGE;
}

static struct picture {
  double bytes[KINDS];  /* resident, without blocks in thread caches */
  double weight[KINDS]; /* sum over the live samples */
  hak_resident_t told;
  hak_stats_t stats;
} *picture; /* made on first use */

/* Copy what the arena's lock protects of a chunk. The first chunk of an extent stands for all of them. False: the heap
 * has no chunk there, or the chunk is counted with the first one of its extent. */
static bool view_chunk(char *base, hak_chunk_t *view) {
  hak_lock(&hak_arena.lock);
  const hak_chunk_t *chunk = hak_pagemap_chunk(base);
  bool ok = chunk && chunk->state != HAK_CHUNK_SPARE && chunk->state != HAK_CHUNK_GONE && chunk->base == base;
  if (ok) {
    *view = (hak_chunk_t){.present = chunk->present,
                          .free = chunk->free,
                          .base = chunk->base,
                          .slabs = chunk->slabs,
                          .chunks = chunk->chunks,
                          .state = chunk->state,
                          .region = chunk->region};
    ok = chunk->state != HAK_CHUNK_FREE || chunk->chunks == 1 || chunk->mate->base > base;
  }
  hak_unlock(&hak_arena.lock);
  return ok;
}

/* The class of the first block in a page of a mixed slab. */
static uint32_t class_in_page(const char *page) {
  uint32_t cls = HAK_CLASS_NONE;
  for (const char *at = page; at < page + PAGE_LEAST && cls == HAK_CLASS_NONE; at += HAK_BLOCK_MIN) {
    cls = hak_pagemap_class(at);
  }
  return cls;
}

/* The counter to which the page belongs. */
static double *owner_of(const hak_chunk_t *view, size_t at) {
  size_t slice = at >> HAK_SLICE_SHIFT;
  if (view->free >> slice & 1) {
    return &picture->told.row[HAK_RESIDENT_RETAINED];
  }
  uint32_t cls = hak_pagemap_slice_class(view->base + at);
  cls = cls == HAK_CLASS_MIXED ? class_in_page(view->base + at) : cls;
  if (cls == HAK_CLASS_NONE && slice >= HAK_SLAB_SLICES && slice % HAK_SLAB_SLICES == 0) { /* a slab's fifth slice? */
    uint32_t before = hak_pagemap_slice_class(view->base + ((slice - HAK_SLAB_SLICES) << HAK_SLICE_SHIFT));
    cls = hak_slab_slices(before) > HAK_SLAB_SLICES ? before : cls;
  }
  if (cls == HAK_CLASS_SAMPLED) {
    return &picture->told.row[HAK_RESIDENT_SAMPLER];
  }
  return &picture->bytes[cls == HAK_CLASS_NONE ? (uint32_t)LARGE : kind_of(cls)];
}

static size_t resident_bytes(void *at, size_t bytes) {
  unsigned char resident[HAK_CHUNK_BYTES / PAGE_LEAST];
  size_t page = hak_os_page_bytes(), pages = 0;
  for (size_t from = 0; from < bytes; from += HAK_CHUNK_BYTES) {
    size_t rest = bytes - from, part = rest < HAK_CHUNK_BYTES ? rest : HAK_CHUNK_BYTES;
    hak_os_residency((char *)at + from, part, resident);
    for (size_t i = 0; i < (part + page - 1) / page; i++) {
      pages += resident[i] & 1U;
    }
  }
  return pages * page;
}

/* The slices of the piece of a region that begins at a slab's place; 0: none does. */
static size_t slices_of_piece(const hak_slab_t *slab) {
  bool is = atomic_load_explicit(&slab->region, memory_order_acquire); /* pairs with mark of piece.c */
  return is ? atomic_load_explicit(&slab->bits[1], memory_order_relaxed) : 0;
}

static void count_slices(const hak_chunk_t *view) {
  unsigned char resident[HAK_CHUNK_BYTES / PAGE_LEAST];
  size_t page = hak_os_page_bytes();
  hak_os_residency(view->base, HAK_CHUNK_BYTES, resident);
  for (size_t at = 0, end = 0; at < HAK_CHUNK_BYTES; at += page) {
    size_t slice = at >> HAK_SLICE_SHIFT;
    if (at % HAK_SLAB_BYTES == 0 && !(view->free >> slice & 1)) {
      size_t slices = slices_of_piece(&view->slabs->slab[at / HAK_SLAB_BYTES]);
      end = slices > 0 ? at + (slices << HAK_SLICE_SHIFT) : end;
    }
    if (resident[at / page] & 1 && view->present >> slice & 1) {
      *(at < end ? &picture->bytes[REGIONS] : owner_of(view, at)) += (double)page;
    }
  }
}

static void count_chunk(char *base) {
  hak_chunk_t view;
  if (!view_chunk(base, &view)) {
    return;
  }
  if (view.state == HAK_CHUNK_SLICED) {
    count_slices(&view);
  } else {
    bool huge = view.state == HAK_CHUNK_HUGE;
    double *whose = !huge ? &picture->told.row[HAK_RESIDENT_RETAINED] : &picture->bytes[view.region ? REGIONS : LARGE];
    *whose += (double)resident_bytes(base, view.chunks << HAK_CHUNK_SHIFT);
  }
}

/* Count a leaf of the page map, and its chunks. */
static void count_leaf(hak_leaf_t *leaf, uintptr_t first) {
  double *row = &picture->told.row[HAK_RESIDENT_METADATA];
  for (size_t i = 0; i < HAK_LEAF_PIECES; i++) {
    if (atomic_load_explicit(&leaf->pieces[i], memory_order_relaxed) != 0) {
      *row += (double)resident_bytes((char *)leaf + i * HAK_LEAF_PIECE_BYTES, HAK_LEAF_PIECE_BYTES);
    }
  }
  *row += (double)resident_bytes(leaf->pieces, sizeof *leaf - HAK_LEAF_TABLE_BYTES);
  for (size_t i = 0; i < HAK_LEAF_CHUNKS; i++) {
    char *base = (char *)(first + (i << HAK_CHUNK_SHIFT)); /* NOLINT(performance-no-int-to-ptr) */
    if (hak_pagemap_chunk(base)) {
      count_chunk(base);
    }
  }
}

static void count_all(void) {
  double *row = &picture->told.row[HAK_RESIDENT_METADATA];
  hak_lock(&hak_meta_lock);
  hak_meta_piece_t *piece = hak_meta_pieces; /* the pieces behind the head never change */
  hak_unlock(&hak_meta_lock);
  for (; piece; piece = piece->before) {
    *row += (double)resident_bytes(piece, piece->bytes);
  }
  for (size_t index = 0; index < HAK_LEAVES; index++) {
    uintptr_t biased = atomic_load_explicit(&hak_leaves[index], memory_order_acquire);
    uintptr_t slices = (uintptr_t)index << (HAK_LEAF_SHIFT - HAK_SLICE_SHIFT);
    if (biased != 0) {
      count_leaf((hak_leaf_t *)(biased + slices), slices << HAK_SLICE_SHIFT); /* NOLINT(performance-no-int-to-ptr) */
    }
  }
}

/* Subtract the blocks in thread caches, which belong to no site. */
static void take_out_cached(void) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    double *bytes = &picture->bytes[kind_of(c)];
    double cached = (double)picture->stats.classes[c].cached_blocks * hak_class_sizes[c];
    cached = cached < *bytes ? cached : *bytes;
    *bytes -= cached;
    picture->told.row[HAK_RESIDENT_CACHES] += cached;
  }
}

/* A huge block counts with its resident part, since much of it may be untouched. */
static double weight_of(const hak_sample_t *sample) {
  if (sample->cls != HAK_CLASS_HUGE) {
    return sample->weight_bytes;
  }
  return sample->weight_bytes * (double)resident_bytes(sample->block, sample->bytes) / (double)sample->bytes;
}

/* The class at a slice's start decides its kind. This is wrong for the first slice of a large sampled block, which
 * looks like the sampler's own. It is also wrong for the slices behind the first of a smaller sampled block, which look
 * like a large block's. Correct both. */
static void add_weight(const hak_sample_t *sample, void *unused) {
  double *sampler = &picture->told.row[HAK_RESIDENT_SAMPLER];
  (void)unused;
  picture->weight[kind_of(sample->cls)] += weight_of(sample);
  if (sample->piece) {
    return;
  }
  double wrong = 0;
  if (sample->cls >= HAK_RUN_FIRST && sample->bytes <= HAK_CHUNK_BYTES) {
    wrong = (double)resident_bytes(sample->block, HAK_SLICE_BYTES);
  } else if (sample->cls < HAK_RUN_FIRST && sample->bytes > HAK_SLICE_BYTES) {
    wrong = -(double)resident_bytes((char *)sample->block + HAK_SLICE_BYTES, sample->bytes - HAK_SLICE_BYTES);
  }
  *sampler -= wrong;
  picture->bytes[LARGE] += wrong;
}

/* The weight of all blocks of a kind, including those older than the sampling. For large blocks, and those of regions,
 * it is their resident part. */
static double whole_weight(uint32_t kind) {
  const hak_class_stats_t *class = &picture->stats.classes[kind];
  double live =
      kind == LARGE || kind == REGIONS ? picture->bytes[kind] : (double)(class->live_blocks * class->block_bytes);
  return live > picture->weight[kind] ? live : picture->weight[kind];
}

static void share(const hak_sample_t *sample, void *unused) {
  uint32_t kind = kind_of(sample->cls);
  (void)unused;
  if (sample->site && picture->weight[kind] > 0) {
    double part = picture->bytes[kind] * weight_of(sample) / whole_weight(kind);
    sample->site->resident_bytes += part;
    picture->told.sites += part;
  }
}

hak_resident_t hak_resident_look(void) {
  picture = picture ? picture : hak_meta_alloc(sizeof *picture);
  if (!picture) {
    return (hak_resident_t){0};
  }
  memset(picture, 0, sizeof *picture);
  for (hak_site_t *site = NULL; (site = hak_site_next(site));) {
    site->resident_bytes = 0;
  }
  count_all();
  hak_stats_read(&picture->stats);
  hak_sampler_each(add_weight, NULL);
  take_out_cached();
  hak_sampler_each(share, NULL);
  double *unseen = &picture->told.row[HAK_RESIDENT_UNSEEN];
  *unseen = -picture->told.sites;
  for (uint32_t k = 0; k < KINDS; k++) {
    *unseen += picture->bytes[k];
  }
  *unseen = *unseen > 1 ? *unseen : 0; /* a remainder of rounding counts as 0 */
  return picture->told;
}
