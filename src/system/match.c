/* Comparisons of texts. Everything that reads an option, a file of the system or a name stands above. */
#include "match.h"

static char lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The number of characters in which the texts agree. */
static size_t agreement(const char *a, const char *b, bool any_case) {
  size_t i = 0;
  while (a[i] != '\0' && (a[i] == b[i] || (any_case && lower(a[i]) == lower(b[i])))) {
    i++;
  }
  return i;
}

bool hak_match_same(const char *a, const char *b) {
  size_t i = agreement(a, b, false);
  return a[i] == b[i];
}

bool hak_match_start(const char *text, const char *start) {
  return start[agreement(start, text, false)] == '\0';
}

bool hak_match_word(const char *a, const char *b) {
  size_t i = agreement(a, b, true);
  return a[i] == b[i];
}

bool hak_match_first_word(const char *text, const char *start) {
  return start[agreement(start, text, true)] == '\0';
}

const char *hak_match_first(const char *text, char character) {
  while (*text != character && *text != '\0') {
    text++;
  }
  return *text == character ? text : NULL;
}

const char *hak_match_last(const char *text, char character) {
  const char *last = NULL;
  for (; *text != '\0'; text++) {
    last = *text == character ? text : last;
  }
  return last;
}

size_t hak_match_of(const char *text, const char *set) {
  size_t i = 0;
  while (text[i] != '\0' && hak_match_first(set, text[i])) {
    i++;
  }
  return i;
}

size_t hak_match_until(const char *text, const char *set) {
  size_t i = 0;
  while (text[i] != '\0' && !hak_match_first(set, text[i])) {
    i++;
  }
  return i;
}
