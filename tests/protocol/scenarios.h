#ifndef HAK_TEST_SCENARIOS_H
#define HAK_TEST_SCENARIOS_H

#include "explore.h"

/* The last entry has no name. */
extern const Scenario slab_scenarios[], fork_scenarios[];

/* Explores known small programs, with and without reduction, and programs that must fail. */
void selftest(void);

#endif
