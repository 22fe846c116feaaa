#include "lock.h"

_Thread_local bool hak_lock_passes __attribute__((tls_model("initial-exec")));
