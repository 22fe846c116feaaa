#include "steps.h"

#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

#include "check.h"

#ifdef __x86_64__

enum { TRAP_FLAG = 0x100 };

static void (*visitor)(unsigned step);
static volatile unsigned taken;
static volatile bool ends;

static void on_step(int number, siginfo_t *info, void *context) {
  (void)number;
  (void)info;
  if (!ends) {
    visitor(taken);
    taken++;
  }
  if (ends) {
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
  }
}

void steps_end(void) {
  ends = true;
}

unsigned steps_run(void (*act)(void *argument), void *argument, void (*visit)(unsigned step)) {
  struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
  visitor = visit;
  taken = 0;
  ends = false;
  /* Skip the red zone, which the compiler may use. */
  __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq %0, (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp"
                   :
                   : "i"(TRAP_FLAG)
                   : "memory", "cc");
  act(argument);
  ends = true;
  __asm__ volatile("nop" ::: "memory");
  return taken;
}

#else

unsigned steps_run(void (*act)(void *argument), void *argument, void (*visit)(unsigned step)) {
  (void)visit;
  act(argument);
  return 0;
}

void steps_end(void) {}

#endif
