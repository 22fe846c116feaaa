/* Options in the environment: accepted spellings, and one warning for each that is not accepted. */
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>

#include "check.h"
#include "child.h"
#include "hakmem.h"
#include "system.h"
#include "system/options.h"

#define REFUSED NULL
#define LONG_NAME "HAKMEM_A_NAME_THAT_IS_LONGER_THAN_ANY_NAME_OF_AN_OPTION_COULD_EVER_BE"
#define LONG_NAME_SET "HAKMEM_ANOTHER_NAME_THAT_IS_LONGER_THAN_ANY_NAME_OF_AN_OPTION_COULD_BE=1"

typedef struct Row {
  const char *variable, *name, *value; /* `value`: the resulting value; REFUSED: a warning, and the default */
} Row;

static const Row rows[] = {
    {"HAKMEM_PROFILE=speed", "PROFILE", "speed"},
    {"HAKMEM_PROFILE=Balanced", "PROFILE", "balanced"},
    {"HAKMEM_PROFILE=LEAN", "PROFILE", "lean"},
    {"HAKMEM_PROFILE=MIXED_TINYV3_C7_SAFE", "PROFILE", "speed"},
    {"HAKMEM_PROFILE=MIXED_TINYV3_C7_BALANCED", "PROFILE", "balanced"},
    {"HAKMEM_PROFILE=mixed_tinyv3_c7_balanced", "PROFILE", "balanced"},
    {"HAKMEM_PROFILE=MIXED_TINYV3", "PROFILE", REFUSED},
    {"HAKMEM_PROFILE=1", "PROFILE", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=64 ", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_PROFILE=", "PROFILE", "speed"}, /* empty: as if it were not set */
    {"HAKMEM_profile=lean", "PROFILE", "lean"},
    {"HAKMEM_MEMORY_LIMIT=0", "MEMORY_LIMIT", "0"},
    {"HAKMEM_MEMORY_LIMIT=000123", "MEMORY_LIMIT", "123"},
    {"HAKMEM_MEMORY_LIMIT=3K", "MEMORY_LIMIT", "3072"},
    {"HAKMEM_MEMORY_LIMIT=3k", "MEMORY_LIMIT", "3072"},
    {"HAKMEM_MEMORY_LIMIT=5M", "MEMORY_LIMIT", "5242880"},
    {"HAKMEM_MEMORY_LIMIT=5m", "MEMORY_LIMIT", "5242880"},
    {"HAKMEM_MEMORY_LIMIT=2G", "MEMORY_LIMIT", "2147483648"},
    {"HAKMEM_MEMORY_LIMIT=2g", "MEMORY_LIMIT", "2147483648"},
    {"HAKMEM_MEMORY_LIMIT=9223372036854775807", "MEMORY_LIMIT", "9223372036854775807"},
    {"HAKMEM_MEMORY_LIMIT=9223372036854775808", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=92233720368547758070", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=18446744073709551616", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=8589934591G", "MEMORY_LIMIT", "9223372035781033984"},
    {"HAKMEM_MEMORY_LIMIT=8589934592G", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=1T", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=1KB", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=1KK", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=K", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=", "MEMORY_LIMIT", "0"},
    {"HAKMEM_MEMORY_LIMIT=-1", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=+1", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT= 1", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=1.5M", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=0x10", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=auto", "MEMORY_LIMIT", "auto:90%"},
    {"HAKMEM_MEMORY_LIMIT=AUTO:75%", "MEMORY_LIMIT", "auto:75%"},
    {"HAKMEM_MEMORY_LIMIT=auto:1", "MEMORY_LIMIT", "auto:1%"},
    {"HAKMEM_MEMORY_LIMIT=auto:100%", "MEMORY_LIMIT", "auto:100%"},
    {"HAKMEM_MEMORY_LIMIT=auto:101%", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=auto:0%", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=auto:18446744073709551615", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=auto:", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=auto:50%%", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_MEMORY_LIMIT=automatic", "MEMORY_LIMIT", REFUSED},
    {"HAKMEM_RETAIN_MAX=3M", "RETAIN_MAX", "3145728"},
    {"HAKMEM_RETAIN_LEARNED=3M", "RETAIN_MAX", "3145728"}, /* an old name */
    {"HAKMEM_RETAIN_LEARNED=all", "RETAIN_MAX", REFUSED},
    {"HAKMEM_SS_MEM_LEAN=1", "MEM_LEAN", "1"},
    {"HAKMEM_TINY_UNIFIED_CACHE=0", "CACHE", "0"},
    {"HAKMEM_TINY_UNIFIED_C0=7", "CACHE_C0", "7"},
    {"HAKMEM_TINY_UNIFIED_C7=AUTO", "CACHE_C7", "auto"},
    {"HAKMEM_DECAY_MS=50", "DECAY_MS", "50"},
    {"HAKMEM_DECAY_MS=1K", "DECAY_MS", REFUSED},
    {"HAKMEM_DECAY_MS=50 ", "DECAY_MS", REFUSED},
    {"HAKMEM_WARM_POOL_SIZE=1M", "WARM_POOL_SIZE", REFUSED},
    {"HAKMEM_STATS=yes", "STATS", REFUSED},
    {"HAKMEM_STATS=2", "STATS", REFUSED},
    {"HAKMEM_CACHE_C0=0", "CACHE_C0", "0"},
    {"HAKMEM_CACHE_C7=auto", "CACHE_C7", "auto"},
    {"HAKMEM_CACHE_C7=-1", "CACHE_C7", REFUSED},
    {"HAKMEM_PROFILE_RATE=1", "PROFILE_RATE", "1"},
    {"HAKMEM_PROFILE_RATE=1G", "PROFILE_RATE", "1073741824"},
    {"HAKMEM_PROFILE_RATE=2G", "PROFILE_RATE", REFUSED},
    {"HAKMEM_PROFILE_RATE=auto", "PROFILE_RATE", "auto"},
    {"HAKMEM_PROFILE_SIGNAL=64", "PROFILE_SIGNAL", "64"},
    {"HAKMEM_PROFILE_SIGNAL=", "PROFILE_SIGNAL", "0"},
    {"HAKMEM_PROFILE_SIGNAL=65", "PROFILE_SIGNAL", REFUSED},
    {"HAKMEM_PROFILE_UNWIND=LibUnwind", "PROFILE_UNWIND", "libunwind"},
    {"HAKMEM_PROFILE_UNWIND=gdb", "PROFILE_UNWIND", REFUSED},
    {"HAKMEM_PROFILE_FILE=a/b.txt", "PROFILE_FILE", "a/b.txt"},
    {"HAKMEM_HUGE_PAGES=OFF", "HUGE_PAGES", "off"},
    {"HAKMEM_HUGE_PAGES=dense", "HUGE_PAGES", "dense"},
    {"HAKMEM_HUGE_PAGES=Auto", "HUGE_PAGES", "auto"},
    {"HAKMEM_HUGE_PAGES=always", "HUGE_PAGES", REFUSED},
    {"HAKMEM_HUGE_PAGES=1", "HUGE_PAGES", REFUSED},
};

static const char *const unknown[] = {
    "HAKMEM_NO_SUCH_OPTION=1", "HAKMEM_=1", "HAKMEM_PROFILE", "HAKMEM_HAKMEM_PROFILE=lean", LONG_NAME_SET, LONG_NAME,
    "HAKMEM_CACHE_C8=1",
};

static const char *const of_others[] = {"HAKMEMX=1", "hakmem_PROFILE=lean", "PATH=HAKMEM_PROFILE=lean", "", "="};

static const Row *row;
static const char *variable;

static void load(const char *text) {
  char copy[200];
  char *environment[] = {copy, NULL};
  snprintf(copy, sizeof copy, "%s", text);
  hak_options_load(environment);
}

static void load_row(void) {
  char expected[64], text[64];
  CHECK(hak_option_get(row->name, expected, sizeof expected) == 0);
  load(row->variable);
  CHECK(hak_option_get(row->name, text, sizeof text) == 0);
  CHECK(strcmp(text, row->value == REFUSED ? expected : row->value) == 0);
}

static void load_variable(void) {
  load(variable);
}

static bool is_one_warning(const char *errors, const char *problem) {
  const char *end = strchr(errors, '\n');
  return strncmp(errors, "hakmem: warning: HAKMEM_", strlen("hakmem: warning: HAKMEM_")) == 0 &&
         strstr(errors, problem) != NULL && end != NULL && end[1] == '\0';
}

static void values_are_understood_or_refused(void) {
  ChildResult result;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    row = &rows[i];
    child_run(load_row, &result);
    bool warned = is_one_warning(result.errors, "not understood or out of range");
    bool as_expected = result.status == 0 && (row->value == REFUSED ? warned : result.errors[0] == '\0');
    if (!as_expected) {
      fprintf(stderr, "%s: %s\n", row->variable, result.errors);
    }
    CHECK(as_expected);
  }
}

static void unknown_names_are_warned_of(void) {
  ChildResult result;
  for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
    variable = unknown[i];
    child_run(load_variable, &result);
    CHECK(result.status == 0 && is_one_warning(result.errors, ": no such option"));
    CHECK(strstr(result.errors, "HAKMEM_HELP=1") != NULL);
  }
}

/* For a name without effect, one line says why, whatever the value and the case of the name. */
static void a_name_without_effect_is_warned_of(void) {
  static const struct {
    const char *variable, *why;
  } gone[] = {{"HAKMEM_RETAIN_PERCENT=25", ": has no effect; HAKMEM_RETAIN and HAKMEM_RETAIN_MAX"},
              {"HAKMEM_RETAIN_PERCENT=", ": has no effect; HAKMEM_RETAIN and HAKMEM_RETAIN_MAX"},
              {"HAKMEM_retain_percent=x", ": has no effect; HAKMEM_RETAIN and HAKMEM_RETAIN_MAX"},
              {"HAKMEM_HARDENED_RANDOM=0", ": has no effect; the hardened profile always does this\n"},
              {"HAKMEM_HARDENED_NEIGHBOURS=1", ": has no effect; the hardened profile always does this\n"},
              {"HAKMEM_HARDENED_SIZES=0", ": has no effect; the hardened profile always does this\n"},
              {"HAKMEM_HARDENED_EXIT=0", ": has no effect; the hardened profile always does this\n"}};
  ChildResult result;
  for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
    variable = gone[i].variable;
    child_run(load_variable, &result);
    CHECK(result.status == 0 && is_one_warning(result.errors, gone[i].why));
  }
}

static size_t name_length;

static void load_long_name(void) {
  static const char prefix[] = "HAKMEM_";
  static char text[5000];
  char *environment[] = {text, NULL};
  memset(text, 'X', name_length);
  for (size_t i = 0; prefix[i] != '\0'; i++) {
    text[i] = prefix[i];
  }
  snprintf(text + name_length, sizeof text - name_length, "=1");
  hak_options_load(environment);
}

/* The warning shows the first 79 characters of a name. */
static void long_names_are_cut(void) {
  static const size_t lengths[] = {62, 63, 64, 65, 78, 79, 80, 81, 200, 4000};
  ChildResult result;
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    name_length = lengths[i];
    child_run(load_long_name, &result);
    CHECK(result.status == 0 && is_one_warning(result.errors, ": no such option; HAKMEM_HELP=1 lists the options\n"));
    size_t shown = strspn(result.errors + strlen("hakmem: warning: HAKMEM_"), "X") + strlen("HAKMEM_");
    CHECK(shown == (name_length < 79 ? name_length : 79));
  }
}

