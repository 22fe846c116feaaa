/* What must be known of a program's file before a library is preloaded into it. Nothing is run. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct binary {
  const unsigned char *bytes; /* mapped, read-only */
  size_t size;
  uint8_t class, data;     /* EI_CLASS, EI_DATA */
  uint16_t machine;        /* EM_... */
  const char *interpreter; /* PT_INTERP; NULL: statically linked */
  bool exports_malloc;     /* a malloc of its own, which comes before any library's */
} binary_t;

/* NULL: it was read; binary_close() then. Else why it was not: "is no ELF file", a damaged one, or the system's words.
 */
const char *binary_open(const char *path, binary_t *file);
void binary_close(binary_t *file);

/* Whether libhakmem.a is linked into it. */
bool binary_holds_hakmem(const binary_t *file);
/* The option -fsanitize=... of a runtime that brings a malloc of its own and ends the program where another comes
 * before it; NULL: it has none. Those of `undefined` and of a shared `leak` run on any malloc. */
const char *binary_sanitizer(const binary_t *file);
/* Whether its C library is musl: by its dynamic linker or, of a library, by what it needs. */
bool binary_is_musl(const binary_t *file);
/* The same machine, class and byte order, so that the one can be loaded beside the other. */
bool binary_fits(const binary_t *a, const binary_t *b);
/* Its name as `uname -m` has it, as far as it is known; else "another machine". */
const char *binary_machine_name(const binary_t *file);
/* The name of a library that it needs, one after the other: start with *at = 0. NULL: no more. */
const char *binary_needed(const binary_t *file, size_t *at);
