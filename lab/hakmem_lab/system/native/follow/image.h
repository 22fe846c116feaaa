/* An image: what a process runs between one exec and the next, and whether the preloaded library is in it. All data
 * come from /proc and the processor clock of the process; its own memory is never touched. */
#ifndef HAK_FOLLOW_IMAGE_H
#define HAK_FOLLOW_IMAGE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROC_PATH_BYTES = 64 };

/* The library. path: without symbolic links. inode: identifies the file in another root folder, too. */
typedef struct library {
  char path[PATH_MAX];
  const char *name;
  ino_t inode;
} library_t;

/* An image of one process. lost: why the exec prevents the preload, "" if it does not. began_ns: the process's clock at
 * the exec. by: the program that called exec. ours: the follower or hak itself, before the first exec. */
typedef struct image {
  bool ours, served;
  const char *lost;
  int64_t began_ns, used_ns;
  char program[PATH_MAX], by[PATH_MAX];
} image_t;

bool library_find(library_t *library, const char *path);

void image_begin(image_t *image, pid_t process, const library_t *library);
/* Whether the program uses ptrace: a debugger, or a program with LeakSanitizer, which traces itself. ptrace fails in a
 * process that is itself traced. */
bool image_traces(pid_t process);
/* Begins the image of a forked child, or, without a known parent, of a process that is seen for the first time. */
void image_fork(image_t *image, pid_t process, const image_t *parent);
/* Ends the image at an exec. It counts as served unless `lost` says otherwise. */
void image_replace(image_t *image, pid_t process);
/* Reads the processor time, and whether the library is mapped. Call it while the process still has its memory. */
void image_look(image_t *image, pid_t process, const library_t *library);
/* Writes seven strings that end in NUL: "command" for the command's own process, else ""; process number; "served" or
 * "unserved"; why; microseconds; by; program. */
void image_print(int file, const image_t *image, pid_t process, bool own);

#endif
