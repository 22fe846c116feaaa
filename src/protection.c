/* What alters pages that may be a block's: the program may free it without a word about that. By direct system calls
 * this is not seen. */
#include "altered.h"
#include "hakmem.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GUARD_INSTALL = 102 }; /* MADV_GUARD_INSTALL */

HAK_EXPORT int mprotect(void *at, size_t bytes, int protection) {
  if ((protection & (PROT_READ | PROT_WRITE)) != (PROT_READ | PROT_WRITE)) {
    hak_altered_note(at, bytes, HAK_OS_PROTECTED);
  }
  return (int)syscall(SYS_mprotect, at, bytes, protection);
}

HAK_EXPORT int pkey_mprotect(void *at, size_t bytes, int protection, int key) {
  hak_altered_note(at, bytes, HAK_OS_KEYED);
  return (int)syscall(SYS_pkey_mprotect, at, bytes, protection, key);
}

HAK_EXPORT int madvise(void *at, size_t bytes, int advice) {
  if (advice == MADV_DONTFORK || advice == MADV_WIPEONFORK || advice == GUARD_INSTALL) {
    hak_altered_note(at, bytes, advice == GUARD_INSTALL ? HAK_OS_GUARDED : HAK_OS_UNFORKED);
  }
  return (int)syscall(SYS_madvise, at, bytes, advice);
}
