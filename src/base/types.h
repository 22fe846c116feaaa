/* Duty: the objects of the shared heap and the pointers between them. Layers below: geometry.
 *
 *   page map ── leaf (16 GiB) ── classes[slice]  one byte a slice: the class of its slab or of the run that starts
 *                           │                   there, HUGE for the start of a huge block, else 0
 *                           └── chunks[chunk] ── masks of its 128 slices
 *                                                └─ slabs[32]  one descriptor a slab, far from the blocks it describes
 *
 * A block in use holds no data of the allocator. A free block holds a tag in its first word: its address ^ the key of
 * the process. */
#pragma once

#include "geometry.h"

typedef struct hak_free_block {
  uintptr_t tag;
  uintptr_t untouched; /* the second word keeps the contents that the last owner left */
} __attribute__((may_alias)) hak_free_block_t;

_Static_assert(sizeof(hak_free_block_t) <= HAK_BLOCK_MIN, "a free block holds its tag");

/* The key is made once, at the start. The key's highest bit is set, so that no tag is a valid address. */
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

/* First word of a block that was just handed out, until the owner writes there. No free block has this value. */
#define HAK_TAKEN ((uintptr_t)1)
HAK_INLINE void *hak_mark_taken(void *block) {
  ((hak_free_block_t *)block)->tag = HAK_TAKEN;
  return block;
}
HAK_INLINE bool hak_is_marked_taken(const void *block) {
  return ((const hak_free_block_t *)block)->tag == HAK_TAKEN;
}

/* Stands in for a missing block. This word can be read like any block, so the paths of `malloc` need no null test; its
 * tag is never right. */
extern const hak_free_block_t hak_no_block;
#define HAK_NO_BLOCK ((hak_free_block_t *)(uintptr_t)&hak_no_block)

/* Flags in hak_slab_t.control. The rest of the word counts the slab's free blocks (the set bits of `bits`). */
enum {
  HAK_SLAB_CURRENT = 1, /* one thread owns it, and only this thread takes blocks from it */
  HAK_SLAB_LISTED = 2,  /* it is in its class's list */
  HAK_SLAB_COUNT_SHIFT = 8,
};

/*   blocks handed out or cached  =  bump - count        (while no thread returns blocks)
 *    0 <= bump <= blocks; bump is the bump index: no block from this index on was handed out or touched */
typedef struct hak_slab {
  _Atomic uint32_t control;
  _Atomic uint8_t cls; /* HAK_CLASS_NONE: no slab is here */
  bool discarded;      /* pages of free blocks were discarded, so tags may read as zeros */
  bool zeroed;         /* blocks that were never handed out read as zeros */
  uint8_t word;        /* index into `bits` where the next search begins */
  uint8_t slices;      /* as many as a whole slab has, or 1 if the system had no memory for more */
  uint8_t list;        /* list of its class (slab.h); lock: the class's, or the owner's if CURRENT */
  bool unsealed;       /* hardened profile: some of its blocks may have no seal */
  bool guarded;        /* hardened profile: the slice behind it has no access */
  _Atomic bool data;   /* hardened profile: its blocks are of types without pointers */
  bool closed;         /* hardened profile: a framed run that waits, and whose block has no access */
  bool fenced;         /* hardened profile: block 0 stays free, so that each other block has one before it */
  _Atomic bool region; /* no slab is here, but a piece of a region, to which bits[0] points; bits[1]: its slices */
  uint32_t block_bytes, inverse;
  _Atomic uint32_t bump; /* bump index; written only by the slab's current owner */
  uint32_t blocks;
  char *base;
  union {
    struct hak_slab *next; /* neighbours in its list; lock: the class's */
    char *framed;          /* hardened profile: no slab is here, but this block of a framed run; its owner writes it */
  };
  union {
    struct hak_slab *prev;
    struct hak_mixed *mixed; /* MIXED: its finer map */
  };
  _Atomic uint32_t sparse_from; /* the slab is sparse from this count of free blocks on; lock to write: the class's */
  _Alignas(HAK_CACHE_LINE) _Atomic uint64_t bits[HAK_BITS_WORDS]; /* bit i: block i is free in the slab */
} hak_slab_t;

