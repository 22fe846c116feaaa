/* The C++ operators new and delete, under their mangled names (Itanium C++ ABI; size_t is `m`). A C program that loads
 * this library then does not load the C++ runtime with it.
 *
 * A program may replace any of them, and the runtime's own forms call each other: the sized delete calls the plain one,
 * new[] calls new, and a nothrow form calls the throwing one. If the program replaces one form, all forms of this file
 * step aside, and pass each call to the function that it would reach without this library. If it replaces none, this
 * check costs nothing: both fast paths use a heap pointer of their own, `hak_heap_operators`, which a thread sets once
 * the answer is known. */
#include "hakmem.h"

#include "fast.h"
#include "foreign.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

typedef void (*new_handler_t)(void);

/* std::get_new_handler() and std::__throw_bad_alloc() of libstdc++, if the program has it. */
extern new_handler_t _ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

/* One record for each form. */
typedef struct form {
  const char *name;
  void *volatile bound; /* the function that the name resolves to */
  void *own;
  void *next; /* the function that a call would reach without this library; NULL: unknown */
} form_t;

enum { UNKNOWN, SERVE, STAND_ASIDE };
static int decision HAK_START_DATA;

static int decide(void);

/* Whether the program replaces a form. If not, the fast paths serve this thread's later calls at once. */
static bool stands_aside(void) {
  int known = __atomic_load_n(&decision, __ATOMIC_ACQUIRE); /* pairs with decide */
  if (HAK_UNLIKELY(known == UNKNOWN)) {
    known = decide();
  }
  if (known == SERVE) {
    hak_heap_operators = hak_heap;
  }
  return known == STAND_ASIDE;
}

/* A symbol of the C++ runtime: loaded with this library, loaded later with global symbols, or linked to the caller. */
static void *runtime_symbol(void *linked, const char *name, const void *caller) {
  void *found = linked ? linked : dlsym(RTLD_NEXT, name), *object = NULL;
  if (!found && (object = hak_foreign_object(caller, 0)) != NULL) {
    found = dlsym(object, name);
    dlclose(object);
  }
  return found;
}

static new_handler_t current_new_handler(const void *caller) {
  new_handler_t (*get)(void) = NULL;
  *(void **)&get = runtime_symbol((void *)_ZSt15get_new_handlerv, "_ZSt15get_new_handlerv", caller);
  return get ? get() : NULL;
}

/* Parts of the runtime for a program that has the exception but not the function that throws it. In the shared library
 * they are looked up when needed, because the loader looks up every name that is declared, at each start. */
#ifdef HAKMEM_EMBEDDED
extern void *_ZTVSt9bad_alloc[] __attribute__((weak)), *_ZTISt9bad_alloc[] __attribute__((weak));
extern void _ZNSt9bad_allocD1Ev(void *exception) __attribute__((weak));
extern void *__cxa_allocate_exception(size_t bytes) __attribute__((weak));
extern void __cxa_throw(void *exception, void *type, void (*destroy)(void *)) __attribute__((weak));
#define PART(name) ((void *)(name))
#else
#define PART(name) dlsym(RTLD_DEFAULT, #name)
#endif

/* By the Itanium C++ ABI. A std::bad_alloc object consists only of a pointer to its virtual table. */
static void throw_by_parts(void) {
  void **methods = PART(_ZTVSt9bad_alloc), *type = PART(_ZTISt9bad_alloc);
  void *(*make)(size_t) = NULL;
  void (*throw_it)(void *, void *, void (*)(void *)) = NULL, (*destroy)(void *) = NULL;
  *(void **)&make = PART(__cxa_allocate_exception);
  *(void **)&throw_it = PART(__cxa_throw);
  *(void **)&destroy = PART(_ZNSt9bad_allocD1Ev);
  if (methods && type && make && throw_it) {
    void **exception = make(sizeof *exception);
    *exception = &methods[2];
    throw_it(exception, type, destroy);
  }
}

_Noreturn static void throw_bad_alloc(const void *caller) {
  void (*throw_it)(void) = NULL;
  *(void **)&throw_it = runtime_symbol((void *)_ZSt17__throw_bad_allocv, "_ZSt17__throw_bad_allocv", caller);
  if (throw_it) {
    throw_it();
  }
  throw_by_parts();
  abort();
}

static void *allocate(size_t alignment, size_t bytes) {
  return alignment > HAK_BLOCK_MIN ? hak_memalign(alignment, bytes) : hak_fast_alloc(bytes);
}

