/* Linked twice into the program of early.c, before and after the allocator. So one copy starts before the allocator and
 * ends after it, whichever order the loader chooses. EARLY_LETTER identifies the copy. */
#include <stdlib.h>
#include <unistd.h>

#include "early_stage.h"

static struct early_blocks kept;

__attribute__((constructor)) static void start(void) {
  early_allocate(&kept);
  early_report(EARLY_LETTER);
}

__attribute__((destructor)) static void end(void) {
  early_free(&kept);
  early_allocate(&kept);
  early_free(&kept);
  early_report(EARLY_LETTER);
}
