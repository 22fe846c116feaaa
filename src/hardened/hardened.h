/* The folder's header; inspect/ includes this one alone. Duty: the hardened profile's own paths of malloc, free and
 * realloc. Every bin of a thread stays empty under the profile, so each call takes the slow path, which leads here.
 * Data: none. Layers below: mapped, quarantine, heap. */
#pragma once

#include "framed.h"
#include "framed_waiting.h"
#include "malloc/malloc.h"
#include "mapped.h"
#include "quarantine.h"

/* Start-up: put the profile in force, if the options say so. Blocks that were handed out before have no seals. */
void hak_hardened_start(bool (*unused)(void));

/* malloc and free. */
HAK_HOT void *hak_hardened_malloc(size_t bytes);
HAK_HOT void hak_hardened_free(void *block);
/* bytes > 0. *zeroed: it reads as zeros. NULL: no memory. */
HAK_NOINLINE void *hak_hardened_alloc(size_t bytes, size_t align, bool *zeroed);
/* Free any block; the caller names its size. */
HAK_NOINLINE void hak_hardened_free_sized(void *block, size_t bytes);
HAK_NOINLINE void *hak_hardened_realloc(void *block, uint32_t cls, size_t bytes);
/* The bytes that were asked for; aborts unless the block is live. HAK_UNSEALED: no block of the profile. */
HAK_NOINLINE size_t hak_hardened_usable(const void *block, const char *function);

/* hardened_large.c: blocks above HAK_SEALED_MAX, or with a large alignment. `named` as for free_sized; HAK_UNSEALED:
 * none. Free returns false if it is no such block. */
void *hak_hardened_alloc_large(size_t bytes, size_t align, bool *zeroed);
HAK_NOINLINE bool hak_hardened_free_large(void *block, size_t named, const char *function);

/* Whether a thread is changing a large block. *begun: the number of changes so far. */
bool hak_hardened_changes(uint32_t *begun);

/* Allocation tokens. The first function says whether a token means a type without pointers. The second sets the kind of
 * type for which the thread allocates from here on, and returns the kind before. */
bool hak_hardened_is_data(size_t token);
bool hak_hardened_type(bool data);

/* In the child of a fork: other threads of the parent may have left blocks in the middle of a change. */
void hak_hardened_fork_child(hak_heap_t *mine);
/* Look for misuse at the end of the process. */
void hak_hardened_exit(bool unused);
