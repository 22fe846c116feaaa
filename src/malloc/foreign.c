/* Passes blocks of libc's own heap, or of a second copy of this library, to their owner. The slow paths call it. */
#include "foreign.h"

#include "hakmem.h"
#include "libc_chunk.h"
#include "pages/pages.h"
#include "region_api.h"
#include "symbols.h"
#include "zero_size.h"

#include <dlfcn.h>
#include <elf.h>
#include <malloc.h>
#include <sys/auxv.h>
#include <unistd.h>

typedef _Atomic(hak_owner_t *) copies_t;

static bool owns(const void *block) {
  return hak_pagemap_class(block) != HAK_CLASS_NONE || hak_zero_size_owns(block) || hak_hook_hardened.owner(block) ||
         hak_region_api_owner(block);
}

static hak_owner_t this_copy = {NULL, owns, hak_own_free, hak_own_realloc, hak_own_usable};
static copies_t first_copy_list HAK_START_DATA;
static copies_t *copies = &first_copy_list;

/* Defined if malloc is overridden: only then may a caller rightly free a block of libc's heap here. */
extern const bool hak_override_present __attribute__((weak));

/* End of the program's own segments; the break is somewhere behind it. NULL: not known. */
static const char *program_end(void) {
  const Elf64_Phdr *part = (const Elf64_Phdr *)hak_auxiliary(AT_PHDR); /* NOLINT(performance-no-int-to-ptr) */
  uintptr_t end = 0, offset = 0;
  for (size_t left = part ? hak_auxiliary(AT_PHNUM) : 0; left > 0; left--, part++) {
    offset = part->p_type == PT_PHDR ? hak_auxiliary(AT_PHDR) - part->p_vaddr : offset;
    uintptr_t behind = part->p_vaddr + part->p_memsz;
    end = part->p_type == PT_LOAD && behind > end ? behind : end;
  }
  return end ? (const char *)(end + offset) : NULL; /* NOLINT(performance-no-int-to-ptr) */
}

/* While this library serves malloc, only libc's own heap and direct callers of sbrk move the program break. */
static bool is_below_break(const void *block) {
  const char *at = block, *start = &hak_override_present ? program_end() : NULL;
  return start && at >= start && at < hak_os_break();
}

static void *libc_function(void *libc, const char *name) {
  return (&hak_symbols_next ? hak_symbols_next() : dlsym)(libc, name);
}

static struct {
  hak_owner_t heap;
#ifdef __GLIBC__
  struct mallinfo2 (*counts)(void);
#endif
} libc;

/* Look up libc's own functions, although other libraries may define some of the names. This is done for the first block
 * of libc, since such blocks are rare. */
static const hak_owner_t *libc_heap(void) {
  void *object = libc.heap.free ? NULL : hak_foreign_object((void *)sbrk, 0);
  if (object) {
#ifdef __GLIBC__
    *(void **)&libc.counts = libc_function(object, "mallinfo2");
#endif
    *(void **)&libc.heap.realloc = libc_function(object, "realloc");
    *(void **)&libc.heap.usable = libc_function(object, "malloc_usable_size");
    *(void **)&libc.heap.free = libc_function(object, "free");
  }
  return libc.heap.free ? &libc.heap : NULL;
}

/* Whether libc counts as much memory as its own. */
static bool libc_has(const hak_libc_chunk_t *chunk) {
#ifdef __GLIBC__
  struct mallinfo2 has = libc.counts ? libc.counts() : (struct mallinfo2){.arena = 0};
  return has.hblkhd >= chunk->mapped && has.arena >= chunk->in_arena;
#else
  (void)chunk;
  return false;
#endif
}

/* NULL: the block is not of libc's heap. Its words alone do not tell, since anybody may write them. */
static const hak_owner_t *libc_owner(const void *block) {
  const hak_chunk_t *chunk = hak_pagemap_chunk(block);
  hak_libc_chunk_t found = {0, 0};
  bool ours = chunk && chunk->state != HAK_CHUNK_GONE;
  if (!&hak_override_present || (!is_below_break(block) && (ours || !hak_libc_chunk_find(block, &found)))) {
    return NULL;
  }
  const hak_owner_t *heap = libc_heap();
  bool known = found.mapped + found.in_arena == 0; /* by its address */
  return heap && (known || libc_has(&found)) ? heap : NULL;
}

/* Lets a copy that is loaded later find the list. */
HAK_EXPORT copies_t *hak_internal_copies(void);
copies_t *hak_internal_copies(void) {
  return &first_copy_list;
}

void hak_foreign_start(void) {
  if (!&hak_override_present) {
    return;
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
  const hak_owner_t *owner = hak_hook_hardened.owner(block);
  owner = owner ? owner : hak_region_api_owner(block);
  if (owner) {
    return owner;
  }
  const hak_owner_t *copy = atomic_load(copies);
  /* Skip the record of this copy, or of an old version whose function names resolve to this copy. */
  while (copy && (copy->free == hak_own_free || !copy->owns(block))) {
    copy = copy->next;
  }
  copy = copy ? copy : libc_owner(block);
  if (!copy) {
    hak_misuse_t why = hak_hook_hardened.why(block);
    hak_misuse(function, why == HAK_MISUSE_INVALID ? hak_arena_why(block) : why, block);
  }
  return copy;
}

void *hak_foreign_open(const char *file, int flags) {
  void *object = NULL, *(*open)(const char *, int) = NULL;
  *(void **)&open = dlsym(RTLD_DEFAULT, "dlopen"); /* not by a call, of which linkers of static programs warn */
  if (!open || !(object = open(file, RTLD_LAZY | flags))) {
    dlerror(); /* keeps the program's own pending error */
  }
  return object;
}

void *hak_foreign_object(const void *address, int flags) {
  Dl_info info;
  uintptr_t program = hak_auxiliary(AT_PHDR) & ~(uintptr_t)(hak_os_page_bytes() - 1);
  bool is_library = dladdr(address, &info) && (uintptr_t)info.dli_fbase != program;
  return is_library ? hak_foreign_open(info.dli_fname, RTLD_NOLOAD | flags) : NULL;
}
