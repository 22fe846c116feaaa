/* The mechanisms of the hardened profile that a process was started with. hakmem.c stands above. */
#include "mechanisms.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *option, *words;
  bool off; /* unless an option switches it on */
} mechanisms[] = {
    {"ZERO", "zeroed and checked blocks", false},
    {"DELAY", "delayed reuse", false},
    {"RANDOM", "random choice of blocks", false},
    {"NEIGHBOURS", "check of the block before", false},
    {"SIZES", "exact sizes", false},
    {"LARGE", "guard pages of large blocks", false},
    {"GUARDS", "guard slabs", false},
    {"REGIONS", "a region for each class", true},
    {"EXIT", "check at exit", false},
};
enum { MECHANISMS = sizeof mechanisms / sizeof *mechanisms };

static void read_word(const char *word, bool *chosen, bool off[MECHANISMS]) {
  *chosen |= strcmp(word, "HAKMEM_PROFILE=hardened") == 0;
  for (size_t i = 0; i < MECHANISMS; i++) {
    char name[64];
    int length = snprintf(name, sizeof name, "HAKMEM_HARDENED_%s=", mechanisms[i].option);
    if (strncmp(word, name, (size_t)length) == 0) {
      off[i] = strtoull(word + length, NULL, 10) == 0;
    }
  }
}

void mechanisms_tell(const char *pid) {
  char path[64], *word = NULL;
  size_t size = 0;
  bool chosen = false, off[MECHANISMS];
  for (size_t i = 0; i < MECHANISMS; i++) {
    off[i] = mechanisms[i].off;
  }
  snprintf(path, sizeof path, "/proc/%s/environ", pid);
  FILE *file = fopen(path, "re");
  while (file && getdelim(&word, &size, '\0', file) > 0) {
    read_word(word, &chosen, off);
  }
  if (file) {
    fclose(file);
  }
  free(word);
  if (!chosen) {
    return;
  }
  printf("%s: hardened: seals", pid);
  for (size_t i = 0; i < MECHANISMS; i++) {
    printf(", %s%s", mechanisms[i].words, off[i] ? " (off)" : "");
  }
  putchar('\n');
}
