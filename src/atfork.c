/* The fork handlers of a C library whose pthread_atfork is a function of its own, as in musl, unlike glibc. Only the
 * preloadable library has them: a static program cannot have a second function of that name. */
#include "hakmem.h"

#include "process.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#ifndef __GLIBC__
static int register_next(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *module) {
  int (*next)(void (*)(void), void (*)(void), void (*)(void));
  *(void **)&next = dlsym(RTLD_NEXT, "pthread_atfork");
  (void)module;
  return next ? next(prepare, parent, child) : ENOMEM;
}

HAK_EXPORT int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  return hak_process_register(register_next, prepare, parent, child, NULL);
}
#endif
