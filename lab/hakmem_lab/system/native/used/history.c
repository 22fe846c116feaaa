// Preloaded after an allocator, this library gives the heap a history before `main`. It allocates and frees blocks of
// changing sizes at random. A quarter of the last blocks stays allocated, scattered over all memory that was in use.
// Every run makes the same requests in the same order, on every allocator. If HAK_HISTORY names a recorded history, the
// library replays that instead, and the blocks that it never frees stay.
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "past.h"

enum { TOUCHED_WHOLE = 128 << 10 }; // bytes; the trace has no touched bytes of smaller blocks
enum { SLOTS = 1 << 15, ROUNDS = 3, REQUESTS = 40000, STAYS_ONE_IN = 4 };

static void *slots[SLOTS];
static uint32_t state = 2463534242u;

static uint32_t drawn(uint32_t below) {
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state % below;
}

// Sizes are 16 B to 256 B in the first round, and up to 4 KiB in the last, so that a round does not fill the holes of
// the one before.
static size_t drawn_size(int round) {
  size_t low = (size_t)16 << (2 * round) << drawn(4);
  return low + drawn((uint32_t)low);
}

static void write_to(void *block, uint64_t bytes) {
  size_t room = block ? malloc_usable_size(block) : 0;
  if (room != 0) {
    memset(block, 1, bytes < room ? bytes : room);
  }
}

static void do_step(void **slot, const past_step_t *step) {
  void *block = NULL;
  switch (step->kind) {
  case PAST_ALLOCATE:
    if (step->alignment_log >= 4) {
      block = posix_memalign(&block, (size_t)1 << step->alignment_log, step->size) == 0 ? block : NULL;
    } else {
      block = step->zeroed ? calloc(1, step->size) : malloc(step->size);
    }
    break;
  case PAST_RESIZE:
    block = realloc(*slot, step->size ? step->size : 1);
    block = block ? block : *slot;
    break;
  case PAST_FREE:
    free(*slot);
    break;
  default:
    write_to(block = *slot, step->size);
  }
  *slot = block;
  if (step->kind <= PAST_RESIZE && step->size < TOUCHED_WHOLE) {
    write_to(block, step->size); // larger blocks have steps of their own for touched bytes
  }
}

// Replays a recorded history. False: there is none.
static bool give_recorded(const char *path) {
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  struct stat about;
  if (file < 0 || fstat(file, &about) != 0 || (size_t)about.st_size < sizeof(past_head_t)) {
    return false;
  }
  size_t bytes = (size_t)about.st_size;
  const past_head_t *head = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (head == MAP_FAILED || head->magic != PAST_MAGIC || head->slots > UINT32_MAX) {
    return false;
  }
  size_t table = (head->slots + 1) * sizeof(void *);
  void **blocks = mmap(NULL, table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const past_step_t *steps = (const past_step_t *)(head + 1);
  for (size_t i = 0; blocks != MAP_FAILED && i < (bytes - sizeof *head) / sizeof *steps; i++) {
    do_step(&blocks[steps[i].slot < head->slots ? steps[i].slot : head->slots], &steps[i]);
  }
  munmap((void *)head, bytes);
  if (blocks != MAP_FAILED) {
    munmap(blocks, table);
  }
  return true;
}

__attribute__((constructor)) static void give_past(void) {
  int kept = errno;
  if (give_recorded(getenv("HAK_HISTORY"))) {
    errno = kept;
    return;
  }
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < REQUESTS; i++) {
      void **slot = &slots[drawn(SLOTS)];
      size_t bytes = drawn_size(round);
      free(*slot);
      *slot = malloc(bytes);
      if (*slot != NULL) {
        memset(*slot, 1, bytes);
      }
    }
  }
  for (int i = 0; i < SLOTS; i++) {
    if (drawn(STAYS_ONE_IN) != 0) {
      free(slots[i]);
      slots[i] = NULL;
    }
  }
  errno = kept;
}
