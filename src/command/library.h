/* Finds the library that belongs to this command, in an installation, a package or a build. */
#pragma once

#include "binary.h"
#include "hakmem.h"

#include <limits.h>

#define QUOTED_(x) #x
#define QUOTED(x) QUOTED_(x)
#define LIBRARY_NAME "libhakmem.so." QUOTED(HAKMEM_VERSION_MAJOR)

typedef struct search {
  const binary_t *program; /* NULL: programs of this wrapper's kind */
  char found[PATH_MAX];    /* "": none */
  char other[PATH_MAX];    /* a library for another machine or C library; "": none */
  bool no_proc;            /* /proc is not mounted, so that this program's own folder is unknown */
} search_t;

/* Search the library for a program. False: there is none that fits. */
bool library_find(search_t *search);
