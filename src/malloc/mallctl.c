/* jemalloc's mallctl, for programs that keep memory apart in arenas: an arena that a program creates is a region. Other
 * names go to jemalloc itself, if the program has loaded it, so that it answers as without this library. Values and
 * errors are those of jemalloc 5.3.
 *
 * The table of arenas takes no lock, so a fork needs no care. A slot is free (NULL), claimed, or has a region. */
#include "mallctl.h"

#include "hakmem.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

enum {
  ARENAS = 4095,          /* flags of mallocx name no more; 0 is the ordinary heap */
  NAME_BYTES = 32,        /* of an arena, with its NUL: callers pass a buffer of this size */
  DEPTH_MAX = 3,          /* components of a name */
  MIB_FIRST = 0x68616b00, /* the first number of a MIB, beyond those of jemalloc */
  RELAXED = memory_order_relaxed,
};

HAK_EXPORT int mallctl(const char *name, void *old, size_t *old_bytes, void *fresh, size_t fresh_bytes);
HAK_EXPORT int mallctlnametomib(const char *name, size_t *mib, size_t *depth);
HAK_EXPORT int mallctlbymib(const size_t *mib, size_t depth, void *old, size_t *old_bytes, void *fresh,
                            size_t fresh_bytes);

static _Atomic(hak_region_t *) arenas[ARENAS];
static _Atomic unsigned count = 1; /* the least index that was never given */
#define CLAIMED (&hak_regions_released)

/* One call: what it reads and writes, and the index in its name. */
typedef struct request {
  void *old;
  size_t *old_bytes;
  const void *fresh;
  size_t fresh_bytes;
  size_t index;
} request_t;

typedef struct leaf {
  const char *name; /* # stands for an index */
  size_t depth;     /* of its components */
  int (*call)(const request_t *request);
} leaf_t;

/* NULL: it has no region. */
static hak_region_t *arena_at(size_t index) {
  hak_region_t *region = index < ARENAS ? atomic_load_explicit(&arenas[index], memory_order_acquire) : NULL;
  return region == CLAIMED ? NULL : region; /* pairs with create */
}

bool hak_mallctl_arena(int flags, hak_region_t **region) {
  size_t index = ((unsigned)flags >> HAK_MALLCTL_SHIFT) - 1;
  bool is_ordinary = index >= atomic_load_explicit(&count, RELAXED);
  *region = is_ordinary ? NULL : arena_at(index);
  return is_ordinary || *region;
}

static bool reads(const request_t *request) {
  return request->old || request->old_bytes;
}

static bool writes(const request_t *request) {
  return request->fresh || request->fresh_bytes > 0;
}

static int answer(const request_t *request, const void *value, size_t bytes) {
  if (!request->old || !request->old_bytes) {
    return 0;
  }
  size_t wanted = *request->old_bytes;
  *request->old_bytes = bytes < wanted ? bytes : wanted;
  memcpy(request->old, value, *request->old_bytes);
  return wanted == bytes ? 0 : EINVAL;
}

static int accept(const request_t *request, void *value, size_t bytes) {
  if (request->fresh && request->fresh_bytes != bytes) {
    return EINVAL;
  }
  if (request->fresh) {
    memcpy(value, request->fresh, bytes);
  }
  return 0;
}

static int version(const request_t *request) {
  static const char *const text = "5.3.0-hakmem";
  return writes(request) ? EPERM : answer(request, &text, sizeof(void *));
}

/* Nothing is cached that it could renew. */
static int epoch(const request_t *request) {
  uint64_t number = 1;
  int error = accept(request, &number, sizeof number);
  return error ? error : answer(request, &number, sizeof number);
}

static int arenas_narenas(const request_t *request) {
  unsigned number = atomic_load_explicit(&count, RELAXED);
  return writes(request) ? EPERM : answer(request, &number, sizeof number);
}

