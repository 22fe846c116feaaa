/* Names and build ids of the files whose code is mapped, for readers of a profile. pprof.c writes them. */
#include "images.h"

#include "file.h"

#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

enum { HEADERS_MAX = 128, NOTES_BYTES = 1024 };

hak_lock_t hak_profile_lock = HAK_LOCK_INIT;

hak_images_t *hak_images;

static bool is_same(const hak_mapping_t *a, const hak_mapping_t *b) {
  return a->start == b->start && a->end == b->end && a->offset == b->offset && hak_match_same(a->name, b->name);
}

static const char *kept_name(const char *name) {
  size_t length = strlen(name) + 1;
  for (size_t i = 0; i < hak_images->count; i++) {
    if (hak_match_same(hak_images->image[i].name, name)) {
      return hak_images->image[i].name;
    }
  }
  if (length > HAK_IMAGE_NAMES_BYTES - hak_images->names_used) {
    return "";
  }
  char *kept = memcpy(hak_images->names + hak_images->names_used, name, length);
  hak_images->names_used += length;
  return kept;
}

/* Forget images whose addresses other code has now. Returns whether the mapping itself is known. */
static bool make_room(const hak_mapping_t *mapping) {
  for (size_t i = 0; i < hak_images->count;) {
    hak_mapping_t *image = &hak_images->image[i];
    if (is_same(image, mapping)) {
      return true;
    }
    if (mapping->start < image->end && image->start < mapping->end) {
      *image = hak_images->image[--hak_images->count];
    } else {
      i++;
    }
  }
  return false;
}

static bool add(const hak_mapping_t *mapping, void *unused) {
  (void)unused;
  if (!mapping->executable || make_room(mapping) || hak_images->count == HAK_IMAGES_MAX) {
    return true;
  }
  const char *name = kept_name(mapping->name);
  hak_mapping_t *image = &hak_images->image[hak_images->count++];
  *image = *mapping;
  image->name = name;
  return true;
}

static void put_program_first(void) {
  size_t own = hak_images_find(hak_auxiliary(AT_ENTRY));
  if (own < hak_images->count) {
    hak_mapping_t first = hak_images->image[0];
    hak_images->image[0] = hak_images->image[own];
    hak_images->image[own] = first;
  }
}

void hak_images_look(void) {
  hak_images = hak_images ? hak_images : hak_meta_alloc(sizeof *hak_images);
  if (hak_images) {
    if (hak_images->count > HAK_IMAGES_MAX / 2 || hak_images->names_used > HAK_IMAGE_NAMES_BYTES / 2) {
      hak_images->count = hak_images->names_used = 0; /* keeps room for the present images */
    }
    hak_maps_each(add, NULL, hak_images->rows);
    put_program_first();
  }
}

void hak_images_learn(void) {
  static _Atomic uint32_t latest;
  uint32_t version = hak_modules_version(), known = atomic_load_explicit(&latest, memory_order_relaxed);
  if (known != version && !hak_os_is_filtered() && hak_lock_try(&hak_profile_lock)) {
    atomic_store_explicit(&latest, version, memory_order_relaxed);
    hak_images_look();
    hak_unlock(&hak_profile_lock);
  }
}

size_t hak_images_count(void) {
  return hak_images ? hak_images->count : 0;
}

size_t hak_images_find(uintptr_t address) {
  size_t i = 0, count = hak_images_count();
  while (i < count && !hak_map_holds(&hak_images->image[i], address)) {
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
