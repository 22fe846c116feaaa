/* The folder's header, for hardened/ and inspect/: the fast path, and what the sampler asks. These folders include this
 * header alone. */
#pragma once

#include "fast.h"
#include "foreign.h"
#include "page_attributes.h"
#include "sampling.h"
#include "threads/threads.h"
