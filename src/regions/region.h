/* Duty: regions, which separate memory by lifetime, plugin, tenant or request. A region has a name, limits and exact
 * counts, and all of its blocks can go at once.
 * Data: a region and its pieces, under the region's lock. The tree of regions and the list of unused ones, under
 * hak_regions_lock, which comes before the lock of a region. `used` is atomic, since each child adds to its ancestors'.
 * Layers below: threads (a scope sets the thread's heap aside), arena, meta.
 *
 *   region ── pieces ──> span   64 KiB: [block][block] ... at ─> [unused], and two bits for each step of 16 bytes
 *          │         └─> large  one block in slices or chunks of its own
 *          └─ free[class] ──> free blocks of the spans, linked through their first two words
 *
 * The page map shows class NONE for every slice of a region, so a free of such a block takes the slow path at no cost
 * to others. The slab descriptor of each 64 KiB, or the chunk's descriptor, then leads to the piece. The steps of a
 * span have one bit for "a block starts here" and one for "this block is live". So a block may have any size, a double
 * free is always seen, and neighbours are joined without any header. */
#pragma once

#include "hakmem.h"
#include "threads/threads.h"

enum {
  HAK_REGION_CLASSES = HAK_CLASS_16384 + 1, /* [0]: free blocks larger than the largest class, in given memory */
  HAK_REGION_SMALL_MAX = 16 << 10,          /* largest request that a span of 64 KiB serves */
  HAK_REGION_NAME = 48,                     /* bytes of a name, with its NUL */
  HAK_REGION_PAGE = 1 << HAK_PAGE_SHIFT,    /* unit of counting */
  HAK_REGION_GIVEN_MIN = 1024,              /* bytes: memory that the program gives must be larger */
  HAK_SPAN_STEPS = HAK_SLAB_BYTES >> HAK_BLOCK_SHIFT,
  HAK_SPAN_APART = 1024 + 128, /* bytes of a span's bits and piece, which count as used with its blocks */
  HAK_REGIONS_KEPT = 1024,     /* regions that are gone before the first of them is used again */
  HAK_REGIONS_AT_ONCE = 64,    /* that are visited without giving the lock back */
};

typedef enum hak_region_state {
  HAK_REGION_SPARE, /* nobody has it, and it may be used again */
  HAK_REGION_LIVE,
  HAK_REGION_RETIRED, /* no new blocks */
  HAK_REGION_GONE,    /* destroyed, released or retired and empty; kept for a while, so that a later use is noticed */
} hak_region_state_t;

/* Of 64 steps of a span. */
typedef struct hak_span_bits {
  uint64_t start; /* a block starts here */
  uint64_t used;  /* and it is live */
} hak_span_bits_t;

typedef struct hak_piece {
  /* The fields that a request or a free reads, in one cache line. */
  char *base;                     /* its first slice; first, since a dropped piece has a link there */
  _Atomic(hak_region_t *) region; /* changed under the lock of the region that it leaves */
  uint32_t slices, chunks;        /* both 0: memory of the program */
  bool is_span;
  bool zeroed; /* what has no block reads as zeros */
  /* Of a span: */
  uint32_t live, live_steps; /* live blocks, and their steps of 16 bytes */
  uint32_t first, at, end;   /* live blocks are between `first` and `at`; `end`: number of steps */
  hak_span_bits_t *bits;     /* not in the span: the bits of all spans would then compete for few cache sets */
  /* List of the samples among its blocks; lock: the samples'. */
  _Atomic(struct hak_sample *) samples;

  size_t charged;                /* bytes that count as used in the region */
  struct hak_piece *next, *prev; /* list of the region's pieces */
  struct hak_piece *link;        /* list of the region's empty spans */
  struct hak_piece *given;       /* list of pieces in memory of the program */
} hak_piece_t;

_Static_assert(HAK_SPAN_STEPS / 64 * sizeof(hak_span_bits_t) + sizeof(hak_piece_t) <= HAK_SPAN_APART,
               "what is counted");
