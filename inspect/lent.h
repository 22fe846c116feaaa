/* Duty: room in threads' lists that the sampler lends them, so that a grant is of several blocks.
 * Data: how much was lent to all of them together; what a class of a thread has is in its bin's info. Layers below:
 * policy, bin. */
#pragma once

#include "bin.h"

/* Room for so many more blocks. False: all threads together have enough of that. */
bool hak_lend(hak_heap_t *heap, uint32_t cls, uint32_t blocks);
/* The end of that. */
void hak_lent_take_back(hak_heap_t *heap, uint32_t cls);
/* The capacity is set anew, so that it is part of it no more. */
void hak_lent_is_back(hak_bin_info_t *info, uint32_t cls);

/* The first blocks of the bin's list are granted, so many. */
void hak_grant_some(hak_heap_t *heap, uint32_t cls, int32_t blocks);
/* Those before the one that is sampled. False: it is the next, or not among them. */
bool hak_grant_cut(hak_heap_t *heap, uint32_t cls);

/* The blocks of a grant are as its room says, and of the class. */
void hak_grant_check(hak_heap_t *heap, uint32_t cls);
