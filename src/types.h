/* Duty: the objects of the shared heap and who points to whom. Layers below: geometry.
 *
 *   page map ── leaf (16 GiB) ── classes[slice]  one byte a slice: 0, the class of the slab there or of the run that
 *                           │                   starts there, or HUGE for the start of a huge block
 *                           └── chunks[chunk] ── masks of its 128 slices
 *                                                └─ slabs[32]  one descriptor a slab, far from the blocks it describes
 *
 * Nothing of ours lies in a block but, while it is free, the tag in its first word: its address ^ the key of the
 * process. */
#pragma once

#include "geometry.h"

typedef struct hak_free_block {
  uintptr_t tag;
  uintptr_t untouched; /* as its last owner left it */
} __attribute__((may_alias)) hak_free_block_t;

_Static_assert(sizeof(hak_free_block_t) <= HAK_BLOCK_MIN, "a free block holds its tag");

/* Made once, at the start; its highest bit is set, so that no tag is an address. */
extern _Atomic uintptr_t hak_key;
HAK_INLINE uintptr_t hak_tag_of(const void *block) {
  return (uintptr_t)block ^ atomic_load_explicit(&hak_key, memory_order_relaxed);
}
HAK_INLINE void hak_mark_free(void *block) {
  ((hak_free_block_t *)block)->tag = hak_tag_of(block);
}
HAK_INLINE bool hak_is_marked_free(const void *block) {
  return ((const hak_free_block_t *)block)->tag == hak_tag_of(block);
}

/* Of a block that is handed out, until its owner writes there: no free block has it. */
#define HAK_TAKEN ((uintptr_t)1)
HAK_INLINE void *hak_mark_taken(void *block) {
  ((hak_free_block_t *)block)->tag = HAK_TAKEN;
  return block;
}
HAK_INLINE bool hak_is_marked_taken(const void *block) {
  return ((const hak_free_block_t *)block)->tag == HAK_TAKEN;
}

/* Where there is none: a block that can be read like any, so that the paths of `malloc` need no test for it, and whose
 * tag is never right. */
extern const hak_free_block_t hak_no_block;
#define HAK_NO_BLOCK ((hak_free_block_t *)(uintptr_t)&hak_no_block)

/* Flags in hak_slab_t.control; the rest of the word counts the blocks that lie in the slab (bits set). */
enum {
  HAK_SLAB_CURRENT = 1, /* one thread takes blocks from it, and nobody else does */
  HAK_SLAB_LISTED = 2,  /* it stands in its class's list */
  HAK_SLAB_COUNT_SHIFT = 8,
};

/*   blocks handed out or cached  =  carved - count        (once no return is in flight)
 *   0 <= carved <= blocks; a block with index >= carved was never handed out and its memory was not touched */
typedef struct hak_slab {
  _Atomic uint32_t control;
  _Atomic uint8_t cls; /* HAK_CLASS_NONE: there is no slab here now */
  bool discarded;      /* pages of free blocks were given back: their tags may read as zeros */
  bool zeroed;         /* blocks never handed out read as zeros */
  uint8_t word;        /* where the next search for free blocks begins */
  uint8_t slices;      /* all of a slab's, or, where the system had no memory for these, one */
  uint8_t list;        /* of its class, where it stands or will stand (slab.h); lock: the class's, CURRENT: its owner */
  uint32_t block_bytes, inverse;
  _Atomic uint32_t carved; /* written by the one who may take from the slab */
  uint32_t blocks;
  char *base;
  struct hak_slab *next, *prev; /* class's list; lock: the class's */
  _Atomic uint32_t sparse_from; /* free blocks with which it is sparse; written under the class's lock */
  _Alignas(HAK_CACHE_LINE) _Atomic uint64_t bits[HAK_BITS_WORDS]; /* bit i: block i lies free in the slab */
} hak_slab_t;

_Static_assert(offsetof(hak_slab_t, bits) == HAK_CACHE_LINE, "one line of fields, then the bits");

typedef struct hak_slabs {
  hak_slab_t slab[HAK_CHUNK_SLABS];
  struct hak_slabs *next_spare;
} hak_slabs_t;

/* One bit a slice. */
typedef unsigned __int128 hak_mask_t;

/* What a chunk is; lock: the arena's.
 *
 *   SLICED  its slices are free, or taken as slabs, runs, and parts of huge blocks
 *   FREE    the first and the last of an extent of whole free chunks
 *   HUGE    the first of a huge block of whole chunks; the page map leads there from all of them
 *   GONE    between these, or unmapped: one descriptor for all such chunks, for messages */
typedef enum hak_chunk_state {
  HAK_CHUNK_SPARE,
  HAK_CHUNK_SLICED,
  HAK_CHUNK_FREE,
  HAK_CHUNK_HUGE,
  HAK_CHUNK_GONE
} hak_chunk_state_t;

typedef struct hak_chunk {
  hak_mask_t present; /* mapped; all of them but where the system had no memory for a whole chunk */
  hak_mask_t free;    /* nobody has it */
  hak_mask_t dirty;   /* it may hold something else than zeros, so it is resident */
  hak_mask_t purged;  /* was given back to the system: some block lay there */
  hak_mask_t transit; /* on its way back to the system: neither free nor anybody's */
  char *base;
  struct hak_chunk *next, *prev; /* list of its run, or of its extent's size */
  struct hak_chunk *next_dirty, *prev_dirty;
  struct hak_chunk *next_transit;
  struct hak_chunk *mate; /* FREE: the other end. HUGE: the descriptor that the last chunk will need */
  hak_slabs_t *slabs;     /* SLICED */
  size_t chunks;          /* FREE (both ends), HUGE: how many */
  size_t huge_bytes;      /* HUGE, and SLICED with a huge block of less than a chunk: usable bytes */
  uint8_t state;
  uint8_t run;         /* SLICED: in which list it stands, at least the longest run of free slices; 0: in none */
  uint8_t dirty_run;   /* SLICED: at least the longest run of free and dirty slices */
  uint8_t free_slices; /* SLICED: bits of `free` */
  uint8_t tail;        /* SLICED: so many slices from its first one on are a huge block's */
  uint8_t dirty_list;  /* SLICED: 1 + list of chunks with free dirty slices; 0: in none */
  bool for_slabs;      /* SLICED: others take dirty slices only, but in need */
  bool moved;          /* realloc moved pages to the huge block that begins here */
  /* A bit a page of 4 KiB: the program altered it, and the block there was not freed since. HUGE: one for all. */
  _Atomic uint64_t altered[(HAK_CHUNK_BYTES >> HAK_PAGE_SHIFT) / 64];
} hak_chunk_t;
