/* The folder's header: a thread's heap, its bins and cache, and the depot. Other folders include this one alone. */
#pragma once

#include "background.h"
#include "bin.h"
#include "blocks/blocks.h"
#include "cache.h"
#include "depot.h"
#include "heap.h"
#include "policy.h"
