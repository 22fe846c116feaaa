/* Tries the folders where a library may lie, seen from this command, and takes the first that fits the program. */
#include "library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool try_library(const char *folder, const char *below, const char *name, search_t *search) {
  char candidate[PATH_MAX];
  binary_t library;
  int length = snprintf(candidate, sizeof candidate, "%s/%s/%s", folder, below, name);
  if (length < 0 || (size_t)length >= sizeof candidate || binary_open(candidate, &library)) {
    return false;
  }
  const binary_t *program = search->program;
  bool fits = !program || (binary_fits(program, &library) && binary_is_musl(program) == binary_is_musl(&library));
  binary_close(&library);
  if (!realpath(candidate, fits ? search->found : search->other)) {
    return false;
  }
  return fits;
}

bool library_find(search_t *search) {
  static const char musl[] = HAKMEM_LIBRARIES "/musl";
  static const char *const below[] = {HAKMEM_LIBRARIES, "../lib", "../lib64", ".", musl, "../lib/musl", "../musl"};
  static const char *const names[] = {LIBRARY_NAME, "libhakmem.so"};
  char self[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) {
    search->no_proc = true;
    return false;
  }
  self[length] = '\0';
  *strrchr(self, '/') = '\0';
  for (size_t i = 0; i < sizeof below / sizeof *below * 2; i++) {
    if (try_library(self, below[i / 2], names[i % 2], search)) {
      return true;
    }
  }
  return false;
}
