/* Closes all descriptors, standard error too, in the way that its argument names, and ends. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  free(malloc(100));
  if (argc > 1 && strcmp(argv[1], "loop") == 0) {
    for (int fd = 0; fd < 5000; fd++) {
      close(fd);
    }
  } else {
    closefrom(0);
  }
  return 0;
}
