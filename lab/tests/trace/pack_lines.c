// Packs recorded words from lines on standard input, and prints the resulting operations:
//   process PARENT FORK
//   words PROCESS THREAD WORD…   each WORD is FIELD:KIND (a kind of raw.h), FIELD:=SIZE, or +SECOND (a second word)
//   advance PROCESS CLOCK
//   end PROCESS
// Output: a line for each operation, PROCESS THREAD KIND SIZE SLOT OTHER TIME; then counts NAME=VALUE… per process.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pack/pack.h"

#define WORDS_MOST 200000

int trace_write_process_end(trace_writer_t *writer, uint32_t process) {
  (void)writer;
  (void)process;
  return 0;
}

int trace_write_operation(trace_writer_t *writer, uint32_t process, uint32_t thread, const trace_operation_t *each) {
  (void)writer;
  printf("%u %u %u %" PRIu64 " %u %u %" PRIu64 "\n", process, thread, each->kind, each->size, each->slot, each->other,
         each->time_ns);
  return 0;
}

static uint64_t word(const char *text) {
  char *rest;
  if (*text == '+') {
    return strtoull(text + 1, NULL, 0) + 1;
  }
  uint64_t field = strtoull(text, &rest, 0);
  if (*rest != ':') {
    return field; // as it is
  }
  return rest[1] == '=' ? raw_word(field, (uint32_t)strtoul(rest + 2, NULL, 0))
                        : raw_word(field, RAW_SIZE_LIMIT + (uint32_t)strtoul(rest + 1, NULL, 0));
}

static int words(pack_t *pack, uint32_t process, uint32_t thread, char *list) {
  static uint64_t found[WORDS_MOST];
  size_t count = 0;
  for (char *each = strtok(list, " \n"); each && count < WORDS_MOST; each = strtok(NULL, " \n")) {
    found[count++] = word(each);
  }
  return pack_words(pack, process, thread, found, count);
}

static int obey(pack_t *pack, char *line, long *processes) {
  long parent;
  uint32_t process, thread;
  uint64_t number;
  int length = 0;
  if (sscanf(line, "process %ld %" SCNu64, &parent, &number) == 2) {
    return pack_process(pack, parent, number) == (*processes)++ ? 0 : -1;
  }
  if (sscanf(line, "words %u %u%n", &process, &thread, &length) == 2 && length > 0) {
    return words(pack, process, thread, line + length);
  }
  if (sscanf(line, "advance %u %" SCNu64, &process, &number) == 2) {
    return pack_advance(pack, process, number);
  }
  return sscanf(line, "end %u", &process) == 1 ? pack_process_end(pack, process) : -1;
}

int main(void) {
  char *line = NULL;
  size_t room = 0;
  long processes = 0;
  pack_t *pack = pack_open(NULL, 20);
  while (getline(&line, &room, stdin) > 0) {
    if (obey(pack, line, &processes) != 0) {
      perror("pack_lines");
      return 1;
    }
  }
  for (uint32_t i = 0; i < (uint32_t)processes; i++) {
    pack_counts_t counts;
    pack_counts(pack, i, &counts);
    printf("counts operations=%" PRIu64 " handed_over=%" PRIu64 " unknown=%" PRIu64 " lost=%" PRIu64 " damaged=%" PRIu64
           " live_bytes=%" PRIu64 " live_blocks=%" PRIu64 "\n",
           counts.operations, counts.handed_over, counts.unknown_frees, counts.lost_frees, counts.damaged,
           counts.live_bytes, counts.live_blocks);
  }
  pack_close(pack);
  free(line);
  return 0;
}
