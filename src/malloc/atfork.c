/* Intercepts pthread_atfork of C libraries that define it as an ordinary function, as musl does and glibc does not.
 * Only the preloadable library has this: a static program cannot have a second function of that name. */
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
