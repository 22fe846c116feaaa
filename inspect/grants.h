/* Duty: who answers the heap's questions (hook.h) while blocks are looked at. Layers below: sample, profile. */
#pragma once

#include "hook.h"

extern const hak_hook_t hak_inspection;
