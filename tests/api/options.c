/* hak_option_get, hak_option_set, hak_version. Errors come first: before any block is allocated. */
#include <errno.h>
#include <string.h>

#include "check.h"
#include "names.h"

static const char *const names[] = {
    "PROFILE",  "CACHE",    "CACHE_C0",   "CACHE_C1",     "CACHE_C2",       "CACHE_C3",
    "CACHE_C4", "CACHE_C5", "CACHE_C6",   "CACHE_C7",     "WARM_POOL_SIZE", "MEM_LEAN",
    "OS_STATS", "DECAY_MS", "HUGE_PAGES", "MEMORY_LIMIT", "STATS",
};

enum { VALUE_BYTES = 256 };

static void every_option_has_a_value(void) {
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char value[VALUE_BYTES];
    CHECK(hak_option_get(names[i], value, sizeof value) == 0);
    CHECK(strlen(value) > 0 && strlen(value) < sizeof value);
  }
}

static void names_are_found_in_any_form(void) {
  char plain[VALUE_BYTES], prefixed[VALUE_BYTES], lower[VALUE_BYTES], mixed[VALUE_BYTES];
  CHECK(hak_option_get("DECAY_MS", plain, sizeof plain) == 0);
  CHECK(hak_option_get("HAKMEM_DECAY_MS", prefixed, sizeof prefixed) == 0);
  CHECK(hak_option_get("decay_ms", lower, sizeof lower) == 0);
  CHECK(hak_option_get("hakmem_Decay_ms", mixed, sizeof mixed) == 0);
  CHECK(strcmp(plain, prefixed) == 0 && strcmp(plain, lower) == 0 && strcmp(plain, mixed) == 0);
}

static void unknown_names_are_refused(void) {
  static const char *const unknown[] = {"",        "HAKMEM_",   "NO_SUCH_OPTION",
                                        "DECAY_M", "DECAY_MSX", "HAKMEM_HAKMEM_DECAY_MS"};
  for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
    char value[VALUE_BYTES];
    CHECK(hak_option_get(unknown[i], value, sizeof value) == ENOENT);
    CHECK(hak_option_set(unknown[i], "1") == ENOENT);
  }
}

static void malformed_values_are_refused(void) {
  static const char *const pairs[][2] = {
      {"DECAY_MS", ""},
      {"DECAY_MS", "abc"},
      {"DECAY_MS", "12x"},
      {"DECAY_MS", " 12 x"},
      {"DECAY_MS", "99999999999999999999999999"},
      {"MEMORY_LIMIT", "1Q"},
      {"MEMORY_LIMIT", "-1"},
      {"MEMORY_LIMIT", "99999999999999999999G"},
      {"PROFILE", "speedy"},
      {"PROFILE", ""},
      {"HUGE_PAGES", "always"},
      {"OS_STATS", "2"},
      {"STATS", "yes!"},
      {"WARM_POOL_SIZE", "-5"},
      {"CACHE_C0", "many"},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    char before[VALUE_BYTES], after[VALUE_BYTES];
    CHECK(hak_option_get(pairs[i][0], before, sizeof before) == 0);
    CHECK(hak_option_set(pairs[i][0], pairs[i][1]) == EINVAL);
    CHECK(hak_option_get(pairs[i][0], after, sizeof after) == 0);
    CHECK(strcmp(before, after) == 0);
  }
}

static void a_short_buffer_is_respected(void) {
  char value[8];
  memset(value, '#', sizeof value);
  CHECK(hak_option_get("PROFILE", value, 3) == 0);
  CHECK(memchr(value, '\0', 3) != NULL);
  CHECK(value[3] == '#');
}

/* hak_option_set accepts an option that may change at any time, and refuses one that is fixed at start-up. No option is
 * ever half set. */
static void valid_values_are_taken(void) {
  static const struct {
    const char *name, *value;
    int error;
  } rows[] = {{"DECAY_MS", "123", 0},   {"DECAY_MS", "77", 0},     {"WARM_POOL_SIZE", "9", 0},
              {"HUGE_PAGES", "off", 0}, {"HUGE_PAGES", "auto", 0}, {"PROFILE", "lean", EPERM},
              {"STATS", "1", EPERM}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char before[VALUE_BYTES], after[VALUE_BYTES];
    CHECK(hak_option_get(rows[i].name, before, sizeof before) == 0);
    CHECK(hak_option_set(rows[i].name, rows[i].value) == rows[i].error);
    CHECK(hak_option_get(rows[i].name, after, sizeof after) == 0);
    CHECK(strcmp(after, rows[i].error == 0 ? rows[i].value : before) == 0);
  }
}

static void a_value_read_can_be_written(void) {
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char before[VALUE_BYTES], after[VALUE_BYTES];
    CHECK(hak_option_get(names[i], before, sizeof before) == 0);
    int error = hak_option_set(names[i], before);
    CHECK(error == 0 || error == EPERM);
    CHECK(hak_option_get(names[i], after, sizeof after) == 0);
    CHECK(strcmp(before, after) == 0);
  }
}

int main(void) {
  CHECK(hak_version() == HAKMEM_VERSION);
  CHECK(HAKMEM_VERSION == 10000 * HAKMEM_VERSION_MAJOR + 100 * HAKMEM_VERSION_MINOR + HAKMEM_VERSION_PATCH);
  every_option_has_a_value();
  names_are_found_in_any_form();
  unknown_names_are_refused();
  malformed_values_are_refused();
  a_short_buffer_is_respected();
  void *block = hak_malloc(100);
  CHECK(block != NULL);
  valid_values_are_taken();
  a_value_read_can_be_written();
  hak_free(block);
  return 0;
}
