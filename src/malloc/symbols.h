/* Duty: libc's dlsym, which symbols.c intercepts, for callers below. Data: none. Layers below: nothing. */
#pragma once

typedef void *hak_find_symbol_t(void *handle, const char *name);
/* The next dlsym. The function exists only in the library that intercepts dlsym. */
hak_find_symbol_t *hak_symbols_next(void) __attribute__((weak, visibility("hidden")));
