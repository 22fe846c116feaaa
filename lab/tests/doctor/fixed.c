/* Takes the address of malloc. In a program at a fixed address, this is the address of its own jump slot. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
  void *(*volatile taken)(size_t) = malloc;
  void *block = taken(100);
  char *volatile copy = strdup("through libc");
  puts("ready");
  fflush(stdout);
  pause();
  free(block);
  free(copy);
  return 0;
}
