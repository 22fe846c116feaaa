/* Commands in a shell's text that start another one without LD_PRELOAD. Nothing is run. */
#pragma once

#include <stdbool.h>

enum { SHELL_NAME_BYTES = 256 };

/* A place in a text where LD_PRELOAD is lost. line: counted from 1. starter: the command that takes LD_PRELOAD away.
 * started: the program that it starts; "": unknown. lost: the reason, as a clause with the starter as its subject.
 * final: no other command follows, so this one does the work. */
typedef struct shell_loss {
  int line;
  char starter[SHELL_NAME_BYTES], started[SHELL_NAME_BYTES];
  const char *lost;
  bool final;
} shell_loss_t;

/* The first loss, or a later one that is final. False: the text shows none. The text is read as sh reads it, up to the
 * first here-document. The contents of variables and functions are unknown. */
bool shell_loses(const char *text, shell_loss_t *loss);

/* The text in the words of a shell's command line; if is_file, the name of the file with the text. NULL: neither. */
const char *shell_text(char **words, bool *is_file);

/* Whether a program's file name is that of a shell whose language is that of sh. */
bool shell_is(const char *path);
