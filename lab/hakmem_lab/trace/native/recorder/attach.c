// Records a program that is already running. A debugger loads this library into it and calls hak_record_attach, with
// the addresses of the allocator's functions. The slots of loaded objects that hold one of these addresses are
// redirected here, and no others; each call goes on to the slot's former value. At the end the slots are restored.
#include "next.h"
#include "recorder.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SLOTS_MOST = 16384, VALUES = 2 };
enum { REFUSED_NOTHING = -1, REFUSED_RECORDED = -2, REFUSED_SLOT = -3 };

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
      each(posix_memalign) each(valloc) each(pvalloc) each(free_sized) each(free_aligned_sized) each(strdup) \
          each(strndup)
FUNCTIONS(FUNCTION)
RECORDER_OPERATORS(FUNCTION)
#define ROW(name) {#name, recorder_##name, {0}},
// values: address of the function, and its canonical address in a program linked for fixed addresses; 0: none.
static struct {
  const char *name;
  void (*function)(void);
  uintptr_t values[VALUES];
} table[] = {FUNCTIONS(ROW) RECORDER_OPERATORS(ROW)};
enum { TABLE = sizeof table / sizeof *table, FREE = 1 };

typedef struct {
  _Atomic uintptr_t *place;
  uintptr_t before, ours;
  bool sealed; // its page is read-only
} slot_t;

// The variables below are guarded by the lock that dl_iterate_phdr holds during its calls, so no object is unloaded
// meanwhile.
static slot_t slots[SLOTS_MOST];
static size_t slot_count;
static unsigned long long loads_seen;
static bool undecided; // an object whose slots are all unbound must be examined again
static bool failed;
static _Atomic bool attached;

typedef struct {
  ElfW(Addr) base;
  const struct dl_phdr_info *info;
  const ElfW(Sym) * symbols;
  const char *strings;
  uintptr_t sealed_from, sealed_to;
  const ElfW(Rela) * tables[2];
  size_t counts[2];
  bool here, elsewhere; // whether bound slots lead to the allocator, and to anything else
  uintptr_t open_free;  // address of its slot for free, if that is still unbound
  bool open;
} object_t;

static bool lies_in(const struct dl_phdr_info *info, uintptr_t address) {
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type == PT_LOAD && address - (info->dlpi_addr + header->p_vaddr) < header->p_memsz)
      return true;
  }
  return false;
}

static bool set(const slot_t *slot, uintptr_t value) {
  void *page = (void *)((uintptr_t)slot->place & ~(recorder_page_bytes() - 1));
  if (slot->sealed && mprotect(page, recorder_page_bytes(), PROT_READ | PROT_WRITE) != 0)
    return false;
  atomic_store(slot->place, value);
  if (slot->sealed)
    mprotect(page, recorder_page_bytes(), PROT_READ);
  return true;
}

// The entry of a slot, or a new one. A slot's address may be known already: another object may have been loaded where
// one was unloaded.
static slot_t *entry_of(const _Atomic uintptr_t *place) {
  size_t i = 0;
  while (i < slot_count && slots[i].place != place)
    i++;
  return i < SLOTS_MOST ? &slots[i] : NULL;
}

static void redirect(const object_t *object, size_t row, _Atomic uintptr_t *place, uintptr_t before) {
  slot_t slot = {.place = place, .before = before, .ours = (uintptr_t)table[row].function};
  slot.sealed = (uintptr_t)place >= object->sealed_from && (uintptr_t)place < object->sealed_to;
  slot_t *entry = entry_of(place);
  if (entry == NULL || !set(&slot, slot.ours)) {
    failed = true;
    return;
  }
  *entry = slot;
  slot_count += entry == &slots[slot_count];
}

// Whether a slot is unbound: until the dynamic linker binds it, it leads back into its own object, but not to the
// function there.
static bool is_open(const object_t *object, const ElfW(Sym) * symbol, unsigned type, uintptr_t value) {
  return type == RELOCATION_SLOT && lies_in(object->info, value) &&
         (symbol->st_shndx == SHN_UNDEF || object->base + symbol->st_value != value);
}

