/* usage: protocol --selftest | protocol SCENARIO... | protocol: every scenario */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "collaborators.h"
#include "scenarios.h"

static bool run(const Scenario *scenario, const char *name) {
  if (name && strcmp(name, scenario->name) != 0) {
    return false;
  }
  Explored explored = explore(scenario);
  printf("%-30s %8llu runs, %llu cut short, %llu stopped, %llu steps\n", scenario->name,
         (unsigned long long)explored.runs, (unsigned long long)explored.cut_short,
         (unsigned long long)explored.stopped, (unsigned long long)explored.steps);
  CHECK(explored.runs > 1);
  CHECK(!scenario->crime || explored.stopped > 0);
  return true;
}

static bool run_all(const char *name) {
  bool any = false;
  for (const Scenario *scenario = slab_scenarios; scenario->name; scenario++) {
    any |= run(scenario, name);
  }
  for (const Scenario *scenario = fork_scenarios; scenario->name; scenario++) {
    any |= run(scenario, name);
  }
  return any;
}

int main(int argc, char **argv) {
  world_make();
  if (argc == 2 && strcmp(argv[1], "--selftest") == 0) {
    selftest();
    return 0;
  }
  for (int i = 1; i < argc; i++) {
    if (!run_all(argv[i])) {
      fprintf(stderr, "protocol: no scenario %s\n", argv[i]);
      return 2;
    }
  }
  return argc > 1 || run_all(NULL) ? 0 : 1;
}
