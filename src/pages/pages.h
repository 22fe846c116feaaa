/* The folder's header: the arena and the page map. Other folders include this one alone. mapping.h stays inside. */
#pragma once

#include "arena.h"
#include "chunks.h"
#include "limit.h"
#include "pagemap.h"
#include "purge.h"
#include "retain.h"
#include "system/system.h"
