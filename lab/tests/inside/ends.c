// Allocates 1,000 blocks, then does what the letters of its first word say: r: changes its root folder to the second
// word; u: gives up its user; m: allocates 2,000 more blocks; f, F: a child allocates 1,000 blocks, and leaves by _exit
// or by exit; t: the first thread ends before another one allocates 2,000; x, a: leaves by _exit or by a signal.
#include <grp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
void *kept[5000];
__attribute__((noinline)) void fill(int first, int last) {
  for (int i = first; i < last; i++) {
    kept[i] = malloc(1000);
    memset(kept[i], 1, 1000);
  }
}
void *fill_later(void *unused) {
  usleep(100000);
  fill(2000, 4000);
  exit(3);
}
int main(int count, char **words) {
  fill(0, 1000);
  for (const char *c = words[1]; *c; c++) {
    switch (*c) {
    case 'r':
      if (chroot(words[2]) != 0 || chdir("/") != 0)
        return 9;
      break;
    case 'u':
      if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0)
        return 9;
      break;
    case 'f':
      if (fork() == 0) {
        fill(1000, 2000);
        _exit(0);
      }
      wait(NULL);
      break;
    case 'F':
      if (fork() == 0) {
        fill(1000, 2000);
        exit(0);
      }
      wait(NULL);
      break;
    case 'm':
      fill(2000, 4000);
      break;
    case 't':
      pthread_create(&(pthread_t){0}, NULL, fill_later, NULL);
      pthread_exit(NULL);
    case 'x':
      _exit(3);
    case 'a':
      abort();
    }
  }
  return 3;
}