_Static_assert(offsetof(hak_piece_t, charged) == HAK_CACHE_LINE, "one line");

/* A free block of a span. */
typedef struct hak_region_free {
  struct hak_region_free *next, *prev;
} __attribute__((may_alias)) hak_region_free_t;

typedef struct hak_walk hak_walk_t;
typedef bool hak_on_limit_t(hak_region_t *region, size_t bytes, hak_region_limit_kind_t limit, void *user);

struct hak_region {
  hak_lock_t lock;
  _Atomic uint8_t state;                  /* hak_region_state_t */
  uint32_t inside;                        /* scopes of threads in it */
  struct hak_region *made;                /* list of all regions that were ever made, which only grows */
  struct hak_region *parent;              /* NULL: the process. The fields below are set anew with the region */
  struct hak_region *child, *next, *prev; /* first child; siblings, or `next` in the list of regions that are gone */
  hak_walk_t *walks;                      /* under way; no span goes meanwhile */
  bool given;                             /* its only span is memory of the program */
  _Atomic bool idle;                      /* it has kept spans without a block since it was last looked through */
  _Atomic uint64_t looked;            /* how many became idle so far, when those below it were last looked through */
  _Atomic uint64_t below;             /* how many regions these were */
  _Atomic size_t used, peak;          /* bytes of its pieces and those of its descendants */
  _Atomic size_t soft, hard;          /* limits in bytes; SIZE_MAX: none */
  _Atomic(hak_on_limit_t *) on_limit; /* changed with `user`, under hak_region_callback_lock */
  void *user;
  size_t live_bytes, live_blocks; /* of this region alone */
  uint64_t allocated, freed;      /* bytes, since it was made */
  hak_piece_t *pieces, *current;  /* `current`: the span whose unused steps are handed out */
  hak_piece_t *empty;             /* spans that follow it, after a reset */
  size_t span_bytes, free_bytes;  /* of all spans; in the lists below */
  size_t freed_since;             /* bytes that were freed since neighbours were last joined */
  uint64_t listed;                /* a bit for each list that is not empty */
  hak_region_free_t *free[HAK_REGION_CLASSES];
  char name[HAK_REGION_NAME];
};

extern hak_lock_t hak_regions_lock;
/* List of all regions ever made, linked by `made`. If NULL, no thread takes a lock of this folder. The list grows at
 * its front, under hak_regions_lock, the first time under hak_meta_lock, so that no fork misses it. */
extern _Atomic(hak_region_t *) hak_regions_made;
HAK_INLINE hak_region_t *hak_region_newest(void) {
  return atomic_load_explicit(&hak_regions_made, memory_order_acquire); /* pairs with push */
}
/* The region that has the blocks of released regions, and makes none. */
extern hak_region_t hak_regions_released;
/* The region of the whole process. Its memory is the ordinary heap's, and its limits are those of limit.h; only its
 * callback is here. This region is in no list, and nobody takes its lock. */
extern hak_region_t hak_region_root;
HAK_INLINE hak_region_state_t hak_region_state(hak_region_t *region) {
  return (hak_region_state_t)atomic_load_explicit(&region->state, memory_order_relaxed);
}

/* Of one request. */
typedef struct hak_region_ask {
  bool soft;                     /* soft limits count */
  hak_region_t *met;             /* the region whose limit would be passed, or NULL */
  hak_region_limit_kind_t limit; /* which one */
} hak_region_ask_t;

/* piece.c */

