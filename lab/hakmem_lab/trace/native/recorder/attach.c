// Recording a program that runs already: a debugger loads this library into it and calls hak_record_attach. The
// jump slots of every loaded object that lead to malloc and the like are then led here; at the end, back again.
#include "next.h"
#include "recorder.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

enum { SLOTS_MOST = 16384, NAMES_MOST = 1024 };

#if defined(__x86_64__)
enum { RELOCATION_SLOT = R_X86_64_JUMP_SLOT, RELOCATION_DATA = R_X86_64_GLOB_DAT, RELOCATION_POINTER = R_X86_64_64 };
#else
enum {
  RELOCATION_SLOT = R_AARCH64_JUMP_SLOT,
  RELOCATION_DATA = R_AARCH64_GLOB_DAT,
  RELOCATION_POINTER = R_AARCH64_ABS64
};
#endif

#define FUNCTION(name) void recorder_##name(void);
#define FUNCTIONS(each) \
  each(malloc) each(free) each(calloc) each(realloc) each(reallocarray) each(memalign) each(aligned_alloc) \
      each(posix_memalign) each(valloc) each(pvalloc) each(free_sized) each(free_aligned_sized)
FUNCTIONS(FUNCTION)
#define ROW(name) {#name, recorder_##name},
static const struct {
  const char *name;
  void (*function)(void);
} table[] = {FUNCTIONS(ROW)};
enum { TABLE = sizeof table / sizeof *table };

typedef struct {
  _Atomic uintptr_t *place;
  uintptr_t before, ours;
  bool sealed; // its page is read-only
} slot_t;

static const char *names[NAMES_MOST]; // of the loaded objects
static size_t name_count;
static uintptr_t values[TABLE]; // what a pointer to each of the functions holds
// From here on guarded by the lock that dl_iterate_phdr holds while it calls: so nothing is unloaded meanwhile.
static slot_t slots[SLOTS_MOST];
static size_t slot_count;
static unsigned long long loads_seen;
static _Atomic bool attached;

typedef struct {
  ElfW(Addr) base;
  const ElfW(Sym) * symbols;
  const char *strings;
  uintptr_t sealed_from, sealed_to;
} object_t;

static bool set(const slot_t *slot, uintptr_t value) {
  void *page = (void *)((uintptr_t)slot->place & ~(recorder_page_bytes() - 1));
  if (slot->sealed && mprotect(page, recorder_page_bytes(), PROT_READ | PROT_WRITE) != 0)
    return false;
  atomic_store(slot->place, value);
  if (slot->sealed)
    mprotect(page, recorder_page_bytes(), PROT_READ);
  return true;
}

// Where an object lies that was unloaded, another one may have been loaded since.
static slot_t *entry_of(const _Atomic uintptr_t *place) {
  size_t i = 0;
  while (i < slot_count && slots[i].place != place)
    i++;
  return i < SLOTS_MOST ? &slots[i] : NULL;
}

static void redirect(const object_t *object, const ElfW(Rela) * relocation) {
  unsigned type = (unsigned)ELF64_R_TYPE(relocation->r_info);
  if (type != RELOCATION_SLOT && type != RELOCATION_DATA && type != RELOCATION_POINTER)
    return;
  const char *name = object->strings + object->symbols[ELF64_R_SYM(relocation->r_info)].st_name;
  for (size_t i = 0; i < TABLE; i++) {
    if (strcmp(name, table[i].name) != 0)
      continue;
    slot_t slot = {.place = (_Atomic uintptr_t *)(object->base + relocation->r_offset)};
    slot.before = atomic_load(slot.place);
    slot.ours = (uintptr_t)table[i].function;
    slot.sealed = (uintptr_t)slot.place >= object->sealed_from && (uintptr_t)slot.place < object->sealed_to;
    // A pointer in data may have been given another value since.
    bool wanted = slot.before != slot.ours && (type == RELOCATION_SLOT || slot.before == values[i]);
    slot_t *entry = wanted ? entry_of(slot.place) : NULL;
    if (entry != NULL && set(&slot, slot.ours)) {
      *entry = slot;
      slot_count += entry == &slots[slot_count];
    }
    return;
  }
}

static uintptr_t address(const object_t *object, ElfW(Addr) value) {
  return value < object->base ? object->base + value : value; // the dynamic linker has added it already, or not
}

