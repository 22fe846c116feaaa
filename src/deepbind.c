/* dlopen without RTLD_DEEPBIND, which makes plugins free with libc's free what libc took from us; in the preloadable
 * library only, and not where the option KEEP_DEEPBIND says that the program needs the flag more. */
#include "hakmem.h"

#include "options.h"

#include <dlfcn.h>

/* Of the library that this file is part of: see process.c. */
extern const bool hak_never_unloaded;
const bool hak_never_unloaded = true;

#ifdef RTLD_DEEPBIND /* musl has no such flag */
/* The real function reads its return address: the search path of the library that calls counts. So it must be
 * entered by a jump, which the optimiser makes of the last call. */
HAK_EXPORT HAK_TAIL_CALL void *dlopen(const char *file, int mode) {
  void *(*next)(const char *, int);
  *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
  return next(file, hak_option(HAK_OPTION_KEEP_DEEPBIND) ? mode : mode & ~RTLD_DEEPBIND);
}
#endif