/* The piece that holds the address; NULL: no region has it. */
hak_piece_t *hak_piece_at(const void *address);
/* Take the lock of the piece's region, which may change until then. */
hak_region_t *hak_piece_lock(const hak_piece_t *piece);
/* An aligned piece, of no region yet. NULL: no memory. */
hak_piece_t *hak_piece_take(size_t bytes, size_t align, bool is_span);
void hak_piece_enter_locked(hak_region_t *region, hak_piece_t *piece);
void hak_piece_leave_locked(hak_piece_t *piece);
/* Under the hardened profile: overwrite all blocks of a piece with zeros. */
void hak_piece_wipe(const hak_piece_t *piece);
/* Give the memory of a piece that left its region. No lock is held. */
void hak_piece_give(hak_piece_t *piece);
/* Resize the block of a large piece. Returns its address; NULL: the block is unchanged. */
void *hak_piece_resize(hak_piece_t *piece, size_t bytes);
/* Make a span of memory that the program gave. False: the memory is too small. */
bool hak_piece_adopt(hak_region_t *region, void *memory, size_t bytes);
/* The block was freed, so it is no sample any more. NULL: all of the piece's blocks were. */
HAK_INLINE void hak_region_unsample(hak_piece_t *piece, const void *block) {
  if (HAK_UNLIKELY(atomic_load_explicit(&piece->samples, memory_order_relaxed) != NULL)) {
    hak_hook_sampler.out_of_region(piece, block);
  }
}
extern hak_lock_t hak_pieces_lock;

/* span.c; the region's lock is held. */

/* Begin with a span of so many steps, whose bits are clear. No block lies before `first`. */
void hak_span_format(hak_piece_t *span, uint32_t first, uint32_t steps);
/* NULL: the spans have no room, or ask->met would pass a limit. */
void *hak_span_take_locked(hak_region_t *region, size_t bytes, size_t align, bool *zeroed, hak_region_ask_t *ask);
/* Begin to read what the free of a block will read. No lock is held. */
HAK_INLINE void hak_region_prefetch(const hak_piece_t *span, const void *block) {
  __builtin_prefetch(block, 1);
  __builtin_prefetch(&span->bits[(size_t)((const char *)block - span->base) >> HAK_BLOCK_SHIFT >> 6], 1);
}
/* Free a block. Returns the span if it is empty and the region has another one; the caller then gives it. */
hak_piece_t *hak_span_put_locked(hak_region_t *region, hak_piece_t *span, void *block, const char *function);
/* The usable bytes of a block. Aborts, and names `function`, unless a live block starts there. */
size_t hak_span_usable(const hak_piece_t *span, const void *block, const char *function);
/* Take the free blocks of a span without a live one from the lists. */
void hak_span_unlist_all(hak_region_t *region, hak_piece_t *span);
/* Free all blocks of a span whose region keeps no list of free ones. */
void hak_span_reset_locked(hak_piece_t *span);
/* The next live block from a step on; `end` if there is none. */
uint32_t hak_span_next_live(const hak_piece_t *span, uint32_t step);
void hak_span_check_locked(const hak_piece_t *span);
/* Join free neighbours, and put the span's free blocks into the region's lists. */
void hak_span_list_locked(hak_region_t *region, hak_piece_t *span);
void hak_span_forget_lists(hak_region_t *region);

/* region.c */

/* Count bytes in the region and its ancestors. False: a limit would be passed, and nothing is counted. A request that
 * cannot pass is never counted meanwhile, so that it makes no other fail. */
bool hak_region_charge(hak_region_t *region, size_t bytes, hak_region_ask_t *ask);
void hak_region_uncharge(hak_region_t *region, size_t bytes);
/* A request succeeded: what is used may be the most so far. */
void hak_region_raise_peaks(hak_region_t *region);
/* Returns NULL and sets *starved if no limit of a region was met, but there is no memory, or the process is at its
 * limit. Without a function to name, a region that is gone gives NULL. */
void *hak_region_take(hak_region_t *region, size_t bytes, size_t align, bool *zeroed, const char *function,
                      bool *starved);