static int redirect_object(struct dl_phdr_info *info, size_t bytes, void *own) {
  (void)bytes;
  object_t object = {.base = info->dlpi_addr};
  const ElfW(Dyn) *dynamic = NULL;
  bool is_own = false;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    uintptr_t at = info->dlpi_addr + header->p_vaddr;
    is_own |= header->p_type == PT_LOAD && (uintptr_t)own - at < header->p_memsz;
    if (header->p_type == PT_DYNAMIC)
      dynamic = (const ElfW(Dyn) *)at;
    if (header->p_type == PT_GNU_RELRO) {
      object.sealed_from = at & ~(recorder_page_bytes() - 1);
      object.sealed_to = (at + header->p_memsz) & ~(recorder_page_bytes() - 1);
    }
  }
  loads_seen = info->dlpi_adds;
  if (!atomic_load(&attached) || is_own || dynamic == NULL || strstr(info->dlpi_name, "linux-vdso") != NULL)
    return 0;
  uintptr_t tables[2] = {0, 0};
  size_t sizes[2] = {0, 0};
  for (; dynamic->d_tag != DT_NULL; dynamic++) {
    if (dynamic->d_tag == DT_SYMTAB)
      object.symbols = (const ElfW(Sym) *)address(&object, dynamic->d_un.d_ptr);
    else if (dynamic->d_tag == DT_STRTAB)
      object.strings = (const char *)address(&object, dynamic->d_un.d_ptr);
    else if (dynamic->d_tag == DT_RELA || dynamic->d_tag == DT_JMPREL)
      tables[dynamic->d_tag == DT_RELA] = address(&object, dynamic->d_un.d_ptr);
    else if (dynamic->d_tag == DT_RELASZ || dynamic->d_tag == DT_PLTRELSZ)
      sizes[dynamic->d_tag == DT_RELASZ] = dynamic->d_un.d_val;
  }
  for (int i = 0; i < 2 && object.symbols != NULL && object.strings != NULL; i++)
    for (size_t n = 0; tables[i] != 0 && n < sizes[i] / sizeof(ElfW(Rela)); n++)
      redirect(&object, (const ElfW(Rela) *)tables[i] + n);
  return 0;
}

static int note_name(struct dl_phdr_info *info, size_t bytes, void *unused) {
  (void)bytes;
  (void)unused;
  if (info->dlpi_name[0] != '\0' && name_count < NAMES_MOST)
    names[name_count++] = info->dlpi_name;
  return 0;
}

// What a program that is not linked for any address calls malloc may be its own jump slot, of which dlsym tells: so the
// objects are asked one by one, in the order in which the dynamic linker searches them. None of the linker's functions
// may be called while it goes through its list: another thread may hold the next lock.
static void *find_allocator(void) {
  name_count = 0;
  dl_iterate_phdr(note_name, NULL);
  for (size_t i = 0; i < name_count; i++) {
    Dl_info where;
    void *handle = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = handle ? dlsym(handle, "malloc") : NULL;
    if (symbol != NULL && symbol != (void *)recorder_malloc && dladdr(symbol, &where) != 0 && where.dli_fname != NULL &&
        strcmp(where.dli_fname, names[i]) == 0) {
      for (size_t each = 0; each < TABLE; each++)
        values[each] = (uintptr_t)dlsym(RTLD_DEFAULT, table[each].name);
      return handle;
    }
  }
  return NULL;
}

static int look_for_loads(struct dl_phdr_info *info, size_t bytes, void *loaded) {
  (void)bytes;
  *(bool *)loaded = info->dlpi_adds != loads_seen;
  return 1;
}

void recorder_attach_news(void) {
  bool loaded = false;
  if (!atomic_load_explicit(&attached, memory_order_relaxed))
    return;
  dl_iterate_phdr(look_for_loads, &loaded);
  if (loaded)
    dl_iterate_phdr(redirect_object, (void *)redirect_object);
}

static bool lies_in(const struct dl_phdr_info *info, const _Atomic uintptr_t *place) {
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type == PT_LOAD && (uintptr_t)place - (info->dlpi_addr + header->p_vaddr) < header->p_memsz)
      return true;
  }
  return false;
}

// What was unloaded since is left alone, and so is what lies in its place now, unless it leads here, too.
static int restore_object(struct dl_phdr_info *info, size_t bytes, void *unused) {
  (void)bytes;
  (void)unused;
  for (size_t i = 0; i < slot_count; i++)
    if (lies_in(info, slots[i].place) && atomic_load(slots[i].place) == slots[i].ours)
      set(&slots[i], slots[i].before);
  return 0;
}

void recorder_detach(void) {
  if (atomic_exchange(&attached, false))
    dl_iterate_phdr(restore_object, NULL);
}

// So many slots lead here now; -1: no allocator was found, -2: it is recorded already, or the collector does not
// answer.
EXPORT int hak_record_attach(const char *socket_path) {
  void *handle = find_allocator();
  if (handle == NULL)
    return -1;
  next_find_in(handle);
  if (!recorder_begin_anew(socket_path))
    return -2;
  slot_count = 0;
  atomic_store(&attached, true);
  dl_iterate_phdr(redirect_object, (void *)redirect_object);
  return (int)slot_count;
}