/* As the standard says: call the handler until it makes room, or there is none. NULL: there is none. */
static void *call_handlers(size_t alignment, size_t bytes, const void *caller) {
  void *block = NULL;
  for (new_handler_t handler; !block && (handler = current_new_handler(caller));) {
    handler();
    block = allocate(alignment, bytes);
  }
  return block;
}

/* A handler may throw, and a nothrow form must catch that, which C cannot. The runtime's own form calls the throwing
 * operator new of this file inside a try block. In a program that embeds the library, the nothrow form is the runtime's
 * own: linked statically, a form of this file would replace it. */
HAK_COLD static void *new_refused(size_t alignment, size_t bytes, bool nothrow, const void *caller) {
  void *(*plain)(size_t, const void *) = NULL, *(*aligned)(size_t, size_t, const void *) = NULL;
  if (nothrow && current_new_handler(caller)) {
    if (alignment == 0 && (*(void **)&plain = runtime_symbol(NULL, "_ZnwmRKSt9nothrow_t", caller))) {
      return plain(bytes, NULL);
    }
    if (alignment != 0 && (*(void **)&aligned = runtime_symbol(NULL, "_ZnwmSt11align_val_tRKSt9nothrow_t", caller))) {
      return aligned(bytes, alignment, NULL);
    }
  }
  void *block = call_handlers(alignment, bytes, caller);
  if (!block && !nothrow) {
    throw_bad_alloc(caller);
  }
  return block;
}

/* `alignment` 0: the alignment of every block. */
static void *new_block(size_t alignment, size_t bytes, bool nothrow, const void *caller) {
  void *block = allocate(alignment, bytes);
  return HAK_LIKELY(block != NULL) ? block : new_refused(alignment, bytes, nothrow, caller);
}

/* The names are weak, like the runtime's, so that a program can define one form and embed the rest. `served`: the
 * action if no form is replaced. `derived`: the standard's definition of the form, if its next function is unknown. */
