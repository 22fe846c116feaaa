/* Duty: blocks of 40 to 256 KiB of the hardened profile, and larger ones where mappings are scarce: runs of the arena
 * with a frame of one page at each end, which has no access where that costs no mapping, and otherwise in one run of
 * some (gap.h). A block ends at the end of the pages between, as far as its alignment allows; its seal lies before it.
 * Data: the descriptor of a run, which is that of the slab that could begin in its place: `base` is the block,
 * `guarded` says whether the frame has no access; the owner of the block writes it. Freed runs, which wait; lock:
 * hak_framed_lock. No system call happens under it. Layers below: mapped, slab, gap, seal, arena.
 *
 *   [ frame ][ zeros ][ seal ][ the block | rest ][ frame ]
 *   └ a run of slices          └ asked bytes      └ end
 */
#pragma once

#include "system/lock.h"

/* `align` is a power of two. `headroom`: bytes behind the block for it to grow in place. *zeroed: the block reads as
 * zeros. NULL: no memory, or the block is too large for a run. */
void *hak_framed_alloc(size_t bytes, size_t align, size_t headroom, bool *zeroed);
/* Whether the address lies in a run that has a block, live or waiting. */
bool hak_framed_owns(const void *address);
/* The block of the run that holds the address, and the end of its pages for blocks; NULL: there is none. */
char *hak_framed_block(const void *address, const char **end);
/* The bytes that were asked for; aborts on anything but the start of a live block. */
size_t hak_framed_usable(const void *block, const char *function);
/* Resize the block in place. False: it does not fit, or would leave half of it unused though `shrinks` is false. */
bool hak_framed_resize(void *block, size_t bytes, bool shrinks);
void hak_framed_free(void *block, const char *function);
/* Give up the runs that are ready, and if `delayed` also those that wait in order. True: there were some. */
bool hak_framed_give_up(bool delayed);
/* Number of the class's runs that wait; may be a moment old. */
size_t hak_framed_waiting(uint32_t cls);
/* The first block that was written to outside its bytes, or after its free. NULL: there is none. For a process with one
 * thread. */
const void *hak_framed_find_damaged(hak_misuse_t *reason);

extern hak_lock_t hak_framed_lock;
