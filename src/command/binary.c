/* Reads a program's ELF file: static, 32-bit, sanitizers, a malloc of its own. Nothing is run. */
#include "binary.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Only files of this machine's class and byte order are examined. For others it is enough to know that they differ. */
enum { NATIVE_CLASS = ELFCLASS64, NATIVE_DATA = ELFDATA2LSB };
typedef Elf64_Ehdr header_t;
typedef Elf64_Phdr segment_t;
typedef Elf64_Dyn dynamic_t;
typedef Elf64_Sym symbol_t;

/* `bytes` of the file from `at` on, aligned to 8. NULL: the file has no such range. */
static const void *part(const binary_t *file, uint64_t at, uint64_t bytes) {
  bool inside = at <= file->size && bytes <= file->size - at && at % 8 == 0;
  return inside ? file->bytes + at : NULL;
}

/* A string that ends within the file. */
static const char *text(const binary_t *file, uint64_t at) {
  bool ends = at < file->size && memchr(file->bytes + at, '\0', file->size - at);
  return ends ? (const char *)file->bytes + at : NULL;
}

static const segment_t *segments(const binary_t *file, size_t *count) {
  const header_t *header = part(file, 0, sizeof *header);
  *count = header && header->e_phentsize == sizeof(segment_t) ? header->e_phnum : 0;
  return *count ? part(file, header->e_phoff, *count * sizeof(segment_t)) : NULL;
}

static const segment_t *segment_of(const binary_t *file, uint32_t type) {
  size_t count;
  const segment_t *segment = segments(file, &count);
  for (size_t i = 0; segment && i < count; i++) {
    if (segment[i].p_type == type) {
      return &segment[i];
    }
  }
  return NULL;
}

/* The file offset of an address in the loaded program. If the file does not hold it, returns the file's size. */
static uint64_t place_of(const binary_t *file, uint64_t address) {
  size_t count;
  const segment_t *segment = segments(file, &count);
  for (size_t i = 0; segment && i < count; i++) {
    uint64_t into = address - segment[i].p_vaddr;
    if (segment[i].p_type == PT_LOAD && address >= segment[i].p_vaddr && into < segment[i].p_filesz) {
      return segment[i].p_offset + into;
    }
  }
  return file->size;
}

static const dynamic_t *dynamic_entries(const binary_t *file, size_t *count) {
  const segment_t *segment = segment_of(file, PT_DYNAMIC);
  *count = segment ? segment->p_filesz / sizeof(dynamic_t) : 0;
  return segment ? part(file, segment->p_offset, segment->p_filesz) : NULL;
}

/* The file offset of a dynamic entry's address; the file's size: there is none. */
static uint64_t dynamic_place(const binary_t *file, int64_t tag) {
  size_t count;
  const dynamic_t *entry = dynamic_entries(file, &count);
  for (size_t i = 0; entry && i < count && entry[i].d_tag != DT_NULL; i++) {
    if (entry[i].d_tag == tag) {
      return place_of(file, entry[i].d_un.d_ptr);
    }
  }
  return file->size;
}

typedef enum { DEFINED = 1, IMPORTED = 2 } kind_t; /* a file defines a symbol, or another file must define it */

/* Searches the dynamic symbols. The table ends where the string table begins: every linker puts them in this order. */
static bool has_symbol(const binary_t *file, const char *name, unsigned kinds) {
  uint64_t table = dynamic_place(file, DT_SYMTAB), names = dynamic_place(file, DT_STRTAB);
  size_t count = names > table ? (size_t)(names - table) / sizeof(symbol_t) : 0;
  const symbol_t *symbol = count ? part(file, table, count * sizeof *symbol) : NULL;
  for (size_t i = 0; symbol && i < count; i++) {
    kind_t kind = symbol[i].st_shndx != SHN_UNDEF ? DEFINED : IMPORTED;
    const char *its = kind & kinds ? text(file, names + symbol[i].st_name) : NULL;
    if (its && *its && strcmp(its, name) == 0) {
      return true;
    }
  }
  return false;
}

