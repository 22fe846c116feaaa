/* hakmem COMMAND: runs a command on this allocator, or explains why it cannot. */
#include "hakmem.h"
#include "binary.h"
#include "library.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Exit codes, as for env and nice: wrong usage or a failure of this command; a program that cannot be run; a program
 * that does not exist. */
enum { EXIT_USAGE = 125, EXIT_REFUSED = 126, EXIT_NOT_FOUND = 127 };

#define SEPARATORS ": \t\n" /* between the names in LD_PRELOAD, which cannot be quoted */
#define LINK "link libhakmem.a into it instead: cc ... $(pkg-config --libs --static hakmem)"

_Noreturn __attribute__((format(printf, 2, 3))) static void refuse(int status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("hakmem: ", stderr);
  vfprintf(stderr, format, arguments); /* NOLINT(clang-analyzer-valist.Uninitialized) */
  fputc('\n', stderr);
  va_end(arguments);
  exit(status);
}

_Noreturn static void help(FILE *out, int status) {
  fputs("usage: hakmem [--profile speed|balanced|lean|hardened] COMMAND [ARGUMENT...]\n"
        "       hakmem --status PID     which allocator serves a running process?\n"
        "       hakmem --library        the library that is preloaded\n"
        "       hakmem --version\n"
        "Runs COMMAND with its malloc served by hakmem; HAKMEM_HELP=1 prints the options (man hakmem).\n"
        "`hak doctor -- COMMAND` also examines what the command starts: scripts, env, sudo, containers.\n"
        "Exit status: the command's; 125: wrong usage; 126: it cannot be served or run; 127: it is not there.\n",
        out);
  exit(status);
}

/* Find the file of a command, as the shell would. False: there is none. */
static bool find_program(const char *name, char found[PATH_MAX]) {
  const char *path = getenv("PATH");
  if (strchr(name, '/')) {
    return realpath(name, found) != NULL;
  }
  for (path = path ? path : "/usr/local/bin:/usr/bin:/bin"; path;
       path = strchr(path, ':') ? strchr(path, ':') + 1 : NULL) {
    char candidate[PATH_MAX];
    struct stat status;
    int folder = (int)strcspn(path, ":");
    int length = snprintf(candidate, sizeof candidate, "%.*s/%s", folder, folder ? path : ".", name);
    if (length > 0 && (size_t)length < sizeof candidate && access(candidate, X_OK) == 0 &&
        stat(candidate, &status) == 0 && S_ISREG(status.st_mode) && realpath(candidate, found)) {
      return true;
    }
  }
  return false;
}

/* Refuse a program with more rights than its caller: the dynamic linker preloads nothing there. */
static void refuse_privileged(const char *path) {
  struct stat status;
  bool owner = stat(path, &status) == 0 && (status.st_mode & S_ISUID) && status.st_uid != geteuid();
  bool group = (status.st_mode & S_ISGID) && status.st_gid != getegid();
  bool capable = geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
  if (owner || group || capable) {
    refuse(EXIT_REFUSED, "%s is %s, and the dynamic linker preloads nothing into such programs: " LINK, path,
           capable ? "given capabilities"
           : owner ? "setuid"
                   : "setgid");
  }
}

_Noreturn static void refuse_without_library(const char *path, const search_t *search) {
  const binary_t *program = search->program;
  if (search->no_proc) {
    refuse(EXIT_USAGE, "/proc is not mounted, so the library is not found; set LD_PRELOAD yourself");
  }
  if (!*search->other) {
    refuse(EXIT_REFUSED, "neither " LIBRARY_NAME
                         " nor libhakmem.so lies beside this command or in ../lib: put one there, or build it "
                         "(make) or install it (make install)");
  }
  refuse(EXIT_REFUSED, "%s is for %s%s, and there is no libhakmem.so for that beside this command: %s is for another",
         path, binary_machine_name(program), binary_is_musl(program) ? " and musl" : "", search->other);
}

/* Find the library for a program, or refuse it. A script is not examined: the kernel starts its interpreter, or refuses
 * the file. */
static void find_library(const char *name, search_t *search) {
  char path[PATH_MAX] = "";
  binary_t file;
  bool known = find_program(name, path) && binary_open(path, &file) == 0;
  *search = (search_t){.program = known ? &file : NULL};
  if (known) {
    refuse_privileged(path);
  }
  if (!library_find(search)) {
    refuse_without_library(path, search);
  }
  if (!known) {
    return;
  }
  if (binary_holds_hakmem(&file)) {
    search->found[0] = '\0'; /* it has the allocator already */
  } else if (binary_sanitizer(&file)) {
    refuse(EXIT_REFUSED,
           "%s is built with -fsanitize=%s, whose runtime ends it where another malloc comes before its own: build it "
           "without, or run it without hakmem",
           path, binary_sanitizer(&file));
  } else if (!file.interpreter) {
    refuse(EXIT_REFUSED, "%s is statically linked, so nothing can be preloaded: " LINK, path);
  } else if (file.exports_malloc) {
    refuse(EXIT_REFUSED, "%s has a malloc of its own, which comes before every library's: build it without", path);
  }
  search->program = NULL;
  binary_close(&file);
}

/* Whether a list in the form of LD_PRELOAD contains this path. */
static bool names(const char *list, const char *path) {
  for (size_t length; *list; list += length + (list[length] != '\0')) {
    length = strcspn(list, SEPARATORS);
    if (length == strlen(path) && strncmp(list, path, length) == 0) {
      return true;
    }
  }
  return false;
}

