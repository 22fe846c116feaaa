/* The options of options.def, read once from the environment and used everywhere. */
#include "options.h"

#include "hakmem.h"
#include "match.h"
#include "os.h"
#include "text.h"

#include <errno.h>
#include <string.h>

typedef enum kind { FLAG, COUNT, BYTES, LIMIT, MS, TEXT, PROFILE, HUGE, UNWIND } kind_t;
typedef enum when { START, ANY } when_t;

typedef struct option {
  uint16_t name, help;            /* offsets in the texts: pointers would make the loader write to the table's page */
  int64_t defaults[3], low, high; /* defaults by profile */
  kind_t kind;
  when_t when;
} option_t;

typedef struct texts {
#define HAK_OPTION(id, name, kind, speed, balanced, lean, low, high, when, help) \
  char id##_name[sizeof(name)], id##_help[sizeof(help)];
#include "options.def"
#undef HAK_OPTION
} texts_t;

#define HAK_OPTION(id, name, kind, speed, balanced, lean, low, high, when, help) name, help,
static const texts_t texts = {
#include "options.def"
};
#undef HAK_OPTION

#define HAK_OPTION(id, name, kind, speed, balanced, lean, low, high, when, help) \
  {offsetof(texts_t, id##_name), offsetof(texts_t, id##_help), {speed, balanced, lean}, low, high, kind, when},
static const option_t options[HAK_OPTION_COUNT] = {
#include "options.def"
};
#undef HAK_OPTION

static const char *text_at(uint16_t offset) {
  return (const char *)&texts + offset;
}

/* The values of profile SPEED, so that allocation works before the environment is read. */
#define HAK_OPTION(id, name, kind, speed, balanced, lean, low, high, when, help) speed,
_Atomic int64_t hak_option_values[HAK_OPTION_COUNT] = {
#include "options.def"
};
#undef HAK_OPTION

static const char *const profile_names[] = {"speed", "balanced", "lean", "hardened", NULL};
static const char *const profile_aliases[] = {"MIXED_TINYV3_C7_SAFE", "MIXED_TINYV3_C7_BALANCED", NULL};
static const char *const huge_names[] = {"off", "dense", NULL};
static const char *const unwinder_names[] = {"frames", "libunwind", "libgcc", NULL};
static const char *const *const words_of[] = {
    [PROFILE] = profile_names, [HUGE] = huge_names, [UNWIND] = unwinder_names};
static char given_text[256] HAK_LARGE_DATA; /* the value of the only text option; its number is the length */
static const char prefix[] = "HAKMEM_";

hak_lock_t hak_options_lock = HAK_LOCK_INIT;
bool hak_option_given[HAK_OPTION_COUNT];

/* Options that are not set follow the profile. */
static void derive(void) {
  bool lean = hak_option_given[HAK_OPTION_MEM_LEAN] && hak_option(HAK_OPTION_MEM_LEAN);
  int64_t profile = hak_option_given[HAK_OPTION_PROFILE] ? hak_option(HAK_OPTION_PROFILE) : (int64_t)HAK_PROFILE_SPEED;
  profile = profile == HAK_PROFILE_HARDENED ? (int64_t)HAK_PROFILE_SPEED : profile;
  for (int id = 0; id < HAK_OPTION_COUNT; id++) {
    bool is_release_option = id >= HAK_OPTION_WARM_POOL && id <= HAK_OPTION_DECAY; /* these options are adjacent */
    int64_t value = options[id].defaults[lean && is_release_option ? HAK_PROFILE_LEAN : profile];
    if (!hak_option_given[id] &&
        value != hak_option_values[id]) { /* no page is written while all have their defaults */
      hak_option_values[id] = value;
    }
  }
}

static void give(int id, int64_t value) {
  hak_option_values[id] = value;
  hak_option_given[id] = true;
}

static bool parse_word(const char *text, const char *const *words, int64_t *value) {
  for (int64_t i = 0; words[i]; i++) {
    if (hak_match_word(text, words[i])) {
      *value = i;
      return true;
    }
  }
  return false;
}

const char *hak_option_text(hak_option_id_t id) {
  return hak_option(id) > 0 ? given_text : "";
}

static bool parse_number(const char *text, bool with_suffix, int64_t *value) {
  int64_t number = 0;
  bool digits = *text >= '0' && *text <= '9';
  for (; *text >= '0' && *text <= '9'; text++) {
    if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *text - '0', &number)) {
      return false;
    }
  }
  static const char suffixes[] = "KMG";
  const char *suffix = with_suffix && (*text & ~0x20) != 0 ? hak_match_first(suffixes, (char)(*text & ~0x20)) : NULL;
  if (suffix) {
    if (__builtin_mul_overflow(number, (int64_t)1024 << 10 * (suffix - suffixes), &number)) {
      return false;
    }
    text++;
  }
  *value = number;
  return digits && *text == '\0';
}

enum { AUTO_PERCENT = 90 };