/* The least free index, as jemalloc does. 0: there is none. */
static unsigned claim(void) {
  for (unsigned index = 1; index < ARENAS; index++) {
    hak_region_t *none = atomic_load_explicit(&arenas[index], RELAXED);
    if (!none && atomic_compare_exchange_strong_explicit(&arenas[index], &none, CLAIMED, RELAXED, RELAXED)) {
      unsigned seen = atomic_load_explicit(&count, RELAXED);
      while (seen <= index && !atomic_compare_exchange_weak_explicit(&count, &seen, index + 1, RELAXED, RELAXED)) {
      }
      return index;
    }
  }
  return 0;
}

/* Hooks that map an arena's memory would have to be written, and are refused. */
static int arenas_create(const request_t *request) {
  if (!request->old || !request->old_bytes || *request->old_bytes != sizeof(unsigned)) {
    if (request->old_bytes) {
      *request->old_bytes = 0;
    }
    return EINVAL;
  }
  unsigned index = writes(request) ? 0 : claim();
  if (index == 0) {
    return writes(request) ? EPERM : EAGAIN;
  }
  char name[NAME_BYTES];
  hak_text_t text = hak_text_on(name, sizeof name);
  hak_text_put(&text, "arena_%zu", (size_t)index);
  hak_region_t *region = hak_region_new(&(hak_region_options_t){.name = name});
  atomic_store_explicit(&arenas[index], region, memory_order_release); /* pairs with arena_at */
  return region ? answer(request, &index, sizeof index) : EAGAIN;
}

/* The region that a call without values ends or empties. */
static int target(const request_t *request, hak_region_t **region) {
  *region = arena_at(request->index);
  return reads(request) || writes(request) ? EPERM : *region ? 0 : EFAULT;
}

static int arena_reset(const request_t *request) {
  hak_region_t *region;
  int error = target(request, &region);
  if (!error) {
    hak_region_reset(region);
  }
  return error;
}

static int arena_destroy(const request_t *request) {
  hak_region_t *region;
  int error = target(request, &region);
  if (error) {
    return error;
  }
  hak_lock(&region->lock);
  bool is_used = region->inside > 0;
  hak_unlock(&region->lock);
  hak_region_t *expected = region;
  if (is_used || !atomic_compare_exchange_strong(&arenas[request->index], &expected, NULL)) {
    return EFAULT;
  }
  hak_region_destroy(region);
  return 0;
}

/* A reader passes the address of a pointer to its buffer. */
static int arena_name(const request_t *request) {
  hak_region_t *region = arena_at(request->index);
  if (!region && request->index > 0) {
    return EFAULT;
  }
  if (request->old && request->old_bytes) {
    char *buffer;
    if (*request->old_bytes != sizeof buffer) {
      return EINVAL;
    }
    memcpy(&buffer, request->old, sizeof buffer);
    hak_text_t text = hak_text_on(buffer, NAME_BYTES);
    hak_text_put(&text, "%s", region ? hak_region_name(region) : "auto_0");
  }
  const char *name = NULL;
  int error = accept(request, &name, sizeof name);
  if (error || !name) {
    return error;
  }
  if (region) {
    hak_region_rename(region, name, NAME_BYTES);
  }
  return region ? 0 : EFAULT;
}

/* The arena of the innermost scope; 0: it has none. */
static unsigned index_inside(void) {
  hak_region_t *region = hak_scope ? hak_scope_region() : NULL;
  unsigned index = region ? atomic_load_explicit(&count, RELAXED) - 1 : 0;
  while (index > 0 && arena_at(index) != region) {
    index--;
  }
  return index;
}

/* A scope that the thread entered otherwise is not left here. */
static int bind(unsigned before, unsigned index) {
  hak_region_t *region = arena_at(index);
  if (!region && index > 0) {
    return EFAULT;
  }
  if (hak_scope && before == 0) {
    return EAGAIN;
  }
  if (before > 0) {
    hak_region_leave(arena_at(before));
  }
  return !region || hak_region_enter(region) ? 0 : EAGAIN;
}

