/* Reads a shell's text word by word, and checks whether any command starts another one without LD_PRELOAD. */
#include "shell.h"
#include "starter.h"

#include <stdio.h>
#include <string.h>

enum { WORDS_MAX = 64, COMMAND_BYTES = 4096 };

#define BLANKS " \t"
#define WORD_ENDS " \t\n;&|()<>"
#define PRELOAD "LD_PRELOAD"

/* One simple command, without quotes. guarded: it runs only if another one succeeds, or within a compound command. */
typedef struct command {
  char *words[WORDS_MAX + 1];
  char text[COMMAND_BYTES];
  size_t used, count;
  int line;
  bool guarded, cut;
} command_t;

typedef struct reader {
  const char *at;
  int line;
  bool guarded, ended; /* guarded: the next command is; ended: the rest of the text is not understood */
} reader_t;

static bool is_one_of(const char *word, const char *const *list) {
  while (*list && strcmp(word, *list) != 0) {
    list++;
  }
  return *list != NULL;
}

bool shell_is(const char *path) {
  static const char *const shells[] = {"sh", "dash", "bash", "ash", "ksh", "mksh", "zsh", NULL};
  const char *slash = strrchr(path, '/');
  return is_one_of(slash ? slash + 1 : path, shells);
}

static char next(reader_t *reader) {
  reader->line += *reader->at == '\n';
  return *reader->at++;
}

static void add(command_t *command, char c) {
  if (command->used + 1 < sizeof command->text) {
    command->text[command->used++] = c;
  } else {
    command->cut = true;
  }
}

/* Copies up to a closing sign: a quote, or the parenthesis of $( ). */
static void copy_enclosed(reader_t *reader, command_t *command, char open, char close) {
  for (int depth = 1; *reader->at;) {
    char c = next(reader);
    if (c == '\\' && close != '\'' && *reader->at) {
      c = next(reader);
    } else if (c == close && --depth == 0) {
      return;
    } else if (c == open && open != close) {
      depth++;
    }
    add(command, c);
  }
}

static void copy_word(reader_t *reader, command_t *command) {
  if (command->count == WORDS_MAX) {
    command->cut = true;
    command->count--;
  }
  char *word = command->text + command->used;
  while (*reader->at && !strchr(WORD_ENDS, *reader->at)) {
    char c = next(reader);
    if (c == '\'' || c == '"' || c == '`') {
      copy_enclosed(reader, command, c, c);
    } else if (c == '$' && (*reader->at == '(' || *reader->at == '{')) {
      char open = next(reader);
      add(command, c);
      copy_enclosed(reader, command, open, open == '(' ? ')' : '}');
    } else if (c != '\\' || (*reader->at && (c = next(reader)) != '\n')) {
      add(command, c);
    }
  }
  add(command, '\0');
  command->words[command->count++] = word;
}

/* Skips a redirection and the word behind it. False: a here-document begins. */
static bool skip_redirection(reader_t *reader) {
  command_t target = {0};
  if (strncmp(reader->at, "<<", 2) == 0 && reader->at[2] != '<') {
    return false;
  }
  reader->at += strspn(reader->at, "<>&|");
  reader->at += strspn(reader->at, BLANKS);
  copy_word(reader, &target);
  return true;
}

/* The words up to the end of a command. Whether anything is left to read. */
static bool read_command(reader_t *reader, command_t *command) {
  *command = (command_t){.line = reader->line, .guarded = reader->guarded};
  reader->guarded = false;
  while (*reader->at && !reader->ended) {
    char c = *reader->at;
    if (strchr(BLANKS, c)) {
      next(reader);
    } else if (strncmp(reader->at, "\\\n", 2) == 0) { /* the command goes on in the next line */
      next(reader);
      next(reader);
    } else if (c == '#') {
      reader->at += strcspn(reader->at, "\n");
    } else if (c == '<' || c == '>' || (c == '&' && reader->at[1] == '>')) {
      reader->ended = !skip_redirection(reader);
    } else if (c == '(' || c == ')' || !strchr(WORD_ENDS, c)) {
      command->line = command->count ? command->line : reader->line;
      if (c == '(' || c == ')') {
        command->count = 0; /* a subshell begins or ends, or the words so far are a function's name or a case pattern */
        command->guarded = true;
        reader->at++;
      } else {
        copy_word(reader, command);
      }
    } else {
      bool either = (c == '&' || c == '|') && reader->at[1] == c, line_ends = c == '\n';
      reader->at += either ? 1 : 0;
      next(reader);
      reader->guarded = either || (line_ends && *reader->at && strchr(BLANKS, *reader->at)); /* it is indented */
      break;
    }
  }
  command->words[command->count] = NULL;
  return *reader->at && !reader->ended;
}

