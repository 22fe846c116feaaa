/* Stops the calling thread before every instruction of a call, so that something can be done at each place where
 * another thread could meet it. For x86-64, by the processor's single-step flag; not at all elsewhere. */
#ifndef HAK_TEST_STEPS_H
#define HAK_TEST_STEPS_H

#include <stdbool.h>

#ifdef __x86_64__
enum { STEPS_SUPPORTED = true };
#else
enum { STEPS_SUPPORTED = false };
#endif

/* Calls act(argument), and visit(n) in a signal handler before its n-th instruction. Returns the number of them. */
unsigned steps_run(void (*act)(void *argument), void *argument, void (*visit)(unsigned step));

/* In a visit: no more of them. */
void steps_end(void);

#endif
