/* Duty: blocks whose pages the program protected, or kept from the children of a fork: before they are free, which the
 * program need not tell, these pages are as all others again. As soon as there may be such a block of a class, every
 * thread frees those of the class on its slow path, where the pages that were altered are known.
 * Layers below: hook. */
#pragma once

#include "os.h"

/* The program is about to alter pages so. */
void hak_altered_note(const void *at, size_t bytes, hak_os_altered_t how);
/* A block of such a class is about to be freed or resized. False: its pages cannot be had back. */
bool hak_altered_restore(void *block, uint32_t cls, const char *function);
