/* Duty: the freed framed runs of the hardened profile. The runs wait in order, and then until they are drawn. The block
 * itself tells its run. Data: the blocks of each class; lock: hak_framed_lock. Layers below: seal, chance. */
#pragma once

#include "system/system.h"

/* Let a run of the class wait. Returns the block that has no place any more; NULL: there is none. */
char *hak_framed_put(uint32_t cls, char *block);
/* A block that has waited in order, drawn at random. NULL: none is ready. */
char *hak_framed_take_ready(uint32_t cls);

/* The places of all classes. */
enum {
  HAK_FRAMED_WAITING_MAX = 8, /* blocks of a class that wait in order; as many others can be ready */
  HAK_FRAMED_PLACES = 2 * HAK_FRAMED_WAITING_MAX * (HAK_CLASS_COUNT - HAK_RUN_FIRST),
};
/* The block of a place, or NULL. `delayed`: also one that waits in order. */
char *hak_framed_take_place(uint32_t place, bool delayed);
/* Number of the class's runs that wait; may be a moment old. */
size_t hak_framed_waiting(uint32_t cls);

extern hak_lock_t hak_framed_lock;
