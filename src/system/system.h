/* The folder's header: what the allocator needs of the kernel and of libc. Other folders include this one alone. */
#pragma once

#include "base/base.h"
#include "chance.h"
#include "direct.h"
#include "group.h"
#include "lock.h"
#include "magazine.h"
#include "maps.h"
#include "match.h"
#include "meta.h"
#include "options.h"
#include "os.h"
#include "text.h"
