/* Duty: how much a thread caches: capacities that are granted, earned and lost, and how much a refill fetches.
 * Data: the info of the calling thread's bins. Layers below: bin, arena (how much is in use), options. */
#pragma once

#include "bin.h"

/* Caches that a thread has now, as the owner of their list says; at least 1. */
void hak_cache_set_open(size_t caches);
size_t hak_caches_open(void);

/* A thread takes the cache. */
void hak_policy_open(hak_heap_t *heap, uint32_t cls);
/* It has the cache no more: what that might keep counts no longer. */
void hak_policy_close(hak_heap_t *heap);
/* Nothing of the class is ever cached, by an option. */
bool hak_policy_is_off(const hak_bin_info_t *info);

/* How many blocks the next refill fetches. */
uint32_t hak_policy_refill(hak_bin_info_t *info, uint32_t cls);
/* So many were fetched: the capacity may grow. */
void hak_policy_fetched(hak_heap_t *heap, uint32_t cls, uint32_t blocks);
/* Whether the thread should keep the slab that it fetched from. */
bool hak_policy_keeps_current(const hak_bin_info_t *info);

/* The list overflows. NONE: there is no room at all, not even for one. FREES: the thread seems to free only; its
 * capacity shrank, and all should go. */
typedef enum hak_overflow { HAK_OVERFLOW_NONE, HAK_OVERFLOW_HALF, HAK_OVERFLOW_FREES } hak_overflow_t;
hak_overflow_t hak_policy_overflow(hak_heap_t *heap, uint32_t cls);

/* Nothing was fetched or returned for a while. */
void hak_policy_idle(hak_heap_t *heap, uint32_t cls);