/* "auto", "auto:80%" or "auto:80". */
static bool parse_share(const char *text, int64_t *value) {
  static const char start[] = "auto";
  if (!hak_match_first_word(text, start)) {
    return false;
  }
  text += sizeof start - 1;
  uint64_t percent = *text == ':' ? 0 : AUTO_PERCENT;
  if (percent == 0) {
    text++;
    percent = hak_text_number(&text, 10);
    text += *text == '%';
  }
  *value = percent <= 100 ? -(int64_t)percent : 0;
  return *text == '\0' && *value < 0;
}

static bool parse(const option_t *option, const char *text, int64_t *value) {
  if (option->defaults[HAK_PROFILE_SPEED] == HAK_OPTION_AUTO && hak_match_word(text, "auto")) {
    *value = HAK_OPTION_AUTO;
    return true;
  }
  bool ok;
  if (option->kind == TEXT) {
    *value = (int64_t)strlen(text);
    ok = *value < (int64_t)sizeof given_text;
  } else if (words_of[option->kind]) {
    ok = parse_word(text, words_of[option->kind], value) ||
         (option->kind == PROFILE && parse_word(text, profile_aliases, value));
  } else {
    ok = (option->kind == LIMIT && parse_share(text, value)) ||
         parse_number(text, option->kind == BYTES || option->kind == LIMIT, value);
  }
  return ok && *value >= option->low && *value <= option->high;
}

static void write_value(hak_text_t text, kind_t kind, int64_t value) {
  if (kind == LIMIT && value < 0) {
    hak_text_put(&text, "auto:%zu%s", (size_t)-value, "%");
  } else if (value == HAK_OPTION_AUTO) {
    hak_text_put(&text, "auto");
  } else if (kind == TEXT) {
    hak_text_put(&text, "%s", value > 0 ? given_text : "");
  } else if (words_of[kind]) {
    hak_text_put(&text, "%s", words_of[kind][value]);
  } else {
    hak_text_put(&text, "%zu", (size_t)value);
  }
}

#define RETAINS "HAKMEM_RETAIN and HAKMEM_RETAIN_MAX say how much free memory stays resident"
#define ALWAYS_ON "the hardened profile always does this"
/* Old names, and names of the documents that the project grew from. A name without a present one has no effect; the
 * warning tells why. Version 0.3 accepts none of them. */
static const struct {
  const char *old, *name, *why;
} aliases[] = {{"RETAIN_LEARNED", "RETAIN_MAX", NULL}, {"RETAIN_PERCENT", NULL, RETAINS},
               {"HARDENED_RANDOM", NULL, ALWAYS_ON},   {"HARDENED_NEIGHBOURS", NULL, ALWAYS_ON},
               {"HARDENED_SIZES", NULL, ALWAYS_ON},    {"HARDENED_EXIT", NULL, ALWAYS_ON},
               {"SS_MEM_LEAN", "MEM_LEAN", NULL},      {"SS_OS_STATS", "OS_STATS", NULL},
               {"TINY_UNIFIED_CACHE", "CACHE", NULL},  {"TINY_UNIFIED_C0", "CACHE_C0", NULL},
               {"TINY_UNIFIED_C1", "CACHE_C1", NULL},  {"TINY_UNIFIED_C2", "CACHE_C2", NULL},
               {"TINY_UNIFIED_C3", "CACHE_C3", NULL},  {"TINY_UNIFIED_C4", "CACHE_C4", NULL},
               {"TINY_UNIFIED_C5", "CACHE_C5", NULL},  {"TINY_UNIFIED_C6", "CACHE_C6", NULL},
               {"TINY_UNIFIED_C7", "CACHE_C7", NULL}};

enum { UNKNOWN = HAK_OPTION_COUNT, WITHOUT_EFFECT };

/* Find an option, with or without the prefix. Returns its number; UNKNOWN; or WITHOUT_EFFECT, and *why. */
static int find(const char *name, const char **why) {
  if (hak_match_first_word(name, prefix)) {
    name += sizeof prefix - 1;
  }
  for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
    if (hak_match_word(name, aliases[i].old)) {
      if (!aliases[i].name) {
        *why = aliases[i].why;
        return WITHOUT_EFFECT;
      }
      name = aliases[i].name;
    }
  }
  int id = 0;
  while (id < UNKNOWN && !hak_match_word(name, text_at(options[id].name))) {
    id++;
  }
  return id;
}

static void print_help(void) {
  hak_text_say("%-28s%-11s%-11s%-11s%-11swhat it does\n", "option", "value", profile_names[HAK_PROFILE_SPEED],
               profile_names[HAK_PROFILE_BALANCED], profile_names[HAK_PROFILE_LEAN]);
  for (int id = 0; id < HAK_OPTION_COUNT; id++) {
    char cells[4][32];
    for (int i = 0; i < 4; i++) {
      int64_t value = i > 0 ? options[id].defaults[i - 1] : hak_option((hak_option_id_t)id);
      hak_text_t cell = hak_text_on(cells[i], sizeof cells[i]);
      if (value == INT64_MAX) {
        hak_text_put(&cell, "unlimited"); /* the number would fill the next column, too */
      } else {
        write_value(cell, options[id].kind, value);
      }
    }
    hak_text_say("%s%-21s%-11s%-11s%-11s%-11s%s\n", prefix, text_at(options[id].name), cells[0], cells[1], cells[2],
                 cells[3], text_at(options[id].help));
  }
}

