/* usage: race SCENARIO */
#include <string.h>

#include "check.h"
#include "names.h"
#include "scenario.h"

#define SCENARIO(name) \
  { #name, name }
static const struct {
  const char *name;
  void (*run)(void);
} scenarios[] = {
    SCENARIO(first_allocation),   SCENARIO(remote_free),       SCENARIO(producer_consumer),
    SCENARIO(concurrent_realloc), SCENARIO(large_blocks),      SCENARIO(observers),
    SCENARIO(thread_storm),       SCENARIO(thread_only_frees), SCENARIO(blocks_outlive_threads),
    SCENARIO(late_destructors),   SCENARIO(sampler_storm),     SCENARIO(profile_writers),
    SCENARIO(observed_regions),   SCENARIO(empty_blocks),
};

enum { THREADS_MAX = 64 };

void run_threads(size_t threads, void *(*body)(void *index)) {
  pthread_t ids[THREADS_MAX];
  CHECK(threads <= THREADS_MAX);
  for (size_t i = 0; i < threads; i++) {
    CHECK(pthread_create(&ids[i], NULL, body, (void *)i) == 0);
  }
  for (size_t i = 0; i < threads; i++) {
    CHECK(pthread_join(ids[i], NULL) == 0);
  }
}

/* The check at the edges of a slab reads memory that another thread may take meanwhile, and looks again whether one did
 * before it reports anything. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) { /* NOLINT(bugprone-reserved-identifier) */
  return "race:are_zeros\n";
}

int main(int argc, char **argv) {
  for (size_t i = 0; argc == 2 && i < sizeof scenarios / sizeof scenarios[0]; i++) {
    if (strcmp(argv[1], scenarios[i].name) == 0) {
      scenarios[i].run();
      hak_thread_flush();
      hak_check();
      return 0;
    }
  }
  fprintf(stderr, "usage: race SCENARIO, one of:");
  for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
    fprintf(stderr, " %s", scenarios[i].name);
  }
  fprintf(stderr, "\n");
  return 2;
}
