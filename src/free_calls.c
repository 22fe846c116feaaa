#include "free_calls.h"

#ifdef HAKMEM_GATE_TINY_FREE_CALLS
hak_free_calls_t hak_free_calls;
#endif