/* Describe the allowed values in the warning about a refused one. */
static void write_allowed(hak_text_t text, const option_t *option) {
  const char *const *words = words_of[option->kind];
  if (option->defaults[HAK_PROFILE_SPEED] == HAK_OPTION_AUTO) {
    hak_text_put(&text, words ? "auto, " : "auto or ");
  }
  int64_t least = option->kind == LIMIT ? 0 : option->low;
  if (option->kind == LIMIT) {
    hak_text_put(&text, "auto, auto:PERCENT, or ");
  }
  for (size_t i = 0; words && words[i]; i++) {
    hak_text_put(&text, i > 0 ? ", %s" : "%s", words[i]);
  }
  if (option->kind == TEXT) {
    hak_text_put(&text, "less than %zu characters", sizeof given_text);
  } else if (!words && option->high == INT64_MAX) {
    hak_text_put(&text, "%zu or more", (size_t)least);
  } else if (!words) {
    hak_text_put(&text, "%zu to %zu", (size_t)option->low, (size_t)option->high);
  }
  hak_text_put(&text, option->kind == BYTES || option->kind == LIMIT ? " bytes (suffix K, M, G)" : "");
}

static void load(const char *variable) {
  const char *equals = hak_match_first(variable, '=');
  char name[80], value[80], allowed[80]; /* longer than any valid text; the warning shows the start of longer ones */
  size_t length = equals ? (size_t)(equals - variable) : strlen(variable);
  length = length < sizeof name ? length : sizeof name - 1;
  memcpy(name, variable, length);
  name[length] = '\0';
  const char *why = "no such option; HAKMEM_HELP=1 lists the options";
  int id = equals ? find(name, &why) : UNKNOWN;
  if (id >= UNKNOWN) {
    hak_text_say("hakmem: warning: %s: %s%s\n", name, id == UNKNOWN ? "" : "has no effect; ", why);
    return;
  }
  if (equals[1] == '\0') { /* an empty value, as in many settings files, counts as not set */
    return;
  }
  int64_t parsed;
  if (parse(&options[id], equals + 1, &parsed)) {
    if (options[id].kind == TEXT) {
      memcpy(given_text, equals + 1, (size_t)parsed + 1);
    }
    give(id, parsed);
    return;
  }
  length = strlen(equals + 1);
  length = length < sizeof value ? length : sizeof value - 1;
  memcpy(value, equals + 1, length);
  value[length] = '\0';
  write_allowed(hak_text_on(allowed, sizeof allowed), &options[id]);
  hak_text_say("hakmem: warning: %s=%s: not understood or out of range, the default is used; allowed: %s\n", name,
               value, allowed);
}

static bool reports_at_exit(void) {
  bool profile = hak_option(HAK_OPTION_PROFILE_FILE) != 0 || hak_option(HAK_OPTION_PROFILE_EXIT) == 1;
  bool statistics = hak_option(HAK_OPTION_STATS) || hak_option(HAK_OPTION_OS_STATS);
  return statistics || profile || hak_option(HAK_OPTION_GUARD_RATE) != 0;
}

void hak_options_load(char **environment) {
  if (!environment || hak_os_secure_mode()) {
    return;
  }
  for (char **variable = environment; *variable; variable++) {
    if (hak_match_start(*variable, prefix)) {
      load(*variable);
    }
  }
  derive();
  hak_os_name_mappings(hak_option(HAK_OPTION_MAPPING_NAMES));
  if (reports_at_exit()) {
    hak_os_remember_stderr();
  }
  if (hak_option(HAK_OPTION_HELP)) {
    print_help();
  }
}

int hak_option_get(const char *name, char *value, size_t capacity) {
  const char *why;
  int id = find(name, &why);
  if (id >= UNKNOWN) {
    return ENOENT;
  }
  write_value(hak_text_on(value, capacity), options[id].kind, hak_option((hak_option_id_t)id));
  return 0;
}

void hak_option_put(hak_option_id_t id, int64_t value) {
  hak_lock(&hak_options_lock); /* no other lock is taken under it */
  give((int)id, value);
  derive();
  hak_unlock(&hak_options_lock);
}

int hak_option_set(const char *name, const char *value) {
  const char *why;
  int id = find(name, &why);
  int64_t parsed;
  if (id >= UNKNOWN) {
    return id == WITHOUT_EFFECT ? 0 : ENOENT;
  }
  bool ok = parse(&options[id], value, &parsed);
  if (!ok || options[id].when == START) {
    return ok ? EPERM : EINVAL;
  }
  hak_option_put((hak_option_id_t)id, parsed);
  return 0;
}
