/* Duty: interpret bytes as a program for the allocator, compare its blocks with a model, and stop at the first
 * difference.
 * Used by the libFuzzer target and by the driver that replays a corpus. */
#ifndef HAK_TEST_OPERATIONS_H
#define HAK_TEST_OPERATIONS_H

#include <stddef.h>
#include <stdint.h>

/* One operation is four bytes: its kind, its slot, and a size code of two bytes (see make_corpus.py). An incomplete
 * last operation is ignored. All blocks are freed at the end. */
void run_operations(const uint8_t *program, size_t length);

#endif
