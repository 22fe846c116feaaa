/* Duty: random numbers of the hardened profile. Their keys have nothing in common with the secrets of seals, so that
 * what they show (which block, how many pages) tells nothing about a seal, and no number follows from earlier ones by
 * arithmetic. Data: two keys, written before the profile is in force and in the child of a fork, and a counter that any
 * thread increments. Layers below: os. */
#pragma once

#include "base/base.h"

/* Draw new keys. */
void hak_chance_renew(void);
/* A number below `limit`. */
uint32_t hak_chance(uint32_t limit);
