#ifndef HAKMEM_TEST_PROCESS_PLUGIN_H
#define HAKMEM_TEST_PROCESS_PLUGIN_H

#include <stddef.h>

/* Allocates and frees blocks; aborts if their contents changed. */
void plugin_own_blocks(void);
/* The C library allocates the copy on the plugin's behalf. */
char *plugin_copy_text(const char *text);
void plugin_free(void *block);
void *plugin_malloc(size_t bytes);

#endif
