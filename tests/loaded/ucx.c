/* UCX is informed of each page whose contents are discarded. The program acts as a cache of registered memory: a
 * registered page of which UCX reported nothing must be resident, and must not be empty.
 *
 * argument: the way in which UCX intercepts libc's functions, as in UCX_MEM_MMAP_HOOK_MODE: "bistro" changes their
 * code, "reloc" the tables of the loaded libraries */
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucm/api/ucm.h>
#include <unistd.h>

#include "check.h"

enum { PAGE = 4096, SLOTS = 400, STEPS = 20000, TRIM_EVERY = 1000, PAUSE_EVERY = 250, MARKS = 4 };
static const uintptr_t ADDRESSES = (uintptr_t)1 << 47;

/* One bit for each page that a program may have. */
static unsigned char *registered;
static unsigned long events, announced;

static bool is_registered(uintptr_t page) {
  return registered[page / PAGE / 8] >> page / PAGE % 8 & 1;
}

static void on_event(ucm_event_type_t type, ucm_event_t *event, void *unused) {
  uintptr_t from = (uintptr_t)event->vm_unmapped.address, to = from + event->vm_unmapped.size;
  (void)type, (void)unused;
  events++;
  for (uintptr_t page = from & ~(uintptr_t)(PAGE - 1); page < to; page += PAGE) {
    if (is_registered(page)) {
      registered[page / PAGE / 8] &= (unsigned char)~(1U << page / PAGE % 8);
      announced++;
    }
  }
}

static uintptr_t mark_of(uintptr_t page, int i) {
  return page ^ (uintptr_t)0x5a17b0 << 40 ^ (uintptr_t)(i + 1);
}

static uintptr_t *mark_at(uintptr_t page, int i) {
  return (uintptr_t *)(page + 1032 + (uintptr_t)i * 712); /* NOLINT(performance-no-int-to-ptr) */
}

/* Looks at the whole page: a smaller block that lay there meanwhile may have changed a part of it. */
static bool is_empty(uintptr_t page) {
  static const char none[PAGE];
  return memcmp(mark_at(page, 0), none, MARKS * 712) == 0;
}

static void each_page(char *block, size_t bytes, void (*visit)(uintptr_t page)) {
  uintptr_t first = ((uintptr_t)block + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
  for (uintptr_t page = first; page + PAGE <= (uintptr_t)block + bytes; page += PAGE) {
    visit(page);
  }
}

static void see_contents(uintptr_t page) {
  CHECK(!is_registered(page) || !is_empty(page)); /* fails if the contents are gone and UCX reported nothing */
}

static void enlist(uintptr_t page) {
  for (int i = 0; i < MARKS; i++) {
    *mark_at(page, i) = mark_of(page, i);
  }
  registered[page / PAGE / 8] |= (unsigned char)(1U << page / PAGE % 8);
}

static void write_all(char *block, size_t bytes) {
  each_page(block, bytes, see_contents);
  memset(block, 1, bytes);
  each_page(block, bytes, enlist);
}

static void verify(uintptr_t page) {
  for (int i = 0; i < MARKS; i++) {
    CHECK(*mark_at(page, i) == mark_of(page, i));
  }
}

static void look(uintptr_t page) {
  unsigned char resident = 0;
  if (is_registered(page)) {
    CHECK(mincore((void *)page, PAGE, &resident) == 0); /* NOLINT(performance-no-int-to-ptr): it is mapped */
    CHECK(resident & 1);
  }
}

static uint64_t draw(void) {
  static uint64_t state = 36;
  state = state * 6364136223846793005U + 1442695040888963407U;
  return state >> 33;
}

static size_t draw_bytes(void) {
  static const size_t most[] = {2000, 20000, 60000, 400000, 2000000, 20000, 8000, 9000000};
  return 1 + draw() % most[draw() % (draw() % 8 == 0 ? 8 : 4)];
}

typedef struct {
  char *block;
  size_t bytes;
} Slot;

/* The pages move, or those beyond the new end are discarded. The rest of the block keeps its contents. */
static void resize(Slot *slot) {
  char *before = slot->block;
  size_t old = slot->bytes, bytes = draw_bytes();
  uintptr_t from = (uintptr_t)before;
  slot->block = realloc(slot->block, bytes);
  CHECK(slot->block != NULL);
  slot->bytes = bytes = malloc_usable_size(slot->block);
  if ((uintptr_t)slot->block != from) {
    each_page((char *)from, old, look); /* NOLINT(performance-no-int-to-ptr): used only as a number */
  }
  write_all(slot->block, bytes);
}

static void step(Slot *slot, int i) {
  if (!slot->block) {
    slot->bytes = draw_bytes();
    CHECK((slot->block = malloc(slot->bytes)) != NULL);
    slot->bytes = malloc_usable_size(slot->block); /* so that a copy of it is never empty */
    write_all(slot->block, slot->bytes);
    return;
  }
  each_page(slot->block, slot->bytes, verify);
  if (i % 5 == 0) {
    resize(slot);
  } else {
    free(slot->block);
    if (i % 3 == 0) {
      each_page(slot->block, slot->bytes, look);
    }
    slot->block = NULL;
  }
}

static void use(void) {
  static Slot slots[SLOTS];
  for (int i = 0; i < STEPS; i++) {
    step(&slots[draw() % SLOTS], i);
    if (i % TRIM_EVERY == 0) {
      malloc_trim(0);
    }
    if (i % PAUSE_EVERY == 0) {
      nanosleep(&(struct timespec){0, 3000000}, NULL); /* so that idle memory decays */
    }
  }
  for (int i = 0; i < SLOTS; i++) {
    free(slots[i].block);
  }
  malloc_trim(0);
  for (int i = 0; i < SLOTS; i++) {
    if (slots[i].block) {
      each_page(slots[i].block, slots[i].bytes, look);
    }
  }
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  alarm(100);
  registered =
      mmap(NULL, ADDRESSES / PAGE / 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(registered != MAP_FAILED);
  CHECK((ucm_global_opts.mmap_hook_mode == UCM_MMAP_HOOK_RELOC) == (strcmp(arguments[1], "reloc") == 0));
  CHECK(ucm_set_event_handler(UCM_EVENT_VM_UNMAPPED, 0, on_event, NULL) == UCS_OK);
  use();
  printf("%lu events, %lu registered pages went\n", events, announced);
  CHECK(announced > 1000);
  return 0;
}
