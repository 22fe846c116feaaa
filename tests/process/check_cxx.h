// CHECK for the C++ tests: these also run statically linked, where check.c's look-ups do not work.
#ifndef HAKMEM_TEST_PROCESS_CHECK_CXX_H
#define HAKMEM_TEST_PROCESS_CHECK_CXX_H

#include <cstdio>
#include <cstdlib>

#define CHECK(condition) ((condition) ? static_cast<void>(0) : check_fail(__FILE__, __LINE__, #condition))

[[noreturn]] inline void check_fail(const char *file, int line, const char *condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::_Exit(1);
}

#endif
