/* What a fresh block reads as tells nothing of the secrets by which free blocks are known: combined with the addresses
 * that its reader knows, no value that is not an address comes again and again. Blocks of all sizes, whose memory was
 * new, in lists, in slabs, passed between threads, and part of other blocks. */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "trap.h"

enum { VALUES_MAX = 1 << 22, TIMES_MAX = 3, BLOCKS = 2000 };

typedef struct {
  uint64_t value;
  const uint64_t *word; /* from which it came */
} Known;

static Known *values;
static size_t count;

/* Neither an address nor a small number. */
static void note_value(uint64_t value, const uint64_t *word) {
  if (value >> 48 != 0 && count < VALUES_MAX) {
    values[count++] = (Known){value, word};
  }
}

static void note_word(const uint64_t *word, uint64_t before, size_t bytes) {
  uint64_t value = *word, at = (uint64_t)word;
  const uint64_t known[] = {0, before, at, at - 8, at - 8 + bytes, at - 8 - bytes};
  for (size_t i = 0; value >> 48 != 0 && i < sizeof known / sizeof *known; i++) {
    note_value(value ^ known[i], word);
  }
}

static void note_block(const void *block, size_t bytes) {
  const uint64_t *words = hide_pointer(block);
  for (size_t i = 0; i < bytes / 8; i++) {
    note_word(&words[i], i > 0 ? words[i - 1] : 0, bytes);
  }
}

static bool comes_before(Known a, Known b) {
  return a.value < b.value || (a.value == b.value && a.word < b.word);
}

/* Not qsort, which lays what it sorts in a block, where it would be read again. */
static void sort_values(void) {
  for (size_t gap = count; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) {
    for (size_t i = gap; i < count; i++) {
      Known moving = values[i];
      size_t k = i;
      for (; k >= gap && comes_before(moving, values[k - gap]); k -= gap) {
        values[k] = values[k - gap];
      }
      values[k] = moving;
    }
  }
}

static void look(const char *what) {
  size_t times = 1;
  sort_values();
  for (size_t i = 1; i < count; i++) {
    times = values[i].value == values[i - 1].value ? times + (values[i].word != values[i - 1].word) : 1;
    if (times > TIMES_MAX) {
      fprintf(stderr, "%s: %zu times 0x%zx\n", what, times, (size_t)values[i].value);
      exit(1);
    }
  }
  count = 0;
}

static char *blocks[BLOCKS];

static size_t blocks_of(size_t bytes) {
  return bytes <= 1024 ? BLOCKS : bytes <= 40000 ? 200 : 8;
}

/* Noted as they come: nobody wrote there. */
static void take(size_t bytes) {
  for (size_t i = 0; i < blocks_of(bytes); i++) {
    blocks[i] = malloc(bytes);
    CHECK(blocks[i] != NULL);
    note_block(blocks[i], malloc_usable_size(blocks[i]));
  }
}

static void *give(void *bytes) {
  for (size_t i = 0; i < blocks_of((size_t)bytes); i++) {
    free(blocks[i]);
  }
  return NULL;
}

static void give_in_thread(size_t bytes) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, give, (void *)bytes) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

static void through_all_states(size_t bytes) {
  take(bytes);
  give((void *)bytes);
  take(bytes); /* from the thread's list */
  give((void *)bytes);
  HAK(hak_thread_flush)();
  take(bytes); /* from slabs */
  give_in_thread(bytes);
  take(bytes);
  give((void *)bytes);
  malloc_trim(64 << 20); /* resident memory stays */
}

int main(void) {
  trap_watchdog(60);
  values = mmap(NULL, VALUES_MAX * sizeof *values, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(values != MAP_FAILED);
  for (size_t bytes = 16; bytes < 6U << 20; bytes = bytes * 3 / 2 / 16 * 16 + 16) {
    through_all_states(bytes);
    look("blocks of one size");
  }
  /* Memory of small blocks becomes part of large ones, and the other way. */
  for (int round = 0; round < 2; round++) {
    for (size_t bytes = 16; bytes <= 1024; bytes *= 2) {
      through_all_states(bytes);
    }
    count = 0;
    for (size_t bytes = 32 << 10; bytes <= 4U << 20; bytes *= 2) {
      take(bytes);
      give((void *)bytes);
    }
    look("large blocks where small ones were");
  }
  return 0;
}
