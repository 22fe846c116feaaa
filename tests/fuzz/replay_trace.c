/* Runs every given file as the fuzz target would, then MUTATIONS changed files: replay_trace MUTATIONS FILE... */
#include <string.h>

#include "check.h"
#include "trace_input.h"

enum { PLAN_BYTES_MAX = 1 << 20, CHANGES_MAX = 4 };

static uint64_t state = 0x9E3779B97F4A7C15u;

static uint32_t draw(uint32_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state >> 32) % below;
}

static size_t change(uint8_t *plan, size_t length) {
  static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff};
  uint32_t at = draw((uint32_t)length);
  switch (draw(5)) {
  case 0:
    plan[at] ^= (uint8_t)(1u << draw(8));
    return length;
  case 1:
    plan[at] = odd[draw(sizeof odd)];
    return length;
  case 2:
    plan[at] = (uint8_t)(plan[at] + 1);
    return length;
  case 3:
    return at + 1;
  default: {
    uint32_t from = draw((uint32_t)length);
    size_t bytes = draw(64) + 1u;
    size_t most = length - (at > from ? at : from);
    memmove(plan + at, plan + from, bytes < most ? bytes : most);
    return length;
  }
  }
}

static void replay(const char *path, long mutations) {
  static uint8_t plan[PLAN_BYTES_MAX], changed[PLAN_BYTES_MAX];
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    fprintf(stderr, "replay_trace: cannot open '%s'\n", path);
    exit(2);
  }
  size_t length = fread(plan, 1, sizeof plan, file);
  CHECK(ferror(file) == 0);
  CHECK(fclose(file) == 0);
  run_plan(plan, length);
  for (long i = 0; length > 0 && i < mutations; i++) {
    memcpy(changed, plan, length);
    size_t bytes = length;
    for (uint32_t left = 1 + draw(CHANGES_MAX); left > 0; left--) {
      bytes = change(changed, bytes);
    }
    run_plan(changed, bytes);
  }
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: replay_trace MUTATIONS FILE...\n");
    return 2;
  }
  long mutations = atol(argv[1]);
  for (int i = 2; i < argc; i++) {
    replay(argv[i], mutations);
  }
  printf("%d plans replayed, %ld changed ones of each\n", argc - 2, mutations);
  return 0;
}