/* Returns 0, or an error number. */
static int map_file(const char *path, binary_t *file) {
  struct stat status;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &status) != 0) {
    int error = errno;
    if (fd >= 0) {
      close(fd);
    }
    return error;
  }
  void *bytes = S_ISREG(status.st_mode) && status.st_size > EI_NIDENT
                    ? mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                    : MAP_FAILED;
  close(fd);
  if (bytes != MAP_FAILED) {
    file->bytes = bytes;
    file->size = (size_t)status.st_size;
  }
  return 0;
}

int binary_open(const char *path, binary_t *file) {
  *file = (binary_t){0};
  int error = map_file(path, file);
  if (!error && (file->size < sizeof(header_t) || memcmp(file->bytes, ELFMAG, SELFMAG) != 0)) {
    binary_close(file);
    error = ENOEXEC;
  }
  if (error) {
    return error;
  }
  file->class = file->bytes[EI_CLASS];
  file->data = file->bytes[EI_DATA];
  if (file->class == NATIVE_CLASS && file->data == NATIVE_DATA) {
    const segment_t *interpreter = segment_of(file, PT_INTERP);
    file->machine = ((const header_t *)(const void *)file->bytes)->e_machine;
    file->interpreter = interpreter ? text(file, interpreter->p_offset) : NULL;
    file->exports_malloc = has_symbol(file, "malloc", DEFINED);
  }
  return 0;
}

void binary_close(binary_t *file) {
  if (file->bytes) {
    munmap((void *)(uintptr_t)file->bytes, file->size);
  }
  *file = (binary_t){0};
}

/* Looks for the layout table (src/inspect/layout.h), which stripped programs have, too. */
bool binary_holds_hakmem(const binary_t *file) {
  static const char magic[16] = "hakmem layout";
  return memmem(file->bytes, file->size, magic, sizeof magic) != NULL;
}

/* Looks for a function of the runtime that every file of such a program imports. A runtime that is linked in may export
 * only malloc; so it also looks for the name with which the runtime's messages begin. */
const char *binary_sanitizer(const binary_t *file) {
  static const char *const runtimes[][3] = {{"__asan_init", "\0AddressSanitizer", "address"},
                                            {"__tsan_init", "\0ThreadSanitizer", "thread"},
                                            {"__hwasan_init", "\0HWAddressSanitizer", "hwaddress"},
                                            {"__msan_init", "\0MemorySanitizer", "memory"},
                                            {"", "\0LeakSanitizer", "leak"}};
  for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes; i++) {
    const char *name = runtimes[i][1];
    if (has_symbol(file, runtimes[i][0], DEFINED | IMPORTED) ||
        (file->exports_malloc && memmem(file->bytes, file->size, name, 1 + strlen(name + 1) + 1))) {
      return runtimes[i][2];
    }
  }
  return NULL;
}

bool binary_is_musl(const binary_t *file) {
  size_t at = 0;
  for (const char *name; (name = binary_needed(file, &at));) {
    if (strncmp(name, "libc.musl-", 10) == 0 || strcmp(name, "libc.so") == 0) { /* glibc's is libc.so.6 */
      return true;
    }
  }
  return file->interpreter && strstr(file->interpreter, "/ld-musl-");
}

bool binary_fits(const binary_t *a, const binary_t *b) {
  return a->class == b->class && a->data == b->data && a->machine == b->machine;
}

const char *binary_machine_name(const binary_t *file) {
  switch (file->machine) {
  case EM_X86_64:
    return "x86_64";
  case EM_AARCH64:
    return "aarch64";
  case EM_RISCV:
    return "riscv64";
  default:
    return file->class == ELFCLASS32 ? "a 32-bit machine" : "another machine";
  }
}

const char *binary_needed(const binary_t *file, size_t *at) {
  size_t count;
  const dynamic_t *entry = dynamic_entries(file, &count);
  uint64_t names = dynamic_place(file, DT_STRTAB);
  while (entry && *at < count && entry[*at].d_tag != DT_NULL) {
    const dynamic_t *this = &entry[(*at)++];
    if (this->d_tag == DT_NEEDED) {
      const char *name = text(file, names + this->d_un.d_val);
      return name ? name : "";
    }
  }
  return NULL;
}
