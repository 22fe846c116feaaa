/* Duty: the research gates of gates.def as constants: HAK_GATE_NAME is 0 or 1. Code asks by `if (HAK_GATE_NAME)`, so
 * that every arm compiles and only one is left; a test at run time would burden both arms of an experiment.
 * The build overrides a default by -DHAKMEM_GATE_NAME=0 or 1 (HAKMEM_GATES, cmake/gates.cmake). Below: nothing. */
#ifndef HAK_GATES_H
#define HAK_GATES_H

/* HAK_GATE_VALUE(set, normally): 0 or 1 where `set` is that, and `normally` where it is a name without a definition,
 * because then HAK_GATE_WHEN_<name> is one too and does not shift the arguments. */
#define HAK_GATE_WHEN_0 ~, 0,
#define HAK_GATE_WHEN_1 ~, 1,
#define HAK_GATE_SECOND(first, second, ...) second
#define HAK_GATE_CHOOSE(when, normally) HAK_GATE_SECOND(when normally, normally, ~)
#define HAK_GATE_PASTE(set, normally) HAK_GATE_CHOOSE(HAK_GATE_WHEN_##set, normally)
#define HAK_GATE_VALUE(set, normally) HAK_GATE_PASTE(set, normally)

#define HAK_GATE(name, normally, expires, help) HAK_GATE_##name = HAK_GATE_VALUE(HAKMEM_GATE_##name, normally),
enum {
#include "gates.def"
  HAK_GATES_END
};
#undef HAK_GATE

#endif
