/* Looks up a symbol in a mapped ELF file, without the dynamic linker. Part of direct.h, the lowest layer. */
#include "direct.h"

#include "match.h"

#include <elf.h>
#include <stdint.h>

enum { BYTES_MAX = 256 << 20 }; /* of a file */

typedef struct object {
  uintptr_t offset; /* difference between the addresses in the file and the mapped ones */
  const Elf64_Sym *symbols;
  const char *strings;
  const uint32_t *hash, *gnu_hash;
} object_t;

static const void *at(uintptr_t address) {
  return (const void *)address; /* NOLINT(performance-no-int-to-ptr) */
}

/* Fields of missing tables are NULL. */
static object_t read_object(uintptr_t base) {
  const Elf64_Ehdr *head = at(base);
  const Elf64_Phdr *part = at(base + head->e_phoff), *dynamic = NULL, *loaded = NULL;
  object_t object = {0, NULL, NULL, NULL, NULL};
  for (int i = 0; i < head->e_phnum; i++) {
    loaded = !loaded && part[i].p_type == PT_LOAD ? &part[i] : loaded;
    dynamic = part[i].p_type == PT_DYNAMIC ? &part[i] : dynamic;
  }
  if (!loaded || !dynamic) {
    return object;
  }
  object.offset = base + loaded->p_offset - loaded->p_vaddr;
  for (const Elf64_Dyn *entry = at(object.offset + dynamic->p_vaddr); entry->d_tag != DT_NULL; entry++) {
    bool relocated = entry->d_un.d_ptr - base < BYTES_MAX; /* by the dynamic linker, in most libraries */
    const void *there = at(entry->d_un.d_ptr + (relocated ? 0 : object.offset));
    object.symbols = entry->d_tag == DT_SYMTAB ? there : object.symbols;
    object.strings = entry->d_tag == DT_STRTAB ? there : object.strings;
    object.hash = entry->d_tag == DT_HASH ? there : object.hash;
    object.gnu_hash = entry->d_tag == DT_GNU_HASH ? there : object.gnu_hash;
  }
  return object;
}

/* Only the older kind of hash table holds the number of symbols. In the newer kind, the last chain ends with it. */
static uint32_t count_symbols(const object_t *object) {
  if (object->hash) {
    return object->hash[1];
  }
  const uint32_t *table = object->gnu_hash;
  uint32_t buckets = table ? table[0] : 0, first = table ? table[1] : 0, last = 0;
  const uint32_t *bucket = table ? table + 4 + 2 * (size_t)table[2] : NULL, *chain = bucket + buckets;
  for (uint32_t i = 0; i < buckets; i++) {
    last = bucket[i] > last ? bucket[i] : last;
  }
  while (last >= first && last > 0 && !(chain[last - first] & 1)) {
    last++;
  }
  return last > 0 ? last + 1 : 0;
}

uintptr_t hak_object_symbol(uintptr_t base, const char *name) {
  object_t object = read_object(base);
  uint32_t count = object.symbols && object.strings ? count_symbols(&object) : 0;
  for (const Elf64_Sym *symbol = object.symbols; count > 0; symbol++, count--) {
    if (symbol->st_shndx != SHN_UNDEF && hak_match_same(object.strings + symbol->st_name, name)) {
      return object.offset + symbol->st_value;
    }
  }
  return 0;
}
