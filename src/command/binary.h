/* Properties of a program's file that decide whether a library can be preloaded into it. Nothing is run. */
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
  bool exports_malloc;     /* it has its own malloc, which precedes that of any library */
} binary_t;

/* Read a file. 0: success; call binary_close() afterwards. Else an error number; ENOEXEC: it is no ELF file. */
int binary_open(const char *path, binary_t *file);
void binary_close(binary_t *file);

/* Whether libhakmem.a is linked into it. */
bool binary_holds_hakmem(const binary_t *file);
/* The option -fsanitize=... of a runtime that has its own malloc and ends the program if another one precedes it. NULL:
 * there is none. The runtimes of `undefined` and of a shared `leak` work with any malloc. */
const char *binary_sanitizer(const binary_t *file);
/* Whether its C library is musl. The dynamic linker shows it; for a library, the libraries that it needs. */
bool binary_is_musl(const binary_t *file);
/* Whether machine, class and byte order agree, so that one can be loaded beside the other. */
bool binary_fits(const binary_t *a, const binary_t *b);
/* The file's machine, as in `uname -m`, or "another machine" if unknown. */
const char *binary_machine_name(const binary_t *file);
/* Iterate over the libraries that the file needs; start with *at = 0. NULL: no more. */
const char *binary_needed(const binary_t *file, size_t *at);
