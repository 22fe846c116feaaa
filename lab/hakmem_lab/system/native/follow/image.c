#include "image.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = PATH_MAX + 128, AUXILIARY_MOST = 64, WORDS_BYTES = 1 << 16 };

#define PRELOAD "LD_PRELOAD="
#define SEPARATORS ": \t\n"

bool library_find(library_t *library, const char *path) {
  struct stat status;
  if (!realpath(path, library->path) || stat(path, &status) != 0) {
    return false;
  }
  library->name = strrchr(library->path, '/') + 1;
  library->inode = status.st_ino;
  return true;
}

/* Processor time of the process, including ended threads. */
static int64_t used_ns(pid_t process) {
  struct timespec t;
  clockid_t clock = (clockid_t)((~(unsigned)process << 3) | 2); /* the kernel's name for it: CPUCLOCK_SCHED */
  return clock_gettime(clock, &t) == 0 ? (int64_t)t.tv_sec * 1000000000 + t.tv_nsec : 0;
}

static FILE *open_of(pid_t process, const char *what) {
  char path[PROC_PATH_BYTES];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)process, what);
  return fopen(path, "re");
}

static uint64_t auxiliary(pid_t process, uint64_t kind) {
  uint64_t pairs[AUXILIARY_MOST][2];
  FILE *file = open_of(process, "auxv");
  size_t count = file ? fread(pairs, sizeof *pairs, AUXILIARY_MOST, file) : 0;
  for (size_t i = 0; i < count; i++) {
    if (pairs[i][0] == kind) {
      count = SIZE_MAX;
      kind = pairs[i][1];
      break;
    }
  }
  if (file) {
    fclose(file);
  }
  return count == SIZE_MAX ? kind : 0;
}

/* Copies the LD_PRELOAD with which the program was started. false: it was not set. */
static bool preload_of(pid_t process, char *words, size_t bytes) {
  FILE *file = open_of(process, "environ");
  char *entry = NULL;
  size_t room = 0;
  bool found = false;
  while (file && !found && getdelim(&entry, &room, '\0', file) > 0) {
    if (strncmp(entry, PRELOAD, strlen(PRELOAD)) == 0 && entry[strlen(PRELOAD)]) {
      snprintf(words, bytes, "%s", entry + strlen(PRELOAD));
      found = true;
    }
  }
  free(entry);
  if (file) {
    fclose(file);
  }
  return found;
}

static bool is_library(const char *word, const library_t *library) {
  struct stat status;
  const char *name = strrchr(word, '/');
  return strcmp(word, library->path) == 0 || (stat(word, &status) == 0 && status.st_ino == library->inode) ||
         (!name && strncmp(library->name, word, strlen(word)) == 0);
}

/* Why the dynamic linker will not load the library; "": it has been asked to. */
static const char *lost_in(pid_t process, const library_t *library) {
  static char words[WORDS_BYTES];
  char there[PATH_MAX + PROC_PATH_BYTES];
  if (auxiliary(process, AT_SECURE)) {
    return "secure";
  }
  if (!auxiliary(process, AT_BASE)) {
    return "static";
  }
  if (!preload_of(process, words, sizeof words)) {
    return "unset";
  }
  bool asked = false;
  for (char *rest = words, *word; !asked && (word = strtok_r(rest, SEPARATORS, &rest));) {
    asked = is_library(word, library);
  }
  if (!asked) {
    return "replaced";
  }
  snprintf(there, sizeof there, "/proc/%d/root%s", (int)process, library->path);
  return access(there, F_OK) == 0 ? "" : "root";
}

bool image_traces(pid_t process) {
  static const char *const signs[] = {"ptrace", "liblsan.so", "libclang_rt.lsan"};
  char path[PROC_PATH_BYTES];
  struct stat status;
  snprintf(path, sizeof path, "/proc/%d/exe", (int)process);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  void *bytes = file >= 0 && fstat(file, &status) == 0 && status.st_size > 0
                    ? mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0)
                    : MAP_FAILED;
  bool found = false;
  for (size_t i = 0; bytes != MAP_FAILED && i < sizeof signs / sizeof *signs && !found; i++) {
    found = memmem(bytes, (size_t)status.st_size, signs[i], strlen(signs[i])) != NULL;
  }
  if (bytes != MAP_FAILED) {
    munmap(bytes, (size_t)status.st_size);
  }
  if (file >= 0) {
    close(file);
  }
  return found;
}

static void read_program(pid_t process, char program[PATH_MAX]) {
  char path[PROC_PATH_BYTES];
  snprintf(path, sizeof path, "/proc/%d/exe", (int)process);
  ssize_t length = readlink(path, program, PATH_MAX - 1);
  program[length > 0 ? length : 0] = '\0';
}

void image_begin(image_t *image, pid_t process, const library_t *library) {
  image_t before = *image;
  *image = (image_t){.lost = lost_in(process, library), .began_ns = used_ns(process)};
  if (!before.ours) {
    memcpy(image->by, before.program, sizeof image->by);
  }
  read_program(process, image->program);
}

void image_fork(image_t *image, pid_t process, const image_t *parent) {
  *image = parent ? *parent : (image_t){.ours = true, .lost = ""};
  image->began_ns = image->used_ns = 0;
  if (!parent) {
    read_program(process, image->program);
  }
}

static bool maps_library(pid_t process, const library_t *library) {
  char line[LINE_BYTES];
  FILE *maps = open_of(process, "maps");
  bool found = false;
  while (maps && !found && fgets(line, sizeof line, maps)) {
    uintmax_t inode = 0;
    char *path = strchr(line, '/');
    line[strcspn(line, "\n")] = '\0';
    if (path && sscanf(line, "%*s %*s %*s %*s %ju", &inode) == 1) {
      found = strcmp(path, library->path) == 0 ||
              (inode == library->inode && strcmp(strrchr(path, '/') + 1, library->name) == 0);
    }
  }
  if (maps) {
    fclose(maps);
  }
  return found;
}

static void add_used(image_t *image, pid_t process) {
  int64_t used = used_ns(process) - image->began_ns;
  image->used_ns = used > image->used_ns ? used : image->used_ns;
}

void image_replace(image_t *image, pid_t process) {
  add_used(image, process);
  image->served = image->served || !*image->lost;
}

void image_look(image_t *image, pid_t process, const library_t *library) {
  add_used(image, process);
  image->served = image->served || maps_library(process, library);
  if (!image->served && !*image->lost) {
    image->lost = "refused";
  }
}

void image_print(int file, const image_t *image, pid_t process, bool own) {
  if (!image->ours) {
    dprintf(file, "%s%c%d%c%s%c%s%c%" PRId64 "%c%s%c%s%c", own ? "command" : "", 0, (int)process, 0,
            image->served ? "served" : "unserved", 0, image->served ? "" : image->lost, 0, image->used_ns / 1000, 0,
            image->by, 0, image->program, 0);
  }
}
