// The allocator behind the recorder. Its functions are looked up at the first call.
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
extern __thread bool next_looking; // this thread looks for functions: its allocations are not the program's

typedef void *next_search_t(const char *name);
void next_find(void);                        // fills `next`; further calls do nothing
void next_find_by(next_search_t *how);       // as next_find, for a library that was loaded later than the program
void next_file(char *path, size_t bytes);    // path of the allocator's file
void *next_operator(const char *mangled);    // a C++ operator; NULL: no library has it
bool next_is_allocators(const void *symbol); // whether the symbol lies in the allocator's own file
bool next_is_reserve(const void *block);     // whether the block comes from the reserve of next.c

#pragma GCC visibility pop
#endif
