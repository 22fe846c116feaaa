/* Duty: blocks that another allocator of the process made: libc's own heap (a plugin loaded with RTLD_DEEPBIND
 * allocates there), or a second copy of this library. Layers below: arena, pagemap.
 * Data: the list of copies, in the copy loaded first. */
#pragma once

#include "base.h"

/* One record for each copy of the library in the process. The layout is shared between versions: only append. */
typedef struct hak_owner {
  struct hak_owner *next;
  bool (*owns)(const void *block);
  void (*free)(void *block);
  void *(*realloc)(void *block, size_t bytes);
  size_t (*usable)(const void *block);
} hak_owner_t;

/* What stands in the record of this copy: hak_free and so on, under names before which nobody else's can come. */
void hak_own_free(void *block);
void *hak_own_realloc(void *block, size_t bytes);
size_t hak_own_usable(const void *block);
#define HAK_OWN(own, name) extern __typeof__(name) own __attribute__((visibility("hidden"), alias(#name)))

/* Before main, and before libc's own malloc could have been called. */
void hak_foreign_start(void);

/* Who made a block that is not ours. Where nobody is known to have, says why and aborts. */
const hak_owner_t *hak_foreign_owner(const void *block, const char *function);

/* A library. NULL: there is none of the name, or it cannot be loaded. */
void *hak_foreign_open(const char *file, int flags);
/* A handle of the library that the address lies in, opened with such flags besides. NULL: the program, or none. */
void *hak_foreign_object(const void *address, int flags);
