/* dlsym finds this library's functions where it would find those of libc's malloc. A foreign-function interface looks
 * in libc for `free`, and passes it blocks that libc took from this library. RTLD_DEFAULT and RTLD_NEXT keep their
 * meaning. Only the preloadable library intercepts dlsym. */
#include "symbols.h"

#include "hakmem.h"
#include "system/system.h"

#include <dlfcn.h>
#include <link.h>

#ifdef __GLIBC__
/* Libc's function, found without a call that other libraries may intercept. */
static uintptr_t in_libc(const char *name) {
  static _Atomic uintptr_t libc;
  for (const struct link_map *library = _r_debug.r_map->l_next; library && !libc; library = library->l_next) {
    bool is_libc = library->l_addr != 0 && hak_object_symbol(library->l_addr, "__libc_start_main") != 0;
    libc = is_libc ? library->l_addr : 0;
  }
  return libc ? hak_object_symbol(libc, name) : 0;
}

static hak_find_symbol_t *dlsym_of_libc(void) {
  return (hak_find_symbol_t *)in_libc("dlsym"); /* NOLINT(performance-no-int-to-ptr) */
}

hak_find_symbol_t *hak_symbols_next(void) {
  static _Atomic(hak_find_symbol_t *) next HAK_START_DATA;
  static _Thread_local volatile bool searching
      __attribute__((tls_model("initial-exec"))); /* dlvsym is declared to call nothing of this file */
  hak_find_symbol_t *found = atomic_load_explicit(&next, memory_order_relaxed);
  if (found || searching) { /* another library's dlvsym looks for its next one */
    return found ? found : dlsym_of_libc();
  }
  searching = true;
  *(void **)&found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  searching = false;
  found = found ? found : dlsym_of_libc();
  atomic_store_explicit(&next, found, memory_order_relaxed);
  return found;
}

extern const char own_start[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));

static const char *const family[] = {
    "malloc",        "calloc",         "realloc",        "reallocarray",       "free",
    "free_sized",    "cfree",          "memalign",       "free_aligned_sized", "valloc",
    "pvalloc",       "aligned_alloc",  "posix_memalign", "mallinfo",           "malloc_usable_size",
    "malloc_trim",   "mallinfo2",      "malloc_stats",   "malloc_info",        "mallopt",
    "__libc_malloc", "__libc_calloc",  "__libc_realloc", "__libc_free",        "__libc_memalign",
    "__libc_valloc", "__libc_pvalloc",
};
enum { NAMES = sizeof family / sizeof *family };

/* NAMES: the name is no function of malloc's family. */
static size_t index_of(const char *name) {
  size_t i = 0;
  while (i < NAMES && !hak_match_same(name, family[i])) {
    i++;
  }
  return i;
}

/* This library's own function, even if another library defines the name before it: a wrapper that looks for the next
 * function in libc would otherwise find itself. Allocates nothing, since such a wrapper may not be ready. */
static void *find(void *handle, size_t index) {
  static _Atomic uintptr_t of_libc[NAMES] HAK_LARGE_DATA;
  hak_find_symbol_t *next = hak_symbols_next();
  void *found = next(handle, family[index]);
  if (found && of_libc[index] == 0) {
    of_libc[index] = in_libc(family[index]);
  }
  bool is_of_libc = found && (uintptr_t)found == of_libc[index];
  bool leads_here = is_of_libc && next(RTLD_DEFAULT, family[index]) != found; /* a late copy does not serve libc */
  uintptr_t mine = leads_here ? hak_object_symbol((uintptr_t)own_start, family[index]) : 0;
  return mine ? (void *)mine : found; /* NOLINT(performance-no-int-to-ptr) */
}

/* The next function reads its return address, because RTLD_NEXT and RTLD_DEFAULT depend on the caller. It must
 * therefore be entered by a jump, which the optimiser makes of the last call. */
HAK_EXPORT HAK_TAIL_CALL void *dlsym(void *restrict handle, const char *restrict name) {
  size_t index = handle == RTLD_NEXT || handle == RTLD_DEFAULT ? NAMES : index_of(name);
  if (index < NAMES) {
    return find(handle, index);
  }
  return hak_symbols_next()(handle, name);
}
#endif
