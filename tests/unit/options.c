/* The options in a running process: defaults by profile, hak_option_get, hak_option_set, and their effects. */
#include "system/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "child.h"
#include "hakmem.h"

typedef enum Kind { FLAG, COUNT, BYTES, LIMIT, MS, TEXT, PROFILE, HUGE, UNWIND } Kind;
typedef enum When { START, ANY } When;

typedef struct Row {
  const char *name, *help;
  int64_t defaults[3], low, high;
  Kind kind;
  When when;
} Row;

#define HAK_OPTION(id, name, kind, speed, balanced, lean, low, high, when, help) \
  {name, help, {speed, balanced, lean}, low, high, kind, when},
static const Row rows[] = {
#include "system/options.def"
};
#undef HAK_OPTION

enum { ROWS = sizeof rows / sizeof rows[0], VALUE_BYTES = 64 };
static const char *const profiles[] = {"speed", "balanced", "lean", "hardened"};
static const char *const huge_pages[] = {"off", "dense"};
static const char *const unwinders[] = {"frames", "libunwind", "libgcc"};
static size_t profile;

static void load(const char *variable) {
  char copy[128];
  char *environment[] = {copy, NULL};
  snprintf(copy, sizeof copy, "%s", variable);
  hak_options_load(environment);
}

static void load_number(const char *name, int64_t number) {
  char variable[128];
  snprintf(variable, sizeof variable, "HAKMEM_%s=%" PRId64, name, number);
  load(variable);
}

static void value_as_text(const Row *row, int64_t value, char text[VALUE_BYTES]) {
  if (value == HAK_OPTION_AUTO) {
    snprintf(text, VALUE_BYTES, "auto");
  } else if (row->kind == PROFILE) {
    CHECK(value >= 0 && value < 4);
    snprintf(text, VALUE_BYTES, "%s", profiles[value]);
  } else if (row->kind == HUGE) {
    CHECK(value == 0 || value == 1);
    snprintf(text, VALUE_BYTES, "%s", huge_pages[value]);
  } else if (row->kind == UNWIND) {
    CHECK(value >= 0 && value < 4);
    snprintf(text, VALUE_BYTES, "%s", unwinders[value]);
  } else if (row->kind == TEXT) {
    text[0] = '\0';
  } else {
    snprintf(text, VALUE_BYTES, "%" PRId64, value);
  }
}

static void has_value(const Row *row, int64_t value) {
  char expected[VALUE_BYTES], text[VALUE_BYTES];
  value_as_text(row, value, expected);
  CHECK(hak_option_get(row->name, text, sizeof text) == 0);
  CHECK(strcmp(text, expected) == 0);
}

static void profile_has_its_defaults(void) {
  char variable[128];
  snprintf(variable, sizeof variable, "HAKMEM_PROFILE=%s", profiles[profile]);
  load(variable);
  size_t column = profile == HAK_PROFILE_HARDENED ? (size_t)HAK_PROFILE_SPEED : profile;
  for (size_t i = 0; i < ROWS; i++) {
    has_value(&rows[i], rows[i].kind == PROFILE ? (int64_t)profile : rows[i].defaults[column]);
  }
}

/* Allocation may begin before the environment is read, with the same values. */
static void built_in_values_are_those_of_speed(void) {
  char *environment[] = {NULL};
  for (size_t i = 0; i < ROWS; i++) {
    has_value(&rows[i], rows[i].defaults[HAK_PROFILE_SPEED]);
  }
  hak_options_load(environment);
  for (size_t i = 0; i < ROWS; i++) {
    has_value(&rows[i], rows[i].defaults[HAK_PROFILE_SPEED]);
  }
}

/* A value out of range leaves the old value unchanged. */
static void ranges_are_kept(void) {
  for (size_t i = 0; i < ROWS; i++) {
    const Row *row = &rows[i];
    if (row->kind >= TEXT || row->kind == LIMIT) {
      continue;
    }
    load_number(row->name, row->low);
    has_value(row, row->low);
    load_number(row->name, row->low - 1);
    has_value(row, row->low);
    load_number(row->name, row->high);
    has_value(row, row->high);
    if (row->high < INT64_MAX) {
      load_number(row->name, row->high + 1);
      has_value(row, row->high);
    }
  }
}

static void mem_lean_changes_the_release_options_only(void) {
  load("HAKMEM_MEM_LEAN=1");
  for (size_t i = 0; i < ROWS; i++) {
    const Row *row = &rows[i];
    bool is_release =
        strstr(row->name, "RETAIN") || strcmp(row->name, "DECAY_MS") == 0 || strcmp(row->name, "WARM_POOL_SIZE") == 0;
    has_value(row, strcmp(row->name, "MEM_LEAN") == 0 ? 1 : row->defaults[is_release ? HAK_PROFILE_LEAN : 0]);
  }
  load("HAKMEM_MEM_LEAN=0");
  for (size_t i = 0; i < ROWS; i++) {
    has_value(&rows[i], rows[i].defaults[HAK_PROFILE_SPEED]);
  }
}

static void a_given_value_wins_over_the_profile(void) {
  load("HAKMEM_DECAY_MS=123");
  load("HAKMEM_PROFILE=lean");
  load("HAKMEM_MEM_LEAN=1");
  CHECK(hak_option(HAK_OPTION_DECAY) == 123);
}

