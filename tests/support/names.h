/* Two sets of names for one source. Tests are written with the hak_ names; with HAK_TEST_STANDARD_NAMES, the same
 * source calls malloc, free, … of the override library. */
#ifndef HAK_TEST_NAMES_H
#define HAK_TEST_NAMES_H

#include <malloc.h>
#include <stdlib.h>

#include "hakmem.h"

#ifdef HAK_TEST_STANDARD_NAMES

/* C23; the headers of the C library do not declare them yet. */
void free_sized(void *block, size_t bytes);
void free_aligned_sized(void *block, size_t alignment, size_t bytes);

#define hak_malloc malloc
#define hak_calloc calloc
#define hak_realloc realloc
#define hak_reallocarray reallocarray
#define hak_free free
#define hak_free_sized free_sized
#define hak_free_aligned_sized free_aligned_sized
#define hak_aligned_alloc aligned_alloc
#define hak_memalign memalign
#define hak_posix_memalign posix_memalign
#define hak_valloc valloc
#define hak_pvalloc pvalloc
#define hak_malloc_usable_size(block) malloc_usable_size((void *)(size_t)(block))

#endif
#endif
