// Reports how much memory each group of stacks keeps. A page with blocks of only one group counts for it whole; on a
// page that several groups share, only the bytes of its blocks count. It also tests such a prediction: a replay in
// which the blocks of one group are never allocated.
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "format/resident.h"
#include "replay.h"

typedef struct {
  uint64_t page;
  uint32_t group, bytes; // group of one block, and its bytes on this page
} place_t;

typedef struct {
  uint64_t blocks, bytes, held; // held: bytes that would be free without these blocks
} kept_t;

void replay_blame_begin(void) {
  const char *path = replay.options->groups;
  if (path == NULL) {
    return;
  }
  FILE *file = fopen(path, "re");
  replay.groups = replay_map(TRACE_STACKS_MOST * sizeof *replay.groups);
  if (file == NULL || replay.groups == NULL) {
    replay_fail(REPLAY_BAD_INPUT, "the groups of stacks cannot be read: %s", path);
  }
  memset(replay.groups, 0, TRACE_STACKS_MOST * sizeof *replay.groups);
  unsigned node, group;
  while (fscanf(file, "%u %u", &node, &group) == 2) {
    if (node < TRACE_STACKS_MOST && group < TRACE_STACKS_MOST) {
      replay.groups[node] = group;
    }
  }
  fclose(file);
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); // huge pages would hide which small pages are needed
}

// The worker with the slot of the operation. The reader of the trace has checked every number.
static worker_t *owner(worker_t *w, const trace_operation_t *o) {
  return o->kind == TRACE_FREE_FOREIGN || o->kind == TRACE_REALLOC_FOREIGN ? &replay.workers[o->other] : w;
}

// Runs one operation. A block belongs to the group of the stack that allocated it, or changed its size last.
void replay_blame(worker_t *w, const trace_operation_t *o, void (*one)(worker_t *, const trace_operation_t *)) {
  if (o->kind == TRACE_STACK) {
    w->next_stack = o->other;
  }
  if (o->kind > TRACE_REALLOC_FOREIGN) {
    one(w, o);
    return;
  }
  bool frees = o->kind == TRACE_FREE || o->kind == TRACE_FREE_FOREIGN, allocates = o->kind <= TRACE_ALIGNED;
  worker_t *of = owner(w, o);
  _Atomic(void *) *slot = &of->slots[o->slot];
  uint32_t without = replay.options->without;
  if (frees) {
    if (atomic_load_explicit(slot, memory_order_relaxed) != NULL || without == 0) {
      one(w, o);
    }
    return;
  }
  uint32_t group = replay.groups[w->next_stack];
  w->next_stack = 0;
  atomic_store_explicit(&of->marks[o->slot], ((replay_mark_t){group, 1}), memory_order_relaxed);
  if (without != 0 && group == without) {
    free(allocates ? NULL : atomic_exchange(slot, NULL));
    return;
  }
  if (!allocates && without != 0 && atomic_load_explicit(slot, memory_order_relaxed) == NULL) {
    atomic_store_explicit(slot, malloc(o->size ? o->size : 1), memory_order_relaxed); // left out as another group's
  }
  one(w, o);
}

// jemalloc's way. False: there is none, or the allocator has only a part of jemalloc's interface.
static bool purge_arenas(void) {
  int (*control)(const char *, void *, size_t *, void *, size_t) = dlsym(RTLD_DEFAULT, "mallctl");
  if (control == NULL) {
    return false;
  }
  control("thread.tcache.flush", NULL, NULL, NULL, 0);
  return control("arena.4096.purge", NULL, NULL, NULL, 0) == 0; // all arenas
}

// Makes the allocator return its free memory, if it has a function for that.
static void settle(void) {
  int (*trim)(size_t) = (int (*)(size_t))dlsym(RTLD_DEFAULT, "malloc_trim");
  void (*collect)(bool) = (void (*)(bool))dlsym(RTLD_DEFAULT, "mi_collect");
  void (*release)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "MallocExtension_ReleaseFreeMemory");
  if (collect != NULL) {
    collect(true);
  } else if (release != NULL) {
    release();
  } else if (!purge_arenas() && trim != NULL) {
    trim(0);
  }
}

