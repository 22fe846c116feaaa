/* What a process runs between one exec and the next, and whether a library that was to be preloaded is in it. Nothing
 * is asked of the process itself: all comes from /proc and from its processor clock. */
#ifndef HAK_FOLLOW_IMAGE_H
#define HAK_FOLLOW_IMAGE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROC_PATH_BYTES = 64 };

/* The library: its file with all links followed, and its number in the file system, by which it is known in another
 * root, too. */
typedef struct library {
  char path[PATH_MAX];
  const char *name;
  ino_t inode;
} library_t;

/* Of one process. lost: what the exec says of the preload, "" where nothing stands in its way. began_ns: the process's
 * clock at the exec. by: the program that called exec. ours: the follower or hak itself, before the first exec. */
typedef struct image {
  bool ours, served;
  const char *lost;
  int64_t began_ns, used_ns;
  char program[PATH_MAX], by[PATH_MAX];
} image_t;

bool library_find(library_t *library, const char *path);

void image_begin(image_t *image, pid_t process, const library_t *library);
/* Whether the program is one that traces processes, itself among them, which nobody can who is traced: a debugger, or
 * one with LeakSanitizer. */
bool image_traces(pid_t process);
/* A child that was forked, until it calls exec, or a process that is seen for the first time. */
void image_fork(image_t *image, pid_t process, const image_t *parent);
/* It calls exec: what it was is over, and was served unless the exec before said otherwise. */
void image_replace(image_t *image, pid_t process);
/* What it has used, and whether the library is there: to be called while it still has its memory. */
void image_look(image_t *image, pid_t process, const library_t *library);
/* Seven strings, each with its NUL: "command" where it is the command's own process, else ""; the process; "served" or
 * "unserved"; why; microseconds; by; program. */
void image_print(int file, const image_t *image, pid_t process, bool own);

#endif
