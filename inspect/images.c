/* Names and build ids of the files whose code is mapped, for readers of a profile. pprof.c writes them. */
#include "images.h"

#include "direct.h"
#include "file.h"
#include "meta.h"

#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

enum { NAMES_BYTES = 64 << 10, HEADERS_MAX = 128, NOTES_BYTES = 1024 };

/* Made on first use: static data of the library would count against the limits of small programs. */
static struct table {
  size_t count, names_used;
  hak_mapping_t image[HAK_IMAGES_MAX];
  char names[NAMES_BYTES], rows[HAK_MAPS_BUFFER_BYTES];
} *table;

static bool add(const hak_mapping_t *mapping, void *unused) {
  size_t length = strlen(mapping->name) + 1;
  (void)unused;
  if (!mapping->executable || table->count == HAK_IMAGES_MAX) {
    return true;
  }
  hak_mapping_t *image = &table->image[table->count++];
  *image = *mapping;
  image->name = "";
  if (length <= NAMES_BYTES - table->names_used) {
    image->name = memcpy(table->names + table->names_used, mapping->name, length);
    table->names_used += length;
  }
  if (hak_mapping_holds(image, hak_auxiliary(AT_ENTRY))) {
    hak_mapping_t first = table->image[0];
    table->image[0] = *image;
    *image = first;
  }
  return true;
}

void hak_images_look(void) {
  table = table ? table : hak_meta_alloc(sizeof *table);
  if (table) {
    table->count = table->names_used = 0;
    hak_modules_each(add, NULL, table->rows);
  }
}

size_t hak_images_count(void) {
  return table ? table->count : 0;
}

const hak_mapping_t *hak_images_at(size_t i) {
  return &table->image[i];
}

size_t hak_images_find(uintptr_t address) {
  size_t i = 0, count = hak_images_count();
  while (i < count && !hak_mapping_holds(&table->image[i], address)) {
    i++;
  }
  return i;
}

/* Search a segment of notes. */
static size_t find_build_id(const char *notes, size_t bytes, unsigned char id[HAK_BUILD_ID_MAX]) {
  Elf64_Nhdr note;
  for (size_t at = 0; at + sizeof note <= bytes;) {
    memcpy(&note, notes + at, sizeof note);
    size_t name = at + sizeof note, text = name + ((note.n_namesz + 3) & ~(size_t)3);
    size_t next = text + ((note.n_descsz + 3) & ~(size_t)3);
    if (text > bytes || note.n_descsz > bytes - text || next < at) {
      break;
    }
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0) {
      size_t length = note.n_descsz < HAK_BUILD_ID_MAX ? note.n_descsz : HAK_BUILD_ID_MAX;
      memcpy(id, notes + text, length);
      return length;
    }
    at = next;
  }
  return 0;
}

static size_t read_build_id(int fd, unsigned char id[HAK_BUILD_ID_MAX]) {
  Elf64_Ehdr elf;
  char notes[NOTES_BYTES];
  if (!hak_file_read_at(fd, &elf, sizeof elf, 0) || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
      elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_phentsize != sizeof(Elf64_Phdr)) {
    return 0;
  }
  size_t length = 0;
  for (size_t i = 0; i < elf.e_phnum && i < HEADERS_MAX && length == 0; i++) {
    Elf64_Phdr header;
    if (!hak_file_read_at(fd, &header, sizeof header, elf.e_phoff + i * sizeof header)) {
      break;
    }
    size_t bytes = header.p_filesz < NOTES_BYTES ? header.p_filesz : NOTES_BYTES;
    if (header.p_type == PT_NOTE && hak_file_read_at(fd, notes, bytes, header.p_offset)) {
      length = find_build_id(notes, bytes, id);
    }
  }
  return length;
}

size_t hak_images_build_id(const char *name, unsigned char id[HAK_BUILD_ID_MAX]) {
  int fd = name[0] == '/' ? hak_file_open(name) : -1; /* not for [vdso] */
  size_t length = 0;
  if (fd >= 0) {
    length = read_build_id(fd, id);
    hak_file_close(fd);
  }
  return length;
}