// Examines one relocation. decide: only finds out where the object's slots lead. Other pointers in data do not count
// for that, since the program may have changed them.
static void look_at(object_t *object, const ElfW(Rela) * relocation, bool decide) {
  unsigned type = (unsigned)ELF64_R_TYPE(relocation->r_info);
  if (type != RELOCATION_SLOT && type != RELOCATION_DATA && type != RELOCATION_POINTER)
    return;
  const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(relocation->r_info)];
  size_t row = 0;
  while (row < TABLE && strcmp(object->strings + symbol->st_name, table[row].name) != 0)
    row++;
  if (row == TABLE || table[row].values[0] == 0)
    return;
  _Atomic uintptr_t *place = (_Atomic uintptr_t *)(object->base + relocation->r_offset);
  uintptr_t value = atomic_load(place);
  bool is_ours = value == (uintptr_t)table[row].function, open = is_open(object, symbol, type, value);
  bool leads = value == table[row].values[0] || (type != RELOCATION_SLOT && value == table[row].values[1]);
  if (!decide) {
    if (leads || (open && object->here && !object->elsewhere))
      redirect(object, row, place, value);
  } else if (open) {
    object->open = true;
    object->open_free = row == FREE ? (uintptr_t)place : object->open_free;
  } else if (type != RELOCATION_POINTER) {
    object->here |= leads || is_ours;
    object->elsewhere |= !leads && !is_ours;
  }
}

static void look_at_all(object_t *object, bool decide) {
  for (int i = 0; i < 2 && object->symbols != NULL && object->strings != NULL; i++)
    for (size_t n = 0; object->tables[i] != NULL && n < object->counts[i]; n++)
      look_at(object, object->tables[i] + n, decide);
}

// Makes the dynamic linker bind a slot, as the object's first call would: it calls free(NULL) through the slot.
static void bind(uintptr_t place) {
  uintptr_t stub = atomic_load((_Atomic uintptr_t *)place);
#if defined(__x86_64__)
  ((void (*)(void *))stub)(NULL);
#else
  register uintptr_t of __asm__("x16") = place;
  register void *block __asm__("x0") = NULL;
  __asm__ volatile("blr %2"
                   : "+r"(of), "+r"(block)
                   : "r"(stub)
                   : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
                     "x17", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20",
                     "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc", "memory");
#endif
}

static uintptr_t address(const object_t *object, ElfW(Addr) value) {
  return value < object->base ? object->base + value : value; // some dynamic linkers have added the base already
}

static void read_dynamic(object_t *object, const ElfW(Dyn) * dynamic) {
  for (; dynamic->d_tag != DT_NULL; dynamic++) {
    if (dynamic->d_tag == DT_SYMTAB)
      object->symbols = (const ElfW(Sym) *)address(object, dynamic->d_un.d_ptr);
    else if (dynamic->d_tag == DT_STRTAB)
      object->strings = (const char *)address(object, dynamic->d_un.d_ptr);
    else if (dynamic->d_tag == DT_RELA || dynamic->d_tag == DT_JMPREL)
      object->tables[dynamic->d_tag == DT_RELA] = (const ElfW(Rela) *)address(object, dynamic->d_un.d_ptr);
    else if (dynamic->d_tag == DT_RELASZ || dynamic->d_tag == DT_PLTRELSZ)
      object->counts[dynamic->d_tag == DT_RELASZ] = dynamic->d_un.d_val / sizeof(ElfW(Rela));
  }
}

static int redirect_object(struct dl_phdr_info *info, size_t bytes, void *own) {
  (void)bytes;
  object_t object = {.base = info->dlpi_addr, .info = info};
  const ElfW(Dyn) *dynamic = NULL;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    uintptr_t at = info->dlpi_addr + header->p_vaddr;
    if (header->p_type == PT_DYNAMIC)
      dynamic = (const ElfW(Dyn) *)at;
    if (header->p_type == PT_GNU_RELRO) {
      object.sealed_from = at & ~(recorder_page_bytes() - 1);
      object.sealed_to = (at + header->p_memsz) & ~(recorder_page_bytes() - 1);
    }
  }
  loads_seen = info->dlpi_adds;
  if (!atomic_load(&attached) || lies_in(info, (uintptr_t)own) || dynamic == NULL ||
      strstr(info->dlpi_name, "linux-vdso") != NULL)
    return 0;
  read_dynamic(&object, dynamic);
  look_at_all(&object, true);
  if (object.open_free != 0 && !object.here && !object.elsewhere) {
    bind(object.open_free);
    look_at_all(&object, true);
  }
  undecided |= object.open && !object.here && !object.elsewhere;
  look_at_all(&object, false);
  return 0;
}