/* Set the callback of a region, or of the process. */
void hak_region_set_callback(hak_region_t *region, hak_on_limit_t *on_limit, void *user);
/* Ask the program whether a request of the process may pass its soft limit, or be tried again. No lock is held. */
bool hak_region_ask_process(size_t bytes, hak_region_limit_kind_t limit);
void hak_region_put(hak_piece_t *piece, void *block, const char *function);
/* The block stays in its region. NULL: no memory, or the region was released meanwhile; the block is unchanged. */
void *hak_region_resize(hak_piece_t *piece, void *block, size_t bytes, const char *function, bool *starved);
size_t hak_region_usable(const hak_piece_t *piece, const void *block, const char *function);
bool hak_region_is_released(const hak_piece_t *piece);
/* Whether it is live or retired. */
bool hak_region_is_open(hak_region_t *region);
/* Abort, and name `function`, if the region is gone. */
void hak_region_expect(hak_region_t *region, const char *function);
/* NULL: no memory. The caller sets its limits. */
hak_region_t *hak_region_make(hak_region_t *parent, const char *name);
/* `bytes`: length of the name with its NUL, at most HAK_REGION_NAME. */
void hak_region_rename(hak_region_t *region, const char *name, size_t bytes);

/* region_end.c */

/* The one that ended first, if many are kept. NULL: make one. */
hak_region_t *hak_region_unused(void);
/* End the region and its descendants. `keep`: their live blocks become ordinary blocks. */
void hak_region_end(hak_region_t *region, bool keep, const char *function);
void hak_region_end_blocks(hak_region_t *region);
/* The region keeps a span without a block. */
void hak_region_note_idle(hak_region_t *region);
/* Take the spans without a block out of the region, and add them to the list; or only those that a walk emptied. */
void hak_region_take_idle_locked(hak_region_t *region, bool all, hak_piece_t **list);
/* Give the spans without a block of a region at its limit and its descendants. False: there are no such spans, or
 * too few to be worth the search; `few`: search for few, too. */
bool hak_region_give_idle(hak_region_t *region, bool few);
/* Give the spans without a block of all regions. */
void hak_region_trim(void);
/* Release the region's lock, and give the memory of pieces that left it. The region ends if it is retired and empty. */
void hak_region_unlock_and_give(hak_region_t *region, hak_piece_t *pieces);
/* No new blocks; it ends once it is empty. */
void hak_region_close(hak_region_t *region);
/* A retired region that became empty ends, unless it has children. */
bool hak_region_is_done_locked(hak_region_t *region);
void hak_region_end_if_done(hak_region_t *region);
/* Count a scope that begins or ends. */
void hak_region_count_scope(hak_region_t *region, bool begins, const char *function);

/* region_each.c */

int hak_region_visit(hak_region_t *region, int (*visit)(void *block, size_t bytes, void *context), void *context);
/* A piece is about to leave its region. */
void hak_region_walks_pass_locked(const hak_piece_t *piece);
/* Visit the regions that have not ended, each under the lock of the regions. */
void hak_region_each(void (*visit)(hak_region_t *region, void *context), void *context);
/* Visit the locks of this folder, from the region `newest` on. NULL: visit none. */
void hak_region_each_lock(hak_region_t *newest, void (*visit)(hak_lock_t *lock, bool flag), bool flag);
/* In the child of a fork: only the calling thread is left. */
void hak_region_fork_child(void);
void hak_region_check(void);

/* scope.c */

struct hak_scope;
/* The scope to which the thread's requests go; NULL: none. */
extern _Thread_local struct hak_scope *hak_scope __attribute__((tls_model("initial-exec")));
hak_region_t *hak_scope_region(void);
/* Run the thread's ordinary heap for a while inside a scope. */
void hak_scope_suspend(void);
void hak_scope_resume(void);
/* Set the thread's heap and its scope aside during a call that other libraries may intercept, or the report of a
 * misuse, in which the region's lock may be held; and restore them. */
void hak_scope_step_aside(hak_aside_t *state);
void hak_scope_step_back(const hak_aside_t *state);
/* Call visit for each scope of the thread. */
void hak_scope_each(void (*visit)(hak_region_t *region));
/* Begin a scope. False: no memory. */
bool hak_scope_begin(hak_region_t *region);
/* End the innermost scope, which must be of the region. */
void hak_scope_end(hak_region_t *region);
/* The thread ends: so do its scopes. */
void hak_scope_thread_ends(void);
