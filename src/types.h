/* Duty: the objects of the shared heap and who points to whom. Layers below: geometry.
 *
 *   hak_window ── classes[unit]  one byte: 0, the class of the slab there, or LARGE for the start of a large block
 *        │
 *        └─────── slots[slot]   masks of its 32 units
 *                      └─ super ── slabs[32]   one descriptor a unit, far from the blocks it describes
 *
 * A free block carries two words:   link  the next free block of its list
 *                                   tag   link ^ key of the list, or, in a slab, address ^ key of the slabs
 * The tag is verified before the link is followed, and replaced when the block is handed out: a block that
 * is in a list twice, and a block written to while it was free, both stop the process there. */
#ifndef HAK_TYPES_H
#define HAK_TYPES_H

#include "geometry.h"

typedef struct hak_free_block {
  struct hak_free_block *link;
  uintptr_t tag;
} __attribute__((may_alias)) hak_free_block_t;

_Static_assert(sizeof(hak_free_block_t) <= HAK_BLOCK_MIN, "a free block holds its link and tag");

/* Flags in hak_slab_t.control; the rest of the word counts the blocks that lie in the slab (bits set). */
enum {
  HAK_SLAB_CURRENT = 1, /* one thread takes blocks from it, and nobody else does */
  HAK_SLAB_LISTED = 2,  /* it stands in its class's list */
  HAK_SLAB_COUNT_SHIFT = 8,
  HAK_SLAB_COUNT_ONE = 1 << HAK_SLAB_COUNT_SHIFT,
};

/* Of a slab: everything below. Of a large block, in the descriptor of its first unit: base, large_bytes, units.
 *
 *   blocks handed out or cached  =  carved - count        (once no return is in flight)
 *   0 <= carved <= blocks; a block with index >= carved was never handed out and its memory was not touched */
typedef struct hak_slab {
  _Atomic uint32_t control;
  _Atomic uint8_t cls; /* HAK_CLASS_NONE: the unit is not a slab now */
  bool discarded;      /* pages of free blocks were given back: their tags may read as zeros */
  bool zeroed;         /* blocks never handed out read as zeros */
  uint8_t word;        /* where the next search for free blocks begins */
  uint32_t block_bytes, inverse;
  _Atomic uint32_t carved; /* written by the one who may take from the slab */
  uint32_t blocks;
  char *base;
  struct hak_slab *next, *prev; /* class's list; lock: the class's */
  size_t large_bytes;           /* usable bytes of a large block */
  uint32_t units;               /* of a large block */
  uint32_t swept_count;         /* free blocks when its free pages were last given back; lock: the class's */
  _Alignas(HAK_CACHE_LINE) _Atomic uint64_t bits[HAK_BITS_WORDS]; /* bit i: block i lies free in the slab */
} hak_slab_t;

_Static_assert(offsetof(hak_slab_t, bits) == HAK_CACHE_LINE, "one line of fields, then the bits");

typedef struct hak_super {
  hak_slab_t slabs[HAK_SLOT_UNITS];
} hak_super_t;

typedef enum hak_slot_state { HAK_SLOT_UNMAPPED, HAK_SLOT_MAPPED, HAK_SLOT_FOREIGN } hak_slot_state_t;

/* Masks have one bit a unit; lock: the arena's. */
typedef struct hak_slot {
  hak_super_t *super; /* made when a block first begins in the slot; stays, also while the slot is unmapped */
  uint32_t free;      /* nobody has it */
  uint32_t dirty;     /* it may hold something else than zeros, so it is resident */
  uint32_t aged;      /* free and dirty since before the last decay epoch began */
  uint32_t purged;    /* was given back to the system lately (a hint for the release policy) */
  uint8_t state;
  uint8_t run;         /* longest run of free units */
  uint8_t dirty_units; /* units that are free and dirty */
} hak_slot_t;

_Static_assert(sizeof(hak_slot_t) == 32, "the tables are made writable in whole pages");

typedef struct hak_window {
  uintptr_t base;   /* multiple of the slot size; 0 before the window exists */
  size_t units;     /* 0 before the window exists: every address is outside */
  uint8_t *classes; /* one byte a unit; readable everywhere, writable below `slots_ready` */
  hak_slot_t *slots;
  size_t slots_ready; /* slots whose tables can be written */
  size_t slots_used;  /* slots with a higher index were never mapped */
} hak_window_t;

extern hak_window_t hak_window;

HAK_INLINE size_t hak_unit_of(const void *address) {
  return ((uintptr_t)address - hak_window.base) >> HAK_UNIT_SHIFT;
}
HAK_INLINE hak_slab_t *hak_slab_at(size_t unit) {
  return &hak_window.slots[unit / HAK_SLOT_UNITS].super->slabs[unit % HAK_SLOT_UNITS];
}
/* The value of the class map for any address; HAK_CLASS_NONE outside the window. */
HAK_INLINE uint32_t hak_class_at(const void *address) {
  size_t unit = hak_unit_of(address);
  return HAK_LIKELY(unit < hak_window.units) ? hak_window.classes[unit] : (uint32_t)HAK_CLASS_NONE;
}

#endif
