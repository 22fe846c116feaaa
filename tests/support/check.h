/* CHECK(condition): the only assertion of the tests. A failure prints its place and ends the process with status 1,
 * from any thread and without running exit handlers, so that the first failure is the one reported. */
#ifndef HAK_TEST_CHECK_H
#define HAK_TEST_CHECK_H

#include <stdio.h>
#include <stdlib.h>

__attribute__((noreturn)) static inline void check_failed(const char *file, int line, const char *condition) {
  fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  fflush(NULL);
  _Exit(1);
}

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

/* Hides a pointer from the compiler, which would otherwise warn of (or exploit) the misuse under test. */
static inline void *hide_pointer(const void *pointer) {
  void *hidden = (void *)(size_t)pointer;
  __asm__ volatile("" : "+r"(hidden) : : "memory");
  return hidden;
}

static inline size_t hide_size(size_t size) {
  __asm__ volatile("" : "+r"(size));
  return size;
}

#endif