static void values_are_in_force(void) {
  load("HAKMEM_MEMORY_LIMIT=0");
  CHECK(hak_option(HAK_OPTION_MEMORY_LIMIT) == 0);
  load("HAKMEM_MEMORY_LIMIT=64M");
  CHECK(hak_option_slices(HAK_OPTION_MEMORY_LIMIT) == (size_t)64 << 20 >> HAK_SLICE_SHIFT);
  load("HAKMEM_WARM_POOL_SIZE=3");
  CHECK(hak_option(HAK_OPTION_WARM_POOL) == 3);
  load("HAKMEM_CACHE_C3=7");
  CHECK(hak_option(HAK_OPTION_CACHE_C0 + 3) == 7);
  load("HAKMEM_CACHE_C3=AUTO");
  CHECK(hak_option(HAK_OPTION_CACHE_C0 + 3) == HAK_OPTION_AUTO);
  load("HAKMEM_HUGE_PAGES=dense");
  CHECK(hak_option(HAK_OPTION_HUGE_PAGES) == 1);
}

static void a_text_is_kept_as_it_was_given(void) {
  char variable[64 + 256], file[256], value[256];
  CHECK(hak_option_text(HAK_OPTION_PROFILE_FILE)[0] == '\0');
  load("HAKMEM_PROFILE_FILE=/tmp/%p with a blank.txt");
  CHECK(strcmp(hak_option_text(HAK_OPTION_PROFILE_FILE), "/tmp/%p with a blank.txt") == 0);
  CHECK(hak_option_set("PROFILE_FILE", "other.txt") == EPERM);
  CHECK(strcmp(hak_option_text(HAK_OPTION_PROFILE_FILE), "/tmp/%p with a blank.txt") == 0);
  memset(file, 'x', sizeof file - 1);
  file[sizeof file - 1] = '\0'; /* the longest text that fits */
  snprintf(variable, sizeof variable, "HAKMEM_PROFILE_FILE=%s", file);
  char *environment[] = {variable, NULL};
  hak_options_load(environment);
  CHECK(hak_option_get("PROFILE_FILE", value, sizeof value) == 0 && strcmp(value, file) == 0);
}

static void what_may_change_can_be_set(void) {
  for (size_t i = 0; i < ROWS; i++) {
    const Row *row = &rows[i];
    char text[VALUE_BYTES];
    value_as_text(row, row->high < INT64_MAX ? row->high : 12345, text);
    CHECK(hak_option_set(row->name, text) == (row->when == ANY ? 0 : EPERM));
    has_value(row, row->when == START ? row->defaults[0] : row->high < INT64_MAX ? row->high : 12345);
    CHECK(hak_option_set(row->name, "neither word nor number") == (row->kind == TEXT ? EPERM : EINVAL));
  }
  CHECK(hak_option_set("hakmem_decay_ms", "77") == 0);
  CHECK(hak_option(HAK_OPTION_DECAY) == 77);
  CHECK(hak_option_set("NO_SUCH_OPTION", "1") == ENOENT);
  CHECK(hak_option_set("HAKMEM_", "1") == ENOENT);
}

/* An old name works like the name that replaced it. */
static void an_old_name_is_an_alias(void) {
  char text[VALUE_BYTES];
  CHECK(hak_option_set("RETAIN_LEARNED", "5M") == 0 && hak_option(HAK_OPTION_RETAIN_MAX) == 5 << 20);
  CHECK(hak_option_get("hakmem_retain_learned", text, sizeof text) == 0 && strcmp(text, "5242880") == 0);
  CHECK(hak_option_get("HAKMEM_SS_OS_STATS", text, sizeof text) == 0 && hak_option_set("SS_OS_STATS", "1") == EPERM);
  CHECK(hak_option_set("RETAIN_LEARNED", "much") == EINVAL && hak_option(HAK_OPTION_RETAIN_MAX) == 5 << 20);
}

/* A name that has no effect any more is accepted with any value, and changes nothing. */
static void a_name_without_effect_is_accepted(void) {
  char text[] = "####";
  CHECK(hak_option_set("RETAIN_PERCENT", "25") == 0 && hak_option_set("HAKMEM_RETAIN_PERCENT", "x") == 0);
  CHECK(hak_option_get("RETAIN_PERCENT", text, sizeof text) == ENOENT && strcmp(text, "####") == 0);
  for (size_t i = 0; i < ROWS; i++) {
    has_value(&rows[i], rows[i].defaults[HAK_PROFILE_SPEED]);
  }
}

static void a_short_buffer_is_respected(void) {
  char text[] = "########";
  CHECK(hak_option_get("PROFILE", text, 3) == 0);
  CHECK(strcmp(text, "sp") == 0 && text[3] == '#');
  CHECK(hak_option_get("PROFILE", NULL, 0) == 0);
  CHECK(hak_option_get("", text, sizeof text) == ENOENT);
}

int main(void) {
  for (profile = 0; profile < sizeof profiles / sizeof profiles[0]; profile++) {
    child_succeeds(profile_has_its_defaults);
  }
  child_succeeds(built_in_values_are_those_of_speed);
  child_succeeds(ranges_are_kept);
  child_succeeds(mem_lean_changes_the_release_options_only);
  child_succeeds(a_given_value_wins_over_the_profile);
  child_succeeds(values_are_in_force);
  child_succeeds(a_text_is_kept_as_it_was_given);
  child_succeeds(what_may_change_can_be_set);
  child_succeeds(an_old_name_is_an_alias);
  child_succeeds(a_name_without_effect_is_accepted);
  child_succeeds(a_short_buffer_is_respected);
  return 0;
}
