/* hak_stats_json, hak_stats_print, hak_trim, hak_thread_flush, hak_check on a heap with some history. */
#include <string.h>

#include "check.h"
#include "json.h"
#include "names.h"

enum { TEXT_BYTES = 1 << 20 };
static char text[TEXT_BYTES];

static void statistics_are_json(void) {
  CHECK(hak_stats_json(NULL, 0) > 2);
  size_t length = hak_stats_json(text, sizeof text);
  CHECK(length == strlen(text));
  JsonReport report = json_validate(text);
  CHECK(report.valid);
  CHECK(text[0] == '{');
  CHECK(report.numbers > 0);
  CHECK(report.negative_numbers == 0);
}

static void short_buffers_are_respected(void) {
  for (size_t capacity = 1; capacity < 64; capacity++) {
    char small[65];
    memset(small, '#', sizeof small);
    CHECK(hak_stats_json(small, capacity) > capacity);
    CHECK(strlen(small) == capacity - 1);
    CHECK(small[0] == '{' || capacity == 1);
    CHECK(small[capacity] == '#');
  }
}

static void text_is_printed(void) {
  FILE *file = tmpfile();
  CHECK(file != NULL);
  hak_stats_print(file);
  CHECK(ftell(file) > 0);
  CHECK(fclose(file) == 0);
}

static void history(bool leave_some) {
  enum { BLOCKS = 20000 };
  static void *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(i % 100 == 0 ? 50000 + i : i % 1500);
    CHECK(blocks[i] != NULL);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    if (!leave_some || i % 10 != 0) {
      hak_free(blocks[i]);
    }
  }
  if (!leave_some) {
    return;
  }
  statistics_are_json();
  hak_check();
  for (size_t i = 0; i < BLOCKS; i += 10) {
    hak_free(blocks[i]);
  }
}

static void free_pages_go_back(void) {
  enum { BLOCKS = 30000 };
  static unsigned char *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(1000);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, 1000);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    hak_free(blocks[i]);
  }
  hak_thread_flush();
  hak_check();
  (void)hak_trim(1 << 20);
  (void)hak_trim(0);
  CHECK(!hak_trim(0)); /* nothing is left to give back */
  hak_check();
  void *again = hak_calloc(1, 1000);
  CHECK(again != NULL);
  hak_free(again);
}

int main(void) {
  statistics_are_json();
  history(true);
  history(false);
  statistics_are_json();
  short_buffers_are_respected();
  text_is_printed();
  free_pages_go_back();
  statistics_are_json();
  hak_check();
  return 0;
}
