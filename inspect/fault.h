/* Duty: what happens at a fault: told from others by its address, one in the pool of guarded blocks is explained; then
 * the program's handler has it, or it ends the process, as without us.
 * Data: the action that was there before. Layers below: guard. */
#pragma once

#include "base.h"

/* Before the program's own handlers are set. One that it sets later replaces this one, and then nothing is told. */
bool hak_fault_watch(void);
