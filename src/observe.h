/* Duty: what the observe build counts on the hot path: blocks and frees by class, and the latest events.
 * In any other build every function here is empty and nothing of it is left.
 * Data: counters and a ring, shared by all threads (relaxed atomics). Layers below: text, geometry. */
#ifndef HAK_OBSERVE_H
#define HAK_OBSERVE_H

#include "geometry.h"

#ifdef HAKMEM_OBSERVE
void hak_observe_alloc(const void *block, size_t bytes);
void hak_observe_free(const void *block, size_t cls);
/* Print the histogram on stderr. */
void hak_observe_print(void);
/* Print what happened to the block lately. */
void hak_observe_explain(const void *block);
#else
HAK_INLINE void hak_observe_alloc(const void *block, size_t bytes) {
  (void)block, (void)bytes;
}
HAK_INLINE void hak_observe_free(const void *block, size_t cls) {
  (void)block, (void)cls;
}
HAK_INLINE void hak_observe_print(void) {}
HAK_INLINE void hak_observe_explain(const void *block) {
  (void)block;
}
#endif

#endif
