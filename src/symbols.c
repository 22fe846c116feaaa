/* dlsym finds this library's functions where it would find those of libc's malloc. A foreign-function interface looks
 * in libc for `free`, and passes it blocks that libc took from this library. RTLD_DEFAULT and RTLD_NEXT keep their
 * meaning. Only the preloadable library intercepts dlsym. */
#include "symbols.h"

#include "direct.h"
#include "foreign.h"
#include "hakmem.h"

#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __GLIBC__
/* Libc's function, found without a call that other libraries may intercept. */
static hak_find_symbol_t *of_libc(void) {
  uintptr_t found = 0;
  for (const struct link_map *library = _r_debug.r_map->l_next; library && !found; library = library->l_next) {
    bool is_libc = library->l_addr != 0 && hak_symbol_in(library->l_addr, "__libc_start_main") != 0;
    found = is_libc ? hak_symbol_in(library->l_addr, "dlsym") : 0;
  }
  return (hak_find_symbol_t *)found; /* NOLINT(performance-no-int-to-ptr) */
}

hak_find_symbol_t *hak_symbols_next(void) {
  static _Atomic(hak_find_symbol_t *) next;
  static _Thread_local volatile bool searching
      __attribute__((tls_model("initial-exec"))); /* dlvsym is declared to call nothing of this file */
  hak_find_symbol_t *found = atomic_load_explicit(&next, memory_order_relaxed);
  if (found || searching) { /* another library's dlvsym looks for its next one */
    return found ? found : of_libc();
  }
  searching = true;
  *(void **)&found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  searching = false;
  found = found ? found : of_libc();
  atomic_store_explicit(&next, found, memory_order_relaxed);
  return found;
}

void cfree(void *block);

/* NULL: the name is no function of malloc's family. */
static void *named(const char *name) {
#define OURS(function) \
  { #function, (void *)(function) }
  static const struct {
    const char *name;
    void *function;
  } ours[] = {
      OURS(malloc), OURS(calloc),  OURS(realloc),       OURS(reallocarray),
      OURS(free),   OURS(cfree),   OURS(memalign),      OURS(posix_memalign),
      OURS(valloc), OURS(pvalloc), OURS(aligned_alloc), OURS(malloc_usable_size),
  };
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
    if (strcmp(name, ours[i].name) == 0) {
      return ours[i].function;
    }
  }
  return NULL;
}

/* If another library's function comes first, a call of ours would pass it by. */
static void *find(void *handle, const char *name, void *mine) {
  static _Atomic(void *) libc;
  hak_find_symbol_t *next = hak_symbols_next();
  void *found = next(handle, name);
  if (!found || found == mine || next(RTLD_DEFAULT, name) != mine) {
    return found;
  }
  if (!libc) {
    libc = hak_foreign_object((void *)sbrk, 0);
  }
  return libc && found == next(libc, name) ? mine : found;
}

/* The next function reads its return address, because RTLD_NEXT and RTLD_DEFAULT depend on the caller. It must
 * therefore be entered by a jump, which the optimiser makes of the last call. */
HAK_EXPORT HAK_TAIL_CALL void *dlsym(void *restrict handle, const char *restrict name) {
  void *mine = handle == RTLD_NEXT || handle == RTLD_DEFAULT ? NULL : named(name);
  if (mine) {
    return find(handle, name, mine);
  }
  return hak_symbols_next()(handle, name);
}
#endif
