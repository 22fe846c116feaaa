#include "json.h"

#include <string.h>

#define JSON_DEPTH_MAX 64

typedef struct {
  const char *start;
  const char *at;
  JsonReport *report;
} Cursor;

static bool parse_value(Cursor *cursor, int depth);

static void skip_space(Cursor *cursor) {
  cursor->at += strspn(cursor->at, " \t\r\n");
}

static bool accept(Cursor *cursor, char expected) {
  skip_space(cursor);
  if (*cursor->at != expected) {
    return false;
  }
  cursor->at++;
  return true;
}

static bool parse_word(Cursor *cursor, const char *word) {
  size_t length = strlen(word);
  if (strncmp(cursor->at, word, length) != 0) {
    return false;
  }
  cursor->at += length;
  return true;
}

static bool parse_digits(Cursor *cursor) {
  size_t digits = strspn(cursor->at, "0123456789");
  cursor->at += digits;
  return digits > 0;
}

static bool parse_number(Cursor *cursor) {
  cursor->report->numbers++;
  if (*cursor->at == '-') {
    cursor->report->negative_numbers++;
    cursor->at++;
  }
  if (*cursor->at == '0' && strspn(cursor->at, "0123456789") > 1) {
    return false;
  }
  if (!parse_digits(cursor)) {
    return false;
  }
  if (*cursor->at == '.') {
    cursor->at++;
    if (!parse_digits(cursor)) {
      return false;
    }
  }
  if (*cursor->at == 'e' || *cursor->at == 'E') {
    cursor->at++;
    if (*cursor->at == '+' || *cursor->at == '-') {
      cursor->at++;
    }
    if (!parse_digits(cursor)) {
      return false;
    }
  }
  return true;
}

static bool parse_escape(Cursor *cursor) {
  char kind = *cursor->at;
  if (kind == 'u') {
    if (strspn(cursor->at + 1, "0123456789abcdefABCDEF") < 4) {
      return false;
    }
    cursor->at += 5;
    return true;
  }
  if (kind == '\0' || strchr("\"\\/bfnrt", kind) == NULL) {
    return false;
  }
  cursor->at++;
  return true;
}

static bool parse_string(Cursor *cursor) {
  if (!accept(cursor, '"')) {
    return false;
  }
  for (;;) {
    unsigned char c = (unsigned char)*cursor->at;
    if (c < 0x20) {
      return false;
    }
    cursor->at++;
    if (c == '"') {
      return true;
    }
    if (c == '\\' && !parse_escape(cursor)) {
      return false;
    }
  }
}

static bool parse_array(Cursor *cursor, int depth) {
  if (!accept(cursor, '[')) {
    return false;
  }
  if (accept(cursor, ']')) {
    return true;
  }
  do {
    if (!parse_value(cursor, depth)) {
      return false;
    }
  } while (accept(cursor, ','));
  return accept(cursor, ']');
}

static bool parse_object(Cursor *cursor, int depth) {
  if (!accept(cursor, '{')) {
    return false;
  }
  if (accept(cursor, '}')) {
    return true;
  }
  do {
    if (!parse_string(cursor) || !accept(cursor, ':') || !parse_value(cursor, depth)) {
      return false;
    }
  } while (accept(cursor, ','));
  return accept(cursor, '}');
}

static bool parse_value(Cursor *cursor, int depth) {
  if (depth == JSON_DEPTH_MAX) {
    return false;
  }
  skip_space(cursor);
  switch (*cursor->at) {
  case '{':
    return parse_object(cursor, depth + 1);
  case '[':
    return parse_array(cursor, depth + 1);
  case '"':
    return parse_string(cursor);
  case 't':
    return parse_word(cursor, "true");
  case 'f':
    return parse_word(cursor, "false");
  case 'n':
    return parse_word(cursor, "null");
  default:
    return parse_number(cursor);
  }
}

JsonReport json_validate(const char *text) {
  JsonReport report = {0};
  Cursor cursor = {.start = text, .at = text, .report = &report};
  report.valid = parse_value(&cursor, 0);
  skip_space(&cursor);
  report.valid = report.valid && *cursor.at == '\0';
  report.error_offset = (size_t)(cursor.at - cursor.start);
  return report;
}
