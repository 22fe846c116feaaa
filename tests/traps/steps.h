/* Stops the calling thread before every instruction of a call, so that a test can act at each state that another thread
 * could meet. It uses the single-step flag of x86-64, and does nothing on other machines. */
#ifndef HAK_TEST_STEPS_H
#define HAK_TEST_STEPS_H

#include <stdbool.h>

#ifdef __x86_64__
enum { STEPS_SUPPORTED = true };
#else
enum { STEPS_SUPPORTED = false };
#endif

/* Calls act(argument), and visit(n) in a signal handler before its n-th instruction. Returns the number of
 * instructions. */
unsigned steps_run(void (*act)(void *argument), void *argument, void (*visit)(unsigned step));

/* Call it in a visit to end the visits. */
void steps_end(void);

#endif
