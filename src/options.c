#include "options.h"

#include "lock.h"
#include "os.h"
#include "text.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

enum { HUGE_PAGES_FROM_BYTES = 128 << 20 }; /* below, the pages a huge page wastes cost more than its faults save */

typedef enum kind { FLAG, COUNT, BYTES, MS, PROFILE, HUGE } kind_t;
typedef enum when { START, ANY } when_t;

typedef struct option {
  const char *name, *help;
  int64_t defaults[3], low, high; /* defaults by profile */
  kind_t kind;
  when_t when;
} option_t;

#define HAK_OPTION(id, name, kind, speed, balanced, lean, low, high, when, help) OPTION_##id,
enum {
#include "options.def"
  OPTION_COUNT
};
#undef HAK_OPTION

#define HAK_OPTION(id, name, kind, speed, balanced, lean, low, high, when, help) \
  {name, help, {speed, balanced, lean}, low, high, kind, when},
static const option_t options[OPTION_COUNT] = {
#include "options.def"
};
#undef HAK_OPTION

static const char *const profile_names[] = {"speed", "balanced", "lean"};
static const struct {
  const char *name;
  hak_profile_t profile;
} profile_aliases[] = {{"MIXED_TINYV3_C7_SAFE", HAK_PROFILE_SPEED}, {"MIXED_TINYV3_C7_BALANCED", HAK_PROFILE_BALANCED}};
static const char *const huge_names[] = {"off", "dense"};
static const char auto_name[] = "auto";
static const char prefix[] = "HAKMEM_";

/* The values by profile SPEED, so that allocation works before the environment was read. */
#define MIB_SLICES(mib) ((size_t)(mib)*1024 * 1024 / HAK_SLICE_BYTES)
hak_options_t hak_options = {
    .unified_cache = true,
    .huge_pages = HAK_OPTION_AUTO,
    .band_blocks = {HAK_OPTION_AUTO, HAK_OPTION_AUTO, HAK_OPTION_AUTO, HAK_OPTION_AUTO, HAK_OPTION_AUTO,
                    HAK_OPTION_AUTO, HAK_OPTION_AUTO, HAK_OPTION_AUTO},
    .cache_class_bytes = 4 * 1024 * 1024,
    .warm_pool_slices = 16 * HAK_SLAB_SLICES,
    .retain_slices = MIB_SLICES(8),
    .retain_percent = 25,
    .retain_learned_slices = MIB_SLICES(128),
    .huge_pages_from_slices = HUGE_PAGES_FROM_BYTES / HAK_SLICE_BYTES,
    .decay_ms = 1000,
};

hak_lock_t hak_options_lock = HAK_LOCK_INIT;
static struct {
  _Atomic int64_t value;
  _Atomic bool given;
} settings[OPTION_COUNT];

static bool is_release_option(int id) {
  return id == OPTION_WARM_POOL || id == OPTION_RETAIN || id == OPTION_RETAIN_SHARE || id == OPTION_RETAIN_LEARNED ||
         id == OPTION_DECAY;
}

static int64_t value_of(int id) {
  if (settings[id].given) {
    return settings[id].value;
  }
  int64_t profile = settings[OPTION_PROFILE].given ? settings[OPTION_PROFILE].value : (int64_t)HAK_PROFILE_SPEED;
  if (is_release_option(id) && settings[OPTION_MEM_LEAN].given) {
    profile = settings[OPTION_MEM_LEAN].value ? (int64_t)HAK_PROFILE_LEAN : profile;
  }
  return options[id].defaults[profile];
}

static size_t slices_of(int id) {
  return (size_t)value_of(id) >> HAK_SLICE_SHIFT;
}

static void derive(void) {
  hak_options.unified_cache = value_of(OPTION_UNIFIED_CACHE) != 0;
  hak_options.huge_pages = (int)value_of(OPTION_HUGE_PAGES);
  hak_options.os_stats = value_of(OPTION_OS_STATS) != 0;
  hak_options.keep_deepbind = value_of(OPTION_KEEP_DEEPBIND) != 0;
  hak_options.stats = value_of(OPTION_STATS) != 0;
  for (int band = 0; band < HAK_BAND_COUNT; band++) {
    hak_options.band_blocks[band] = value_of(OPTION_CACHE_C0 + band);
  }
  hak_options.cache_class_bytes = (size_t)value_of(OPTION_CACHE_BYTES);
  hak_options.warm_pool_slices = (size_t)value_of(OPTION_WARM_POOL) * HAK_SLAB_SLICES;
  hak_options.retain_slices = slices_of(OPTION_RETAIN);
  hak_options.retain_percent = (size_t)value_of(OPTION_RETAIN_SHARE);
  hak_options.retain_learned_slices = slices_of(OPTION_RETAIN_LEARNED);
  int64_t limit = value_of(OPTION_MEMORY_LIMIT);
  hak_options.memory_limit_slices = limit == 0 ? 0 : limit < HAK_SLICE_BYTES ? 1 : slices_of(OPTION_MEMORY_LIMIT);
  hak_options.decay_ms = (uint64_t)value_of(OPTION_DECAY);
}

static bool parse_word(const char *text, const char *const *words, size_t count, int64_t *value) {
  for (size_t i = 0; i < count; i++) {
    if (strcasecmp(text, words[i]) == 0) {
      *value = (int64_t)i;
      return true;
    }
  }
  return false;
}

static bool parse_profile(const char *text, int64_t *value) {
  for (size_t i = 0; i < sizeof profile_aliases / sizeof *profile_aliases; i++) {
    if (strcasecmp(text, profile_aliases[i].name) == 0) {
      *value = profile_aliases[i].profile;
      return true;
    }
  }
  return parse_word(text, profile_names, sizeof profile_names / sizeof *profile_names, value);
}

