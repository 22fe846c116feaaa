/* Runs every given file as the fuzz target would: replay FILE... */
#include "check.h"
#include "operations.h"

enum { PROGRAM_BYTES_MAX = 1 << 20 };

static void replay(const char *path) {
  static uint8_t program[PROGRAM_BYTES_MAX];
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    fprintf(stderr, "replay: cannot open '%s'\n", path);
    exit(2);
  }
  size_t length = fread(program, 1, sizeof program, file);
  CHECK(ferror(file) == 0);
  CHECK(fclose(file) == 0);
  run_operations(program, length);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: replay FILE...\n");
    return 2;
  }
  for (int i = 1; i < argc; i++) {
    replay(argv[i]);
  }
  printf("%d programs replayed\n", argc - 1);
  return 0;
}
