/* The mappings of the process, by /proc/self/maps. */
#include "maps.h"

#include "direct.h"
#include "match.h"
#include "os.h"
#include "text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

/* Parse a hexadecimal number and skip one character after it. */
static uintptr_t number(const char **at) {
  uintptr_t n = hak_text_number(at, 16);
  *at += **at != '\0';
  return n;
}

static const char *next_column(const char *row) {
  row += hak_match_until(row, " ");
  return row + hak_match_of(row, " ");
}

/* "start-end rwxs offset device inode   name" */
static hak_mapping_t parse(const char *row) {
  hak_mapping_t mapping = {.start = number(&row), .end = 0};
  mapping.end = number(&row);
  const char *offset = next_column(row);
  mapping.executable = offset - row > 4 && row[2] == 'x';
  mapping.shared = offset - row > 4 && row[3] == 's';
  mapping.offset = number(&offset);
  mapping.name = next_column(next_column(offset));
  return mapping;
}

/* The end of the line; NULL: the bytes up to `behind` do not hold it. */
static char *find_end(char *row, const char *behind) {
  while (row < behind && *row != '\n') {
    row++;
  }
  return row < behind ? row : NULL;
}

bool hak_maps_each(bool (*visit)(const hak_mapping_t *mapping, void *argument), void *argument,
                   char buffer[HAK_MAPS_BUFFER_BYTES]) {
  long fd = hak_direct(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC), got = 0;
  size_t used = 0; /* bytes in the buffer */
  bool any = false, more = true;
  while (fd >= 0 && more &&
         (got = hak_direct(SYS_read, fd, (long)(buffer + used), (long)(HAK_MAPS_BUFFER_BYTES - used))) > 0) {
    char *row = buffer, *behind = buffer + used + got, *end;
    for (; more && (end = find_end(row, behind)); row = end + 1) {
      *end = '\0';
      hak_mapping_t mapping = parse(row);
      any = true;
      more = visit(&mapping, argument);
    }
    used = (size_t)(behind - row);
    memmove(buffer, row, more ? used : 0);
    used = used < HAK_MAPS_BUFFER_BYTES ? used : HAK_MAPS_BUFFER_BYTES / 2;
  }
  if (fd >= 0) {
    hak_direct(SYS_close, fd);
  }
  return any && (!more || (used == 0 && got == 0));
}

typedef struct search {
  uintptr_t address;
  hak_mapping_t *found;
} search_t;

static bool is_elsewhere(const hak_mapping_t *mapping, void *argument) {
  const search_t *search = argument;
  bool around = hak_map_holds(mapping, search->address);
  if (around) {
    *search->found = *mapping;
  }
  return !around;
}

bool hak_maps_find(uintptr_t address, hak_mapping_t *found, char buffer[HAK_MAPS_BUFFER_BYTES]) {
  *found = (hak_mapping_t){.name = ""};
  return hak_maps_each(is_elsewhere, &(search_t){address, found}, buffer);
}

typedef struct range {
  uintptr_t start, end;
  bool shared;
} range_t;

static bool is_private(const hak_mapping_t *mapping, void *argument) {
  range_t *range = argument;
  range->shared = mapping->shared && mapping->start < range->end && mapping->end > range->start;
  return !range->shared;
}

bool hak_maps_is_shared(const void *at, size_t bytes) {
  char buffer[HAK_MAPS_BUFFER_BYTES];
  range_t range = {(uintptr_t)at, (uintptr_t)at + bytes, false};
  return !hak_os_is_filtered() && hak_maps_each(is_private, &range, buffer) && range.shared;
}