static void other_variables_are_no_business_of_ours(void) {
  ChildResult result;
  for (size_t i = 0; i < sizeof of_others / sizeof of_others[0]; i++) {
    variable = of_others[i];
    child_run(load_variable, &result);
    CHECK(result.status == 0 && result.errors[0] == '\0');
  }
}

static void load_several(void) {
  char first[] = "HAKMEM_DECAY_MS=5", bad[] = "HAKMEM_WARM_POOL_SIZE=x", other[] = "TERM=dumb",
       last[] = "HAKMEM_STATS=1";
  char *environment[] = {first, bad, other, last, NULL};
  hak_options_load(environment);
  CHECK(hak_option(HAK_OPTION_DECAY) == 5 && hak_option(HAK_OPTION_STATS));
  hak_options_load(NULL);
  CHECK(hak_option(HAK_OPTION_DECAY) == 5 && hak_option(HAK_OPTION_STATS));
}

/* The environment must not control a program that runs with more rights than its caller. */
static void load_with_more_rights(void) {
  system_set_auxiliary(AT_SECURE, 1);
  load("HAKMEM_DECAY_MS=5");
  load("HAKMEM_HELP=1");
  CHECK(hak_option(HAK_OPTION_DECAY) != 5);
}

static void more_rights_make_silent(void) {
  ChildResult result;
  child_run(load_with_more_rights, &result);
  CHECK(result.status == 0 && result.errors[0] == '\0');
}