static int by_page(const void *one, const void *other) {
  const place_t *a = one, *b = other;
  return a->page < b->page ? -1 : a->page > b->page;
}

// Lists the pages of all live blocks. places: NULL only counts them.
static size_t list_places(place_t *places, kept_t *kept, uint32_t *groups) {
  size_t count = 0;
  for (uint32_t i = 0; i < replay.count; i++) {
    worker_t *w = &replay.workers[i];
    for (uint64_t slot = 0; slot < trace_thread(replay.trace, replay.process, i)->slots; slot++) {
      char *block = w->slots[slot];
      if (block == NULL) {
        continue;
      }
      replay_mark_t mark = w->marks[slot];
      size_t bytes = malloc_usable_size(block), page = replay.page_bytes;
      uint64_t begin = (uintptr_t)block, end = begin + (bytes ? bytes : 1);
      uint64_t first = begin / page, last = (end - 1) / page;
      for (uint64_t at = first; places != NULL && at <= last; at++) {
        uint64_t from = at == first ? begin : at * page, to = at == last ? end : (at + 1) * page;
        places[count + at - first] = (place_t){at, mark.stack, (uint32_t)(to - from)};
      }
      count += last - first + 1;
      *groups = mark.stack > *groups ? mark.stack : *groups;
      if (places != NULL) {
        kept[mark.stack].blocks++;
        kept[mark.stack].bytes += bytes;
      }
    }
  }
  return count;
}

static uint64_t count_pages(const place_t *places, size_t count, kept_t *kept) {
  uint64_t pages = 0;
  size_t page = replay.page_bytes;
  for (size_t i = 0, next; i < count; i = next) {
    bool alone = true;
    for (next = i; next < count && places[next].page == places[i].page; next++) {
      alone = alone && places[next].group == places[i].group;
    }
    size_t found = 0;
    resident_bytes((const void *)(places[i].page * page), page, &found);
    pages += found != 0;
    for (size_t each = i; each < next && found != 0 && !alone; each++) {
      kept[places[each].group].held += places[each].bytes;
    }
    kept[places[i].group].held += alone && found != 0 ? page : 0;
  }
  return pages;
}

// "settled_kib": memory of the process without the replay's own; "kept": [group, blocks, bytes, KiB free without it].
void replay_blame_report(uint64_t image_kib) {
  if (replay.groups == NULL) {
    return;
  }
  settle();
  uint64_t raw = replay_check_limit(), own = (replay_own_bytes() >> 10) + image_kib;
  uint32_t groups = 0;
  size_t count = list_places(NULL, NULL, &groups), kib = replay.page_bytes >> 10;
  place_t *places = replay_map((count + 1) * sizeof *places);
  kept_t *kept = replay_map((groups + 1) * sizeof *kept);
  if (places == NULL || kept == NULL) {
    replay_fail(REPLAY_FAILED, "no memory for the pages of its blocks");
  }
  list_places(places, kept, &groups);
  qsort(places, count, sizeof *places, by_page);
  uint64_t pages = count_pages(places, count, kept);
  printf(", \"settled_kib\": %llu, \"live_kib\": %llu, \"kept\": [", (unsigned long long)(raw > own ? raw - own : 0),
         (unsigned long long)(pages * kib));
  const char *between = "";
  for (uint32_t group = 0; group <= groups; group++) {
    if (kept[group].blocks != 0) {
      printf("%s[%u, %llu, %llu, %llu]", between, group, (unsigned long long)kept[group].blocks,
             (unsigned long long)kept[group].bytes, (unsigned long long)(kept[group].held >> 10));
      between = ", ";
    }
  }
  printf("]");
}
