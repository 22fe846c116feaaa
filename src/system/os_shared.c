/* Whether memory is shared with other processes, by /proc/self/maps. */
#include "direct.h"
#include "os.h"

#include <fcntl.h>
#include <sys/syscall.h>

enum { FIRST_ADDRESS, END_ADDRESS, PERMISSIONS, SHARING = PERMISSIONS + 3, REST };

/* What was read of a row "first-end rwxs ...". */
typedef struct row {
  uintptr_t address[2];
  unsigned place;
} row_t;

static uintptr_t digit(char character) {
  return (uintptr_t)(character <= '9' ? character - '0' : character - 'a' + 10);
}

/* The permission that says whether the row's mapping is shared; else 0. */
static char read_on(row_t *row, char character) {
  if (character == '\n') {
    *row = (row_t){{0, 0}, FIRST_ADDRESS};
  } else if (row->place < PERMISSIONS && (character == '-' || character == ' ')) {
    row->place++;
  } else if (row->place < PERMISSIONS) {
    row->address[row->place] = row->address[row->place] << 4 | digit(character);
  } else if (row->place < REST) {
    return row->place++ == SHARING ? character : '\0';
  }
  return '\0';
}

bool hak_os_is_shared(const void *at, size_t bytes) {
  char text[1024];
  row_t row = {{0, 0}, FIRST_ADDRESS};
  bool shared = false;
  long got = 0;
  long fd = hak_os_is_filtered() ? -1 : hak_direct(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC);
  while (fd >= 0 && !shared && (got = hak_direct(SYS_read, fd, (long)text, sizeof text)) > 0) {
    for (long i = 0; i < got; i++) {
      bool is = read_on(&row, text[i]) == 's';
      shared |= is && row.address[0] < (uintptr_t)at + bytes && row.address[1] > (uintptr_t)at;
    }
  }
  if (fd >= 0) {
    hak_direct(SYS_close, fd);
  }
  return shared;
}
