/* hak_stats_openmetrics: a short buffer gets the beginning of the text. With an argument, the program prints the text
 * for a parser. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "names.h"

enum { TEXT_BYTES = 1 << 16, BLOCKS = 1000 };
static char text[TEXT_BYTES];
static void *blocks[BLOCKS];

static size_t value_of(const char *name) {
  char line[128];
  (void)snprintf(line, sizeof line, "\n%s ", name);
  const char *at = strstr(text, line);
  CHECK(at != NULL);
  return (size_t)strtoull(at + strlen(line), NULL, 10);
}

static size_t read_text(void) {
  size_t length = hak_stats_openmetrics(text, sizeof text);
  CHECK(length == strlen(text) && length < sizeof text);
  CHECK(strcmp(text + length - 6, "# EOF\n") == 0);
  return length;
}

static void numbers_follow_what_happens(void) {
  read_text();
  size_t before = value_of("hakmem_allocated_bytes");
  size_t live = value_of("hakmem_block_size_bytes_gcount{state=\"live\"}");
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(1000);
    CHECK(blocks[i] != NULL);
  }
  void *huge = hak_malloc((size_t)3 << 20);
  CHECK(huge != NULL);
  read_text();
  CHECK(value_of("hakmem_allocated_bytes") - before == BLOCKS * 1024 + ((size_t)3 << 20));
  CHECK(value_of("hakmem_block_size_bytes_gcount{state=\"live\"}") - live == BLOCKS + 1);
  CHECK(value_of("hakmem_active_bytes") >= value_of("hakmem_allocated_bytes"));
  CHECK(value_of("hakmem_mapped_bytes") ==
        value_of("hakmem_active_bytes") + value_of("hakmem_dirty_bytes") + value_of("hakmem_retained_bytes"));
  CHECK(value_of("hakmem_resident_bytes") ==
        value_of("hakmem_active_bytes") + value_of("hakmem_dirty_bytes") + value_of("hakmem_metadata_bytes"));
  for (size_t i = 0; i < BLOCKS; i++) {
    hak_free(blocks[i]);
  }
  hak_free(huge);
  read_text();
  CHECK(value_of("hakmem_allocated_bytes") == before);
}

static void short_buffers_are_respected(void) {
  size_t whole = hak_stats_openmetrics(NULL, 0);
  CHECK(whole > 0);
  for (size_t capacity = 1; capacity < 64; capacity++) {
    char small[65];
    memset(small, '#', sizeof small);
    CHECK(hak_stats_openmetrics(small, capacity) > capacity);
    CHECK(strlen(small) == capacity - 1 && small[capacity] == '#');
  }
}

int main(int count, char **words) {
  (void)words;
  numbers_follow_what_happens();
  short_buffers_are_respected();
  if (count > 1) {
    read_text();
    CHECK(fputs(text, stdout) >= 0);
  }
  return 0;
}
