/* The sampler is on before main, and takes every second block or so. */
#include "inspect/sample.h"

#include "check.h"
#include "hakmem.h"
#include "pages/pagemap.h"

#include <stdlib.h>

__attribute__((constructor(200))) static void sampler_on(void) {
  CHECK(hak_sample_start(200));
}

/* Replaces the function of served.c, which checks for the shared library. */
void check_served(void) {
  void *block = malloc(1);
  CHECK(hak_pagemap_class(block) != HAK_CLASS_NONE);
  free(block);
}

__attribute__((destructor)) static void sampler_was_on(void) {
  CHECK(hak_samples.taken > 0);
}