static void set_environment(const char *library, const char *profile) {
  const char *before = getenv("LD_PRELOAD");
  char *preload = NULL;
  if (profile && setenv("HAKMEM_PROFILE", profile, 1) != 0) {
    refuse(EXIT_USAGE, "%s", strerror(errno));
  }
  if (!*library || (before && names(before, library))) {
    return;
  }
  if (library[strcspn(library, SEPARATORS)] != '\0') {
    refuse(EXIT_REFUSED,
           "%s: LD_PRELOAD ends a name at a space or a colon: move this folder, or set LD_PRELOAD to a link to the "
           "file that has none",
           library);
  }
  if (asprintf(&preload, "%s%s%s", library, before && *before ? ":" : "", before ? before : "") < 0 ||
      setenv("LD_PRELOAD", preload, 1) != 0) {
    refuse(EXIT_USAGE, "%s", strerror(errno));
  }
  free(preload);
}

/* The first library of a process whose file name has this prefix. */
static bool maps_library(const char *pid, const char *prefix, char path[PATH_MAX]) {
  char name[64], line[PATH_MAX + 128];
  bool found = false;
  snprintf(name, sizeof name, "/proc/%s/maps", pid);
  FILE *maps = fopen(name, "re");
  if (!maps) {
    refuse(EXIT_NOT_FOUND, "process %s: %s", pid, errno == ENOENT ? "there is none" : strerror(errno));
  }
  while (!found && fgets(line, sizeof line, maps)) {
    char *file = strchr(line, '/');
    if (file) {
      file[strcspn(file, "\n")] = '\0';
      found = strncmp(strrchr(file, '/') + 1, prefix, strlen(prefix)) == 0;
      snprintf(path, PATH_MAX, "%s", file);
    }
  }
  fclose(maps);
  return found;
}

static int tell_status(const char *pid) {
  static const char *const others[] = {"libjemalloc", "libmimalloc", "libtcmalloc", "libsnmalloc",
                                       "libhardened_malloc"};
  char library[PATH_MAX], program[64], other[PATH_MAX];
  binary_t file;
  if (pid[strspn(pid, "0123456789")] != '\0' || !*pid) {
    refuse(EXIT_USAGE, "--status takes the number of a process, not '%s'", pid);
  }
  bool mapped = maps_library(pid, "libhakmem.so", library);
  snprintf(program, sizeof program, "/proc/%s/exe", pid);
  int error = binary_open(program, &file);
  if (error) {
    refuse(EXIT_REFUSED, "process %s: its program cannot be read: %s", pid,
           access(program, F_OK) != 0 ? "it is a thread of the kernel, or is ending" : strerror(error));
  }
  bool embedded = binary_holds_hakmem(&file);
  if (embedded) {
    printf("%s: served by hakmem, which is linked into it\n", pid);
  } else if (file.exports_malloc) {
    printf("%s: not served: its program has a malloc of its own\n", pid);
  } else if (mapped) {
    printf("%s: served by %s\n", pid, library);
  } else if (!file.interpreter) {
    printf("%s: not served: it is statically linked: " LINK "\n", pid);
  } else {
    const char *who = "its C library's malloc";
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
      who = maps_library(pid, others[i], other) ? other : who;
    }
    printf("%s: not served by hakmem, but by %s: start it by `hakmem COMMAND`\n", pid, who);
  }
  binary_close(&file);
  return embedded || (mapped && !file.exports_malloc) ? 0 : 1;
}

static int tell_library(void) {
  search_t search;
  find_library("", &search);
  puts(search.found);
  return 0;
}

static const char *known_profile(const char *name) {
  static const char *const profiles[] = {"speed", "balanced", "lean", "hardened"};
  for (size_t i = 0; name && i < sizeof profiles / sizeof *profiles; i++) {
    if (strcmp(name, profiles[i]) == 0) {
      return name;
    }
  }
  refuse(EXIT_USAGE, "--profile takes speed, balanced, lean or hardened, not '%s'", name ? name : "");
}

int main(int count, char **argument) {
  const char *profile = NULL;
  search_t search;
  int i = 1;
  for (; i < count && argument[i][0] == '-'; i++) {
    const char *option = argument[i];
    if (strcmp(option, "--") == 0) {
      i++;
      break;
    }
    if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0) {
      help(stdout, 0);
    } else if (strcmp(option, "--version") == 0) {
      printf("hakmem %d.%d.%d\n", HAKMEM_VERSION_MAJOR, HAKMEM_VERSION_MINOR, HAKMEM_VERSION_PATCH);
      return 0;
    } else if (strcmp(option, "--library") == 0) {
      return tell_library();
    } else if (strcmp(option, "--status") == 0) {
      return tell_status(i + 1 < count ? argument[i + 1] : "");
    } else if (strcmp(option, "--profile") == 0) {
      profile = known_profile(argument[++i]);
    } else if (strncmp(option, "--profile=", 10) == 0) {
      profile = known_profile(option + 10);
    } else {
      refuse(EXIT_USAGE, "unknown option '%s'; see hakmem --help", option);
    }
  }
  if (i >= count) {
    help(stderr, EXIT_USAGE);
  }
  find_library(argument[i], &search);
  set_environment(search.found, profile);
  execvp(argument[i], argument + i);
  refuse(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_REFUSED, "%s: %s", argument[i], strerror(errno));
}
