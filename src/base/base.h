/* The folder's header: vocabulary, sizes and classes, masks, the objects, the tables of hooks. Other folders include
 * this one alone. */
#pragma once

#include "geometry.h"
#include "hook.h"
#include "mask.h"
#include "types.h"
#include "vocabulary.h"