static bool parse_number(const char *text, bool with_suffix, int64_t *value) {
  int64_t number = 0;
  if (*text < '0' || *text > '9') {
    return false;
  }
  for (; *text >= '0' && *text <= '9'; text++) {
    if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *text - '0', &number)) {
      return false;
    }
  }
  static const char suffixes[] = "KMG";
  const char *suffix = with_suffix && (*text & ~0x20) != 0 ? strchr(suffixes, *text & ~0x20) : NULL;
  if (suffix) {
    if (__builtin_mul_overflow(number, (int64_t)1024 << 10 * (suffix - suffixes), &number)) {
      return false;
    }
    text++;
  }
  *value = number;
  return *text == '\0';
}

static bool parse(const option_t *option, const char *text, int64_t *value) {
  bool ok = false;
  if (option->defaults[HAK_PROFILE_SPEED] == HAK_OPTION_AUTO && strcasecmp(text, auto_name) == 0) {
    *value = HAK_OPTION_AUTO;
    return true;
  }
  switch (option->kind) {
  case PROFILE:
    ok = parse_profile(text, value);
    break;
  case HUGE:
    ok = parse_word(text, huge_names, sizeof huge_names / sizeof *huge_names, value);
    break;
  case FLAG:
  case COUNT:
  case MS:
  case BYTES:
    ok = parse_number(text, option->kind == BYTES, value);
    break;
  }
  return ok && *value >= option->low && *value <= option->high;
}

static void put_value(hak_text_t *text, kind_t kind, int64_t value) {
  if (value == HAK_OPTION_AUTO) {
    hak_text_string(text, auto_name);
  } else if (kind == PROFILE) {
    hak_text_string(text, profile_names[value]);
  } else if (kind == HUGE) {
    hak_text_string(text, huge_names[value]);
  } else {
    hak_text_number(text, (uint64_t)value);
  }
}

static int find(const char *name) {
  if (strncasecmp(name, prefix, sizeof prefix - 1) == 0) {
    name += sizeof prefix - 1;
  }
  for (int id = 0; id < OPTION_COUNT; id++) {
    if (strcasecmp(name, options[id].name) == 0) {
      return id;
    }
  }
  return OPTION_COUNT;
}

static void warn(const char *name, size_t name_length, const char *problem) {
  char line[200], shown[80];
  hak_text_t text = hak_text_on(line, sizeof line);
  size_t n = name_length < sizeof shown - 1 ? name_length : sizeof shown - 1;
  memcpy(shown, name, n);
  shown[n] = '\0';
  hak_text_string(&text, "hakmem: warning: ");
  hak_text_string(&text, shown);
  hak_text_string(&text, problem);
  hak_text_string(&text, "; HAKMEM_HELP=1 lists the options\n");
  hak_text_to_stderr(&text);
}

static void print_help(void) {
  char line[256], value[32];
  for (int id = -1; id < OPTION_COUNT; id++) {
    hak_text_t text = hak_text_on(line, sizeof line);
    hak_text_string(&text, id < 0 ? "" : prefix);
    hak_text_padded(&text, id < 0 ? "option" : options[id].name, id < 0 ? 28 : 21);
    for (int profile = -1; profile < 3; profile++) {
      hak_text_t cell = hak_text_on(value, sizeof value);
      if (id < 0) {
        hak_text_string(&cell, profile < 0 ? "value" : profile_names[profile]);
      } else {
        put_value(&cell, options[id].kind, profile < 0 ? value_of(id) : options[id].defaults[profile]);
      }
      hak_text_padded(&text, value, 11);
    }
    hak_text_string(&text, id < 0 ? "what it does" : options[id].help);
    hak_text_string(&text, "\n");
    hak_text_to_stderr(&text);
  }
}

void hak_options_load(char **environment) {
  if (!environment || hak_os_secure_mode()) {
    return;
  }
  for (char **variable = environment; *variable; variable++) {
    if (strncmp(*variable, prefix, sizeof prefix - 1) != 0) {
      continue;
    }
    char name[64];
    const char *equals = strchr(*variable, '=');
    size_t length = equals ? (size_t)(equals - *variable) : strlen(*variable);
    int id = OPTION_COUNT;
    if (equals && length < sizeof name) {
      memcpy(name, *variable, length);
      name[length] = '\0';
      id = find(name);
    }
    int64_t value;
    if (id == OPTION_COUNT) {
      warn(*variable, length, ": no such option");
    } else if (!parse(&options[id], equals + 1, &value)) {
      warn(*variable, length, ": value not understood or out of range, the default is used");
    } else {
      settings[id].value = value;
      settings[id].given = true;
    }
  }
  derive();
  if (hak_options.stats || hak_options.os_stats) {
    hak_os_remember_stderr();
  }
  if (value_of(OPTION_HELP)) {
    print_help();
  }
}

int hak_options_get(const char *name, char *value, size_t capacity) {
  int id = find(name);
  if (id == OPTION_COUNT) {
    return ENOENT;
  }
  hak_text_t text = hak_text_on(value, capacity);
  put_value(&text, options[id].kind, value_of(id));
  return 0;
}

int hak_options_set(const char *name, const char *value) {
  int id = find(name);
  int64_t parsed;
  if (id == OPTION_COUNT) {
    return ENOENT;
  }
  if (!parse(&options[id], value, &parsed)) {
    return EINVAL;
  }
  if (options[id].when == START) {
    return EPERM;
  }
  hak_lock(&hak_options_lock); /* nothing below takes another one */
  settings[id].value = parsed;
  settings[id].given = true;
  derive();
  hak_unlock(&hak_options_lock);
  return 0;
}