static int thread_arena(const request_t *request) {
  unsigned before = index_inside(), index = before;
  int error = accept(request, &index, sizeof index);
  error = error ? error : answer(request, &before, sizeof before);
  return error || !request->fresh ? error : bind(before, index);
}

static const leaf_t leaves[] = {
    {"arenas.narenas", 2, arenas_narenas},
    {"arenas.create", 2, arenas_create},
    {"arena.#.reset", 3, arena_reset},
    {"arena.#.destroy", 3, arena_destroy},
    {"arena.#.name", 3, arena_name},
    {"thread.arena", 2, thread_arena},
    {"version", 1, version},
    {"epoch", 1, epoch},
};
enum { LEAVES = sizeof leaves / sizeof *leaves, OWN = LEAVES - 2 }; /* the last two yield to those of jemalloc */

static bool matches(const char *name, const char *pattern, size_t *index) {
  for (; *pattern; pattern++) {
    if (*pattern == '#') {
      const char *digits = name;
      *index = hak_text_number(&name, 10);
      if (name == digits) {
        return false;
      }
    } else if (*name++ != *pattern) {
      return false;
    }
  }
  return !*name;
}

static bool has_index(const leaf_t *leaf, size_t index) {
  return leaf->depth < DEPTH_MAX || index <= atomic_load_explicit(&count, RELAXED);
}

/* NULL: none of the first leaves has that name, or no arena that index. */
static const leaf_t *find(const char *name, size_t most, size_t *index) {
  for (const leaf_t *leaf = leaves; leaf < leaves + most; leaf++) {
    if (matches(name, leaf->name, index)) {
      return has_index(leaf, *index) ? leaf : NULL;
    }
  }
  return NULL;
}

/* jemalloc's own function, or NULL. */
static void *next_of(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) {
    dlerror(); /* keeps the program's own pending error */
  }
  return found;
}

int mallctl(const char *name, void *old, size_t *old_bytes, void *fresh, size_t fresh_bytes) {
  request_t request = {old, old_bytes, fresh, fresh_bytes, 0};
  const leaf_t *leaf = find(name, OWN, &request.index);
  int (*next)(const char *, void *, size_t *, void *, size_t);
  if (!leaf && (*(void **)&next = next_of("mallctl"))) {
    return next(name, old, old_bytes, fresh, fresh_bytes);
  }
  leaf = leaf ? leaf : find(name, LEAVES, &request.index);
  return leaf ? leaf->call(&request) : ENOENT;
}

/* A buffer that is too short gets the first numbers. */
int mallctlnametomib(const char *name, size_t *mib, size_t *depth) {
  size_t index = 0;
  const leaf_t *leaf = find(name, OWN, &index);
  int (*next)(const char *, size_t *, size_t *);
  if (!leaf && (*(void **)&next = next_of("mallctlnametomib"))) {
    return next(name, mib, depth);
  }
  leaf = leaf ? leaf : find(name, LEAVES, &index);
  if (!leaf) {
    return ENOENT;
  }
  const size_t numbers[DEPTH_MAX] = {MIB_FIRST + (size_t)(leaf - leaves), index, 0};
  *depth = leaf->depth < *depth ? leaf->depth : *depth;
  memcpy(mib, numbers, *depth * sizeof *mib);
  return 0;
}

int mallctlbymib(const size_t *mib, size_t depth, void *old, size_t *old_bytes, void *fresh, size_t fresh_bytes) {
  size_t number = depth > 0 ? mib[0] - MIB_FIRST : LEAVES;
  int (*next)(const size_t *, size_t, void *, size_t *, void *, size_t);
  if (number >= LEAVES) {
    *(void **)&next = next_of("mallctlbymib");
    return next ? next(mib, depth, old, old_bytes, fresh, fresh_bytes) : ENOENT;
  }
  const leaf_t *leaf = &leaves[number];
  request_t request = {old, old_bytes, fresh, fresh_bytes, depth == DEPTH_MAX ? mib[1] : 0};
  return depth == leaf->depth && has_index(leaf, request.index) ? leaf->call(&request) : ENOENT;
}