/* Whether the word is LD_PRELOAD=VALUE, where VALUE does not contain the present value. */
static bool replaces(const char *word) {
  return strncmp(word, PRELOAD "=", sizeof PRELOAD) == 0 && !strstr(word + sizeof PRELOAD, PRELOAD);
}

static bool is_variable(const char *word) {
  size_t name = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
  return name > 0 && word[name] == '=';
}

/* Skips the words before the command's name: reserved words, exec, assignments. replaced: LD_PRELOAD is assigned. */
static char **skip_front(command_t *command, bool *exec, bool *replaced) {
  static const char *const reserved[] = {"if",   "then", "else", "elif", "while", "until", "do",
                                         "case", "in",   "for",  "!",    "{",     "}",     NULL};
  static const char *const passing[] = {"exec", "command", "time", NULL};
  char **word = command->words;
  for (; *word; word++) {
    if (is_one_of(*word, reserved)) {
      command->guarded = true;
    } else if (is_one_of(*word, passing)) {
      *exec = *exec || strcmp(*word, "exec") == 0;
    } else if (is_variable(*word)) {
      *replaced = *replaced || replaces(*word);
    } else {
      break;
    }
  }
  return word;
}

/* Whether the word is a command of the shell itself, which starts no program. */
static bool is_built_in(const char *word) {
  static const char *const names[] = {
      "cd",    "set",    "exit",  "return", "echo",  "printf", ":",     "true",     "false",   "wait",     "trap",
      "shift", "test",   "[",     "[[",     "read",  "fi",     "done",  "esac",     "umask",   "ulimit",   "eval",
      ".",     "source", "local", "kill",   "break", "export", "unset", "continue", "declare", "readonly", NULL};
  return is_one_of(word, names);
}

/* Whether the shell's own LD_PRELOAD is gone after this command. */
static bool drops(char **words, bool replaced) {
  if (!*words) {
    return replaced;
  }
  bool unset = strcmp(*words, "unset") == 0, export = strcmp(*words, "export") == 0, taken = false;
  for (char **word = words + 1; (unset || export) && *word; word++) {
    taken = taken || (unset ? strcmp(*word, PRELOAD) == 0 : replaces(*word));
  }
  return taken;
}

static void note(shell_loss_t *loss, int line, const char *starter, const char *started, const char *lost) {
  *loss = (shell_loss_t){.line = line, .lost = lost};
  snprintf(loss->starter, sizeof loss->starter, "%s", starter);
  snprintf(loss->started, sizeof loss->started, "%s", started ? started : "");
}

/* Notes a command that starts another one without the library. Commands that act on other machines or as other users
 * count only if the shell is replaced by one (exec): otherwise they are seldom the main work. */
static void loses(char **words, bool exec, int line, shell_loss_t *loss) {
  for (started_t started; *words && ((started = starter_read(words)).words || started.lost); words = started.words) {
    const char *slash = strrchr(words[0], '/'), *name = slash ? slash + 1 : words[0];
    bool env = strcmp(name, "env") == 0;
    if (started.lost && (env ? started.words != NULL : exec)) {
      note(loss, line, name, started.words ? started.words[0] : NULL, started.lost);
      return;
    }
    if (!started.words) {
      return;
    }
  }
}

bool shell_loses(const char *text, shell_loss_t *loss) {
  reader_t reader = {.at = text, .line = 1};
  shell_loss_t dropped = {0}; /* final: surely */
  command_t command;
  *loss = (shell_loss_t){0};
  for (bool more = *text, exec = false; more && !(exec && !command.guarded);) { /* nothing runs after exec */
    bool replaced = false;
    more = read_command(&reader, &command);
    exec = false;
    char **words = skip_front(&command, &exec, &replaced);
    if (drops(words, replaced)) {
      note(&dropped, command.line, *words ? *words : "LD_PRELOAD=", NULL, "leaves what follows it without the library");
      dropped.final = !command.guarded;
    }
    if (command.cut || !*words || is_built_in(*words)) {
      continue;
    }
    shell_loss_t found = dropped;
    if (replaced) {
      note(&found, command.line, "LD_PRELOAD=", *words, "starts it without the library");
    } else if (!dropped.lost) {
      loses(words, exec, command.line, &found);
    }
    if (found.lost && (!loss->lost || !command.guarded)) {
      *loss = found;
    }
    loss->final = found.lost && !command.guarded && (!dropped.lost || dropped.final);
  }
  loss->final = loss->final && !reader.ended;
  return loss->lost != NULL;
}

const char *shell_text(char **words, bool *is_file) {
  bool text = false;
  for (words++; *words && (**words == '-' || **words == '+') && strcmp(*words, "--") != 0; words++) {
    text = text || ((*words)[1] != '-' && strchr(*words, 'c'));
    words += (*words)[1] != '\0' && strchr("oO", (*words)[1]) && words[1] ? 1 : 0;
  }
  words += *words && strcmp(*words, "--") == 0 ? 1 : 0;
  *is_file = !text;
  return *words;
}
