/* Contents for a block that are derived from a tag: two blocks that overlap, or a block that moved wrongly,
 * differ from what their tags say.
 *
 * Blocks up to PATTERN_FULL_BYTES are written whole; longer ones at both ends and at PATTERN_PROBES places between,
 * so that a step of a random walk costs the same for every size. */
#ifndef HAK_TEST_PATTERN_H
#define HAK_TEST_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATTERN_FULL_BYTES 512
#define PATTERN_PROBES 16

void pattern_fill(void *block, size_t bytes, uint64_t tag);

/* Whether the first `bytes` of the block hold the pattern of a block that was filled with `filled_bytes` bytes
 * (bytes <= filled_bytes, since a realloc may have shortened the block). */
bool pattern_holds(const void *block, size_t bytes, size_t filled_bytes, uint64_t tag);

bool all_zero(const void *block, size_t bytes);

#endif
