// The allocator behind the recorder. The pointers lead to it from the first call on.
#ifndef NEXT_H
#define NEXT_H

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

typedef struct {
  void *(*malloc)(size_t);
  void (*free)(void *);
  void *(*calloc)(size_t, size_t);
  void *(*realloc)(void *, size_t);
  void *(*memalign)(size_t, size_t);
  void *(*aligned_alloc)(size_t, size_t);
  int (*posix_memalign)(void **, size_t, size_t);
  void *(*valloc)(size_t);
  void *(*pvalloc)(size_t);
  void (*free_sized)(void *, size_t);
  void (*free_aligned_sized)(void *, size_t, size_t);
} next_t;

extern next_t next;
extern __thread bool next_looking; // for the allocator: what this thread asks for is not the program's

typedef void *next_search_t(const char *name);
void next_find(void);                        // fills it; once is enough
void next_find_by(next_search_t *how);       // as next_find, where this library is not the first of those loaded
void next_file(char *path, size_t bytes);    // the file that it lies in
void *next_operator(const char *mangled);    // a C++ operator; NULL: nobody has it
bool next_is_allocators(const void *symbol); // whether it lies in the allocator's own file
bool next_is_reserve(const void *block);     // one that was handed out before the allocator was known

#pragma GCC visibility pop
#endif