static void ask_for_help(void) {
  load("HAKMEM_HELP=1");
}

static void ask_for_help_by_an_old_name(void) {
  char old[] = "HAKMEM_RETAIN_LEARNED=123456", help[] = "HAKMEM_HELP=1";
  char *environment[] = {old, help, NULL};
  hak_options_load(environment);
}

/* The help shows an option only under its present name. */
static void help_knows_no_old_names(void) {
  ChildResult result;
  child_run(ask_for_help_by_an_old_name, &result);
  CHECK(result.status == 0 && strstr(result.errors, "LEARNED") == NULL && strstr(result.errors, "PERCENT") == NULL);
  const char *line = strstr(result.errors, "HAKMEM_RETAIN_MAX ");
  CHECK(line && strstr(line, "123456") && strstr(line, "123456") < strchr(line, '\n'));
}

static void help_lists_every_option(void) {
#define HAK_OPTION(id, name, kind, speed, balanced, lean, low, high, when, help) {"HAKMEM_" name " ", help "\n"},
  static const struct {
    const char *name, *help;
  } options[] = {
#include "system/options.def"
  };
#undef HAK_OPTION
  ChildResult result;
  child_run(ask_for_help, &result);
  CHECK(result.status == 0);
  size_t lines = 0;
  for (const char *at = result.errors; (at = strchr(at, '\n')) != NULL; at++) {
    lines++;
  }
  CHECK(lines == 1 + sizeof options / sizeof options[0]);
  for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
    CHECK(strstr(result.errors, options[i].name) != NULL && strstr(result.errors, options[i].help) != NULL);
  }
}

int main(void) {
  values_are_understood_or_refused();
  unknown_names_are_warned_of();
  a_name_without_effect_is_warned_of();
  long_names_are_cut();
  other_variables_are_no_business_of_ours();
  child_succeeds(load_several);
  more_rights_make_silent();
  help_lists_every_option();
  help_knows_no_old_names();
  return 0;
}
