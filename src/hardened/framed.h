/* Duty: blocks of 40 to 256 KiB of the hardened profile, and larger ones where mappings are scarce. These blocks are
 * runs of the arena with a frame of one page at each end. The frame has no access where that costs no mapping, and
 * otherwise in one run of some (gap.h). A block ends at the end of the pages between, as far as its alignment allows;
 * its seal lies before it. Data: the descriptor of a run, which would describe a slab that began in its place: `base`
 * is the block, `guarded` says whether the frame has no access, `closed` whether the block has none, because it was
 * freed; the owner of the block writes it. Layers below: framed_waiting, mapped, slab, gap, seal, arena.
 *
 *   [ frame ][ zeros ][ seal ][ the block | rest ][ frame ]
 *   └ a run of slices          └ asked bytes      └ end
 */
#pragma once

#include "hardened/framed_waiting.h"

/* A run that has a block, live or waiting. */
typedef struct hak_framed_run {
  char *base, *block;
  char *end; /* of the pages for blocks */
  uint32_t cls;
  hak_slab_t *descriptor;
} hak_framed_run_t;

/* The run that holds the address. False: there is none. */
bool hak_framed_find(const void *address, hak_framed_run_t *run);

/* `align` is a power of two. `headroom`: bytes behind the block for it to grow in place. *zeroed: the block reads as
 * zeros. NULL: no memory, or the block is too large for a run. */
void *hak_framed_alloc(size_t bytes, size_t align, size_t headroom, bool *zeroed);

/* The functions below take the run that holds `block`, and abort unless it is the start of a live block. */

/* The bytes that were asked for. */
size_t hak_framed_usable(const hak_framed_run_t *run, const void *block, const char *function);
/* Resize the block in place. False: the block does not fit, or half of it would be unused though `shrinks` is false. */
bool hak_framed_resize(const hak_framed_run_t *run, void *block, size_t bytes, bool shrinks);
void hak_framed_free(const hak_framed_run_t *run, void *block, const char *function);

/* Give up the runs that are ready, and if `delayed` also those that wait in order. True: there were some. */
bool hak_framed_give_up(bool delayed);
/* The first block that was written to outside its bytes, or after its free. NULL: there is none. For a process with one
 * thread. */
const void *hak_framed_find_damaged(hak_misuse_t *reason);
