/* Duty: the hardened profile's own paths of malloc, free and realloc. Every bin of a thread stays empty under the
 * profile, so each call takes the slow path, which leads here.
 * Data: none. Layers below: mapped, quarantine, heap. */
#pragma once

#include "heap.h"
#include "seal.h"

/* Start-up: put the profile in force, if the options say so. Blocks that were handed out before have no seals. */
void hak_hardened_start(void);

/* bytes > 0. *zeroed: it reads as zeros. NULL: no memory. */
HAK_NOINLINE void *hak_hardened_alloc(size_t bytes, size_t align, bool *zeroed);
/* False: it is none of the profile's small blocks. */
HAK_NOINLINE bool hak_hardened_free(void *block, const char *function);
HAK_NOINLINE void *hak_hardened_realloc(void *block, uint32_t cls, size_t bytes);
/* The bytes that were asked for; aborts unless the block is live. HAK_UNSEALED: no block of the profile's. */
#define HAK_UNSEALED SIZE_MAX
HAK_NOINLINE size_t hak_hardened_usable(const void *block, const char *function);
/* A caller frees the block and names its size. */
void hak_hardened_expect_size(const void *block, size_t bytes, const char *function);

/* In the child of a fork: other threads of the parent may have left blocks in the middle of a change. */
void hak_hardened_fork_child(void);
/* Look for misuse at the end of the process. */
void hak_hardened_verify(const char *function);
