#include "foreign.h"

#include "arena.h"
#include "hakmem.h"
#include "os.h"
#include "pagemap.h"

#include <dlfcn.h>
#include <sys/auxv.h>
#include <unistd.h>

typedef _Atomic(hak_owner_t *) copies_t;

static bool owns(const void *block) {
  return hak_class_at(block) != HAK_CLASS_NONE;
}

static hak_owner_t this_copy = {NULL, owns, hak_free, hak_realloc, hak_malloc_usable_size};
static copies_t first_copy_list;
static copies_t *copies = &first_copy_list;

/* Defined where malloc is overridden: only then can blocks of libc's heap come here by a caller's right. */
extern const bool hak_override_present __attribute__((weak));
extern void __libc_free(void *block) __attribute__((weak));
extern void *__libc_realloc(void *block, size_t bytes) __attribute__((weak));
static char *libc_heap_start; /* NULL: libc's own functions are not known */

/* While this library serves malloc, the program break moves for libc's own heap and for direct callers of sbrk. */
static bool is_in_libc_heap(const void *block) {
  const char *at = block;
  return libc_heap_start && at >= libc_heap_start && at < (char *)sbrk(0);
}

static hak_owner_t libc_heap = {NULL, is_in_libc_heap, __libc_free, __libc_realloc, NULL};

/* How a copy that is loaded later finds the list. */
HAK_EXPORT copies_t *hak_internal_copies(void);
copies_t *hak_internal_copies(void) {
  return &first_copy_list;
}

void hak_foreign_start(void) {
  if (!&hak_override_present) {
    return;
  }
  *(void **)&libc_heap.usable = dlsym(RTLD_NEXT, "malloc_usable_size");
  if (libc_heap.free && libc_heap.realloc && libc_heap.usable) {
    libc_heap_start = sbrk(0);
  }
  copies_t *(*find)(void) = NULL;
  *(void **)&find = dlsym(RTLD_DEFAULT, "hak_internal_copies");
  if (find) {
    copies = find();
  }
  this_copy.next = atomic_load(copies);
  while (!atomic_compare_exchange_weak(copies, &this_copy.next, &this_copy)) {
  }
}

const hak_owner_t *hak_foreign_owner(const void *block, const char *function) {
  const hak_owner_t *copy = atomic_load(copies);
  while (copy && (copy == &this_copy || !copy->owns(block))) {
    copy = copy->next;
  }
  if (!copy && !is_in_libc_heap(block)) {
    hak_misuse(function, hak_arena_why(block), block);
  }
  return copy ? copy : &libc_heap;
}

void *hak_foreign_object(const void *address, int flags) {
  Dl_info info;
  void *object = NULL, *(*open)(const char *, int) = NULL;
  uintptr_t program = getauxval(AT_PHDR) & ~(uintptr_t)(hak_os_page_bytes() - 1);
  if (!dladdr(address, &info) || (uintptr_t)info.dli_fbase == program) {
    return NULL;
  }
  *(void **)&open = dlsym(RTLD_DEFAULT, "dlopen"); /* not by its name, of which linkers of static programs warn */
  if (!open || !(object = open(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | flags))) {
    dlerror(); /* the program's own errors are told by it */
  }
  return object;
}