static int look_for_loads(struct dl_phdr_info *info, size_t bytes, void *news) {
  (void)bytes;
  *(bool *)news = undecided || info->dlpi_adds != loads_seen;
  return 1;
}

static void redirect_all(void) {
  undecided = false;
  dl_iterate_phdr(redirect_object, (void *)redirect_object);
}

void recorder_attach_news(void) {
  bool news = false;
  if (!atomic_load_explicit(&attached, memory_order_relaxed))
    return;
  dl_iterate_phdr(look_for_loads, &news);
  if (news)
    redirect_all();
}

// Restores the slots in an object that still lead here. Slots of unloaded objects are left alone.
static int restore_object(struct dl_phdr_info *info, size_t bytes, void *unused) {
  (void)bytes;
  (void)unused;
  for (size_t i = 0; i < slot_count; i++)
    if (lies_in(info, (uintptr_t)slots[i].place) && atomic_load(slots[i].place) == slots[i].ours)
      set(&slots[i], slots[i].before);
  return 0;
}

void recorder_detach(void) {
  if (atomic_load_explicit(&attached, memory_order_relaxed) && atomic_exchange(&attached, false))
    dl_iterate_phdr(restore_object, NULL);
}

int recorder_attach(const char *socket_path, const char *functions);

// Whether this library was preloaded: names of a library that a debugger loaded by dlopen are not found globally.
bool recorder_is_preloaded(void) {
  void *program = dlopen(NULL, RTLD_LAZY);
  void *found = program != NULL ? dlsym(program, "hak_record_attach") : NULL;
  if (found == NULL) {
    dlerror();
    dlerror(); // the second call frees the message of the first
  }
  return found == (void *)recorder_attach;
}

static void *given(const char *name) {
  for (size_t row = 0; row < TABLE; row++)
    if (strcmp(name, table[row].name) == 0)
      return (void *)table[row].values[0];
  return NULL;
}

// Reads lines of a name and a hexadecimal address into the table. Two lines with one name give both its values.
static void learn(const char *functions) {
  for (size_t row = 0; row < TABLE; row++)
    memset(table[row].values, 0, sizeof table[row].values);
  while (*functions != '\0') {
    size_t length = strcspn(functions, " ");
    char *end;
    uintptr_t value = strtoull(functions + length, &end, 16);
    for (size_t row = 0; row < TABLE; row++)
      if (strlen(table[row].name) == length && memcmp(table[row].name, functions, length) == 0)
        table[row].values[table[row].values[0] != 0] = value;
    functions = *end == '\n' ? end + 1 : end;
  }
}

// Returns the number of redirected slots, or a negative reason for the failure.
int recorder_attach(const char *socket_path, const char *functions) {
  if (recorder_is_preloaded())
    return recorder_begin_anew(socket_path) ? 1 : REFUSED_RECORDED;
  if (!recorder_over())
    return REFUSED_RECORDED;
  learn(functions);
  next_find_by(given);
  if (given("malloc") == NULL || !recorder_begin_anew(socket_path))
    return given("malloc") == NULL ? REFUSED_NOTHING : REFUSED_RECORDED;
  slot_count = 0;
  failed = false;
  atomic_store(&attached, true);
  redirect_all();
  if (!failed && slot_count != 0)
    return (int)slot_count;
  recorder_end();
  return failed ? REFUSED_SLOT : REFUSED_NOTHING;
}

EXPORT __attribute__((alias("recorder_attach"))) int hak_record_attach(const char *socket_path, const char *functions);
