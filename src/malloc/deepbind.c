/* dlopen without RTLD_DEEPBIND. With that flag, plugins call libc's free on blocks that libc took from this allocator.
 * Only the preloadable library intercepts dlopen. With the option KEEP_DEEPBIND, the flag stays. */
#include "hakmem.h"

#include "system/system.h"

#include <dlfcn.h>

/* Set in the library that contains this file: see process.c. */
extern const bool hak_never_unloaded;
const bool hak_never_unloaded = true;

#ifdef RTLD_DEEPBIND /* musl has no such flag */
/* The real function reads its return address, because the caller's library determines the search path. It must
 * therefore be entered by a jump, which the optimiser makes of the last call. */
HAK_EXPORT HAK_TAIL_CALL void *dlopen(const char *file, int mode) {
  void *(*next)(const char *, int);
  *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
  return next(file, hak_option(HAK_OPTION_KEEP_DEEPBIND) ? mode : mode & ~RTLD_DEEPBIND);
}
#endif