#define LIST(...) __VA_ARGS__
#define OPERATOR(type, name, parameters, arguments, fast_path, served, derived) \
  static form_t form##name; \
  HAK_NOINLINE static type slow##name(const void *caller, LIST parameters) { \
    type(*next) parameters = NULL; \
    (void)caller; \
    if (HAK_LIKELY(!stands_aside())) { \
      return served; \
    } \
    *(void **)&next = form##name.next; \
    return next ? next arguments : derived; \
  } \
  HAK_ENTRY static type own##name parameters { \
    fast_path; \
    return slow##name(__builtin_return_address(0), LIST arguments); \
  } \
  HAK_EXPORT type name parameters __attribute__((weak, alias("own" #name))); \
  static form_t form##name = {#name, (void *)name, (void *)own##name, NULL};

/* The function to which the name resolves. The compiler may turn a plain call into a call of this file's function. */
#define LEAD(name) ((__typeof__(&(name)))(uintptr_t)form##name.bound)
#define TRY_NEW \
  void *block = HAK_LIKELY(bytes <= HAK_SMALL_MAX) ? hak_fast_alloc_from(hak_heap_operators, bytes) : NULL; \
  if (HAK_LIKELY(block != NULL)) { \
    return block; \
  }
#define NEW(name, nothrow, parameters, arguments, derived) \
  OPERATOR(void *, name, parameters, arguments, TRY_NEW, new_block(0, bytes, nothrow, caller), derived)
#define NEW_ALIGNED(name, nothrow, parameters, arguments, derived) \
  OPERATOR(void *, name, parameters, arguments, (void)0, new_block(alignment, bytes, nothrow, caller), derived)
#ifdef HAKMEM_EMBEDDED
#define NEW_NOTHROW(k)
#else
#define NEW_NOTHROW(k) \
  NEW(_Zn##k##mRKSt9nothrow_t, true, (size_t bytes, const void *nothrow), (bytes, nothrow), LEAD(_Zn##k##m)(bytes)) \
  NEW_ALIGNED(_Zn##k##mSt11align_val_tRKSt9nothrow_t, true, (size_t bytes, size_t alignment, const void *nothrow), \
              (bytes, alignment, nothrow), LEAD(_Zn##k##mSt11align_val_t)(bytes, alignment))
#endif
#define NEW_ALL(k, plain, aligned) \
  NEW(_Zn##k##m, false, (size_t bytes), (bytes), plain) \
  NEW_ALIGNED(_Zn##k##mSt11align_val_t, false, (size_t bytes, size_t alignment), (bytes, alignment), aligned) \
  NEW_NOTHROW(k)
NEW_ALL(w, new_block(0, bytes, false, caller), new_block(alignment, bytes, false, caller))
NEW_ALL(a, LEAD(_Znwm)(bytes), LEAD(_ZnwmSt11align_val_t)(bytes, alignment))

#define TRY_DELETE \
  if (HAK_LIKELY(hak_fast_free_into(hak_heap_operators, block))) { \
    return; \
  }
#define DELETE(name, parameters, arguments, derived) \
  OPERATOR(void, name, parameters, arguments, TRY_DELETE, hak_free(block), derived)
#define DELETE_SIZED(name, parameters, arguments, derived) \
  OPERATOR(void, name, parameters, arguments, TRY_DELETE, hak_free_sized(block, bytes), derived)
#define DELETE_ALL(k, plain, aligned) \
  DELETE(_Zd##k##Pv, (void *block), (block), plain) \
  DELETE(_Zd##k##PvRKSt9nothrow_t, (void *block, const void *nothrow), (block, nothrow), LEAD(_Zd##k##Pv)(block)) \
  DELETE_SIZED(_Zd##k##Pvm, (void *block, size_t bytes), (block, bytes), LEAD(_Zd##k##Pv)(block)) \
  DELETE(_Zd##k##PvSt11align_val_t, (void *block, size_t alignment), (block, alignment), aligned) \
  DELETE(_Zd##k##PvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, const void *nothrow), \
         (block, alignment, nothrow), LEAD(_Zd##k##PvSt11align_val_t)(block, alignment)) \
  DELETE(_Zd##k##PvmSt11align_val_t, (void *block, size_t bytes, size_t alignment), (block, bytes, alignment), \
         LEAD(_Zd##k##PvSt11align_val_t)(block, alignment))
DELETE_ALL(l, hak_free(block), hak_free(block))
DELETE_ALL(a, LEAD(_ZdlPv)(block), LEAD(_ZdlPvSt11align_val_t)(block, alignment))

#define AT(name) &form##name
#ifdef HAKMEM_EMBEDDED
#define AT_NOTHROW(new)
#else
#define AT_NOTHROW(new) AT(new##mRKSt9nothrow_t), AT(new##mSt11align_val_tRKSt9nothrow_t),
#endif
#define FORMS(new, delete) \
  AT_NOTHROW(new) \
  AT(new##m), AT(new##mSt11align_val_t), AT(delete##Pv), AT(delete##PvRKSt9nothrow_t), AT(delete##Pvm), \
      AT(delete##PvSt11align_val_t), AT(delete##PvSt11align_val_tRKSt9nothrow_t), AT(delete##PvmSt11align_val_t)
static form_t *const forms[] = {FORMS(_Znw, _Zdl), FORMS(_Zna, _Zda), NULL};

typedef struct object {
  uintptr_t inside;
  const void *is; /* the program or library, identified by its program headers; NULL: none */
} object_t;

static int find_object(struct dl_phdr_info *info, size_t size, void *argument) {
  object_t *object = argument;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    if (part->p_type == PT_LOAD && object->inside - (info->dlpi_addr + part->p_vaddr) < part->p_memsz) {
      object->is = info->dlpi_phdr;
    }
  }
  return object->is != NULL;
}

/* The program or library that holds the address. None is asked for in a program without the C++ runtime. */
static const void *object_of(void *address) {
  object_t object = {(uintptr_t)address, NULL};
  if (address) {
    dl_iterate_phdr(find_object, &object);
  }
  return object.is;
}

/* Forms of the runtime do not count as replacements, nor do those of a library with its own malloc: it is an allocator
 * that this one supersedes. If the runtime was not loaded with this library, later libraries find the forms of this
 * file first. */
HAK_COLD static int decide(void) {
  bool replaced = false;
  const void *runtime = object_of((void *)_ZSt15get_new_handlerv);
  const void *allocator = runtime ? object_of(dlsym(RTLD_NEXT, "malloc")) : NULL;
  for (form_t *const *at = forms; *at; at++) {
    form_t *form = *at;
    const void *object = object_of(form->next = runtime ? dlsym(RTLD_NEXT, form->name) : NULL);
    replaced |= form->bound != form->own || (object && object != runtime && object != allocator);
  }
  /* Keeps the program's own pending error. A lookup that succeeds takes glibc's errors back, and dlerror musl's. In
   * glibc, dlerror would call realloc; where a library looks up the next realloc then, glibc writes to freed memory. */
  if (runtime) {
    (void)dlsym(RTLD_NEXT, "malloc");
  }
  dlerror();
  __atomic_store_n(&decision, replaced ? STAND_ASIDE : SERVE, __ATOMIC_RELEASE);
  return decision;
}

/* Decide before other threads exist, of which one could hold the dynamic linker's lock later. */
__attribute__((constructor(102))) static void start(void) {
  stands_aside();
}
