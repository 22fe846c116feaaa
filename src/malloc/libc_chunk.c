/* glibc's marks of a block. foreign.c stands above.
 *
 *   mapping alone   [ 0 or padding ][ .. | bytes before the header | size + 2 ][ block ..    ends at a page's end
 *   thread's arena  [ arena | .. ]  ..  [ .. | size + 4 ][ block ..                          64 MiB, aligned
 */
#include "libc_chunk.h"

#include "system/system.h"

#ifdef __GLIBC__
enum { MAPPED = 2, IN_ARENA = 4, FLAGS = 7, ARENA_BYTES = 64 << 20, ARENA_HEADER_MAX = 128 };

/* The first heap of an arena holds the arena, behind a pointer to it. */
static bool is_in_arena(uintptr_t block) {
  uintptr_t arena = hak_os_word_at(block & -(uintptr_t)ARENA_BYTES), first = arena & -(uintptr_t)ARENA_BYTES;
  return arena != 0 && arena - first <= ARENA_HEADER_MAX && hak_os_word_at(first) == arena;
}

bool hak_libc_chunk_find(const void *block, hak_libc_chunk_t *found) {
  uintptr_t at = (uintptr_t)block, page = hak_os_page_bytes(), size = hak_os_word_at(at - sizeof(uintptr_t));
  *found = (hak_libc_chunk_t){0, 0};
  if (at % HAK_BLOCK_MIN != 0 || size <= FLAGS) {
    return false;
  }
  if ((size & (MAPPED | IN_ARENA)) == IN_ARENA) {
    found->in_arena = is_in_arena(at) ? size & ~(uintptr_t)FLAGS : 0;
  } else if ((size & FLAGS) == MAPPED) {
    uintptr_t before = hak_os_word_at(at - 2 * sizeof(uintptr_t)), bytes = before + (size - MAPPED);
    bool whole = bytes >= before && bytes % page == 0 && (at - 2 * sizeof(uintptr_t) - before) % page == 0;
    found->mapped = whole ? bytes : 0;
  }
  return found->mapped + found->in_arena > 0;
}
#else
bool hak_libc_chunk_find(const void *block, hak_libc_chunk_t *found) {
  (void)block;
  *found = (hak_libc_chunk_t){0, 0};
  return false;
}
#endif
