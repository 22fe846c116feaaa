/* The C++ operators new and delete, under their mangled names (Itanium C++ ABI; size_t is `m`), so that a C program
 * that loads this library does not load the C++ runtime with it. */
#include "hakmem.h"

#include "fast.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef void (*new_handler_t)(void);

/* std::get_new_handler() and std::__throw_bad_alloc() of libstdc++, where the program has it. */
extern new_handler_t _ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

static void *runtime_symbol(void *linked, const char *name) {
  return linked ? linked : dlsym(RTLD_DEFAULT, name); /* the C++ runtime may have been loaded after us */
}

static new_handler_t current_new_handler(void) {
  new_handler_t (*get)(void) = NULL;
  *(void **)&get = runtime_symbol((void *)_ZSt15get_new_handlerv, "_ZSt15get_new_handlerv");
  return get ? get() : NULL;
}

_Noreturn static void throw_bad_alloc(void) {
  void (*throw_it)(void) = NULL;
  *(void **)&throw_it = runtime_symbol((void *)_ZSt17__throw_bad_allocv, "_ZSt17__throw_bad_allocv");
  if (throw_it) {
    throw_it();
  }
  abort();
}

HAK_INLINE void *allocate(size_t alignment, size_t bytes) {
  return alignment > HAK_BLOCK_MIN ? hak_memalign(alignment, bytes) : hak_fast_alloc(bytes);
}

/* As the standard says: call the handler until it makes room, or there is none. NULL: there is none. */
static void *call_handlers(size_t alignment, size_t bytes) {
  void *block = NULL;
  for (new_handler_t handler; !block && (handler = current_new_handler());) {
    handler();
    block = allocate(alignment, bytes);
  }
  return block;
}

HAK_COLD static void *new_throwing(size_t alignment, size_t bytes) {
  void *block = call_handlers(alignment, bytes);
  if (!block) {
    throw_bad_alloc();
  }
  return block;
}

/* A handler may throw, and a nothrow form must catch that, which C cannot. The C++ runtime's own form can: it calls
 * the throwing operator new, which is ours, inside a try block. */
HAK_COLD static void *new_nothrow(size_t alignment, size_t bytes) {
  void *(*plain)(size_t, const void *) = NULL;
  void *(*aligned)(size_t, size_t, const void *) = NULL;
  if (!current_new_handler()) {
    return NULL;
  }
  if (alignment == 0) {
    *(void **)&plain = dlsym(RTLD_NEXT, "_ZnwmRKSt9nothrow_t");
    return plain ? plain(bytes, NULL) : call_handlers(alignment, bytes);
  }
  *(void **)&aligned = dlsym(RTLD_NEXT, "_ZnwmSt11align_val_tRKSt9nothrow_t");
  return aligned ? aligned(bytes, alignment, NULL) : call_handlers(alignment, bytes);
}

/* `alignment` 0: that of every block. */
HAK_INLINE void *new_block(size_t alignment, size_t bytes, bool nothrow) {
  void *block = allocate(alignment, bytes);
  if (HAK_LIKELY(block != NULL)) {
    return block;
  }
  return nothrow ? new_nothrow(alignment, bytes) : new_throwing(alignment, bytes);
}

#define NEW(suffix, alignment, nothrow, ...) \
  HAK_EXPORT void *_Zn##suffix(size_t bytes __VA_ARGS__); \
  HAK_ENTRY void *_Zn##suffix(size_t bytes __VA_ARGS__) { \
    return new_block(alignment, bytes, nothrow); \
  }
#define NEW_ALL(kind) \
  NEW(kind##m, 0, false) \
  NEW(kind##mRKSt9nothrow_t, ((void)tag, 0), true, , const void *tag) \
  NEW(kind##mSt11align_val_t, alignment, false, , size_t alignment) \
  NEW(kind##mSt11align_val_tRKSt9nothrow_t, ((void)tag, alignment), true, , size_t alignment, const void *tag)
NEW_ALL(w) /* operator new */
NEW_ALL(a) /* operator new[] */

#define DELETE(suffix, parameters, ...) \
  HAK_EXPORT void _Zd##suffix(void *block __VA_ARGS__); \
  HAK_ENTRY void _Zd##suffix(void *block __VA_ARGS__) { \
    parameters; \
    hak_fast_free(block); \
  }
#define DELETE_ALL(kind) \
  DELETE(kind##Pv, (void)0) \
  DELETE(kind##PvRKSt9nothrow_t, (void)tag, , const void *tag) \
  DELETE(kind##Pvm, (void)bytes, , size_t bytes) \
  DELETE(kind##PvSt11align_val_t, (void)alignment, , size_t alignment) \
  DELETE(kind##PvSt11align_val_tRKSt9nothrow_t, ((void)alignment, (void)tag), , size_t alignment, const void *tag) \
  DELETE(kind##PvmSt11align_val_t, ((void)bytes, (void)alignment), , size_t bytes, size_t alignment)
DELETE_ALL(l) /* operator delete */
DELETE_ALL(a) /* operator delete[] */
