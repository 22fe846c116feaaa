/* The folder's header: regions, their pieces, and scopes. Other folders include this one alone. */
#pragma once

#include "region.h"
