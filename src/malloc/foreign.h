/* Duty: blocks of another allocator in the process. The other allocator is libc's own heap, where a plugin loaded with
 * RTLD_DEEPBIND allocates, or a second copy of this library. Layers below: arena, pagemap.
 * Data: the list of copies, in the copy loaded first. */
#pragma once

#include "base/base.h"

/* A record for each copy of the library in the process. Versions share the layout, so fields may only be appended. */
typedef struct hak_owner {
  struct hak_owner *next;
  bool (*owns)(const void *block);
  void (*free)(void *block);
  void *(*realloc)(void *block, size_t bytes);
  size_t (*usable)(const void *block);
} hak_owner_t;

/* Functions in this copy's record: hak_free and so on, under names that no other library can intercept. */
void hak_own_free(void *block);
void *hak_own_realloc(void *block, size_t bytes);
size_t hak_own_usable(const void *block);
#define HAK_OWN(own, name) extern __typeof__(name) own __attribute__((visibility("hidden"), alias(#name)))

/* Call this before main, and before any call of libc's own malloc. */
void hak_foreign_start(void);

/* The allocator of a foreign block. If none is known, report why and abort. */
const hak_owner_t *hak_foreign_owner(const void *block, const char *function);

/* Load a library. NULL: no library has the name, or it cannot be loaded. */
void *hak_foreign_open(const char *file, int flags);
/* Open the library that holds the address, with these additional flags. NULL: the program or nothing holds it. */
void *hak_foreign_object(const void *address, int flags);