_Static_assert(offsetof(hak_slab_t, bits) == HAK_CACHE_LINE, "one line of fields, then the bits");

/* A mixed slab (mixed.h): pages whose blocks have different classes. `cls` of a step of 16 bytes: the class of the
 * block that starts there. The thread that fills a page writes its classes; the lock of mixed slabs protects all else.
 */
enum { HAK_MIXED_PAGES = HAK_SLAB_BYTES >> HAK_PAGE_SHIFT };
typedef struct hak_mixed {
  struct {
    uint16_t blocks, free; /* blocks of the page, known once no thread fills it; how many of them are back */
    bool owned;            /* a thread fills it */
    bool fresh;            /* the bytes that belong to no block are zeros */
  } page[HAK_MIXED_PAGES];
  uint32_t empty, zeroed; /* a bit for each page: it has no block; it reads as zeros */
  char *base;
  struct hak_mixed *next, *prev; /* list of all mixed slabs */
  _Atomic uint8_t cls[HAK_BLOCKS_MAX];
} hak_mixed_t;

typedef struct hak_slabs {
  struct hak_slabs *next_spare; /* at the start, beside other objects: a spare one touches no page of its own */
  hak_slab_t slab[HAK_CHUNK_SLABS];
} hak_slabs_t;

/* One bit a slice. */
typedef unsigned __int128 hak_mask_t;

/* State of a chunk; lock: the arena's.
 *
 *   SLICED  its slices are free or belong to slabs, runs and parts of huge blocks
 *   FREE    the first and the last chunk of an extent of free chunks
 *   HUGE    the first chunk of a huge block of whole chunks; the page map leads to it from each chunk of the block
 *   GONE    inside an extent, or unmapped: all such chunks share one descriptor, which serves error reports */
typedef enum hak_chunk_state {
  HAK_CHUNK_SPARE,
  HAK_CHUNK_SLICED,
  HAK_CHUNK_FREE,
  HAK_CHUNK_HUGE,
  HAK_CHUNK_GONE
} hak_chunk_state_t;

typedef struct hak_chunk {
  hak_mask_t present; /* mapped slices; all, unless the system had no memory for a whole chunk */
  hak_mask_t free;    /* slices that nothing uses */
  hak_mask_t dirty;   /* slices that may hold data, so they may be resident */
  hak_mask_t zeros;   /* free slices that count as dirty, but read as zeros; FREE: of an extent of one chunk */
  hak_mask_t purged;  /* slices that held blocks and were given back to the system */
  hak_mask_t purging; /* slices being purged: neither free nor in use */
  char *base;
  struct hak_chunk *next, *prev; /* list by longest run, or by extent size */
  struct hak_chunk *next_dirty, *prev_dirty;
  struct hak_chunk *next_purging;
  struct hak_chunk *mate; /* FREE: the other end. HUGE: a spare descriptor for the last chunk */
  hak_slabs_t *slabs;     /* SLICED: descriptors of its slabs */
  size_t chunks;          /* FREE (both ends) and HUGE: number of chunks */
  size_t huge_bytes;      /* HUGE, and SLICED that holds a huge block below a chunk: usable bytes */
  uint8_t state;
  uint8_t run;              /* SLICED: number of its list, an upper bound of its longest free run; 0: in no list */
  uint8_t dirty_run;        /* SLICED: an upper bound of its longest run of free dirty slices */
  uint8_t free_slices;      /* SLICED: number of bits in `free` */
  uint8_t tail;             /* SLICED: number of its first slices that belong to a huge block */
  uint8_t dirty_list;       /* SLICED: 1 + number of its list by free dirty slices; 0: in no list */
  bool for_slabs;           /* SLICED: other users take dirty slices only, unless memory is short */
  bool moved;               /* realloc moved pages to the huge block that begins here */
  struct hak_piece *region; /* HUGE: the piece of a region that begins here; its owner writes it, under the lock */
  /* Page attributes, one bit for 4 KiB: the program changed the page, and its block was not freed since. HUGE: the
   * first bit stands for the whole block. */
  _Atomic uint64_t attributes[(HAK_CHUNK_BYTES >> HAK_PAGE_SHIFT) / 64];
} hak_chunk_t;
