/* Duty: compare and search texts. The loader looks up each function of libc that the library calls, at every start of a
 * program; these take the place of ten of them. No state. Layers below: base. */
#pragma once

#include "base/base.h"

bool hak_match_same(const char *a, const char *b);
bool hak_match_start(const char *text, const char *start);
/* Like the two above, without regard to the case of ASCII letters. */
bool hak_match_word(const char *a, const char *b);
bool hak_match_first_word(const char *text, const char *start);
/* The first or the last such character. NULL: there is none. */
const char *hak_match_first(const char *text, char character);
const char *hak_match_last(const char *text, char character);
/* The length of the text's start that consists of characters of the set, or of none of them. */
size_t hak_match_of(const char *text, const char *set);
size_t hak_match_until(const char *text, const char *set);
