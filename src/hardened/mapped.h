/* Duty: large blocks of the hardened profile. Each has a mapping of its own between pages without access. The block
 * ends at the end of its last page, as far as its alignment allows. Once the profile has made its share of mappings
 * (gap.h), the pages around the block are filled instead: then neighbours are one mapping.
 * Data: the table of live blocks and the freed regions whose addresses wait; lock: hak_mapped_lock. No system call
 * happens under this lock. Layers below: seal, gap, arena, os.
 *
 *   [ no access ][ bytes before | the block | bytes behind ][ no access ]
 *                └────────── whole pages ──────────────────┘
 */
#pragma once

#include "system/system.h"

/* Start-up, if the options ask for the profile. */
void hak_mapped_start(void);

/* What is around a block: pages without access, or else pages that are filled, and checked when the block is freed. */
typedef enum hak_mapped_kind { HAK_MAPPED_GUARDED, HAK_MAPPED_FILLED } hak_mapped_kind_t;

/* `align` is a power of two. The block reads as zeros. headroom: bytes of addresses for it to grow in place. data: it
 * is of a type without pointers. NULL: no memory, or for a GUARDED block too many mappings. */
void *hak_mapped_alloc(size_t bytes, size_t align, size_t headroom, hak_mapped_kind_t kind, bool data);
/* Whether a live block begins at the address. */
bool hak_mapped_owns(const void *address);
/* Why none begins there. INVALID: the address was never in one. Searches everything. */
hak_misuse_t hak_mapped_why(const void *address);
/* The bytes that were asked for; aborts on anything but a live block. */
size_t hak_mapped_usable(const void *block, const char *function);
bool hak_mapped_is_data(const void *block);
/* Resize the block in place. False: the block does not fit, or half of it would be unused though `shrinks` is false. */
bool hak_mapped_resize(void *block, size_t bytes, bool shrinks);
void hak_mapped_free(void *block, const char *function);
/* Memory is short: unmap the freed regions whose addresses wait, if a request for so many bytes fits then. False: it
 * would not. */
bool hak_mapped_forget(size_t bytes);
size_t hak_mapped_waiting_bytes(void);
/* The first live block that was written to outside its bytes. NULL: there is none, or another thread has the lock. */
const void *hak_mapped_find_damaged(bool *before);

/* The bytes of the live or waiting block around an address, and the address's offset in it. 0: there is none, or
 * another thread has the lock. Searches everything. */
size_t hak_mapped_place(const void *address, size_t *offset);

extern hak_lock_t hak_mapped_lock;
