// regions PORT [own|plain]: what separate memory is worth, as programs would use it. `own` (default): the regions,
// heaps or arenas of the preloaded library; `plain`: malloc, and free for each block. Prints the processor time and the
// figures of the port, and memory without the program's own tables.
//   caches    waves of queries, and a cache that lives on: memory after the load
//   pipeline  three threads pass batches on, each with its own gauge
//   requests  8 threads drop all blocks of a request at once
//   limit     8 threads fill their regions up to the limit
//   walk      objects in four heaps, which a collector walks
//   short     10,000 regions of 50 KiB on 8 threads
//   destroy   a million blocks go at once, six times
//   defrag    blocks of sparse slabs move
#include "regions.h"

#include <sys/resource.h>

static uint64_t clock_ns(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t process_ns(void) {
  return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}
uint64_t thread_ns(void) {
  return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static const port_t *find(const char *name) {
  const port_t *const tables[] = {life_ports, heap_ports};
  for (uint32_t i = 0; i < 2; i++)
    for (const port_t *port = tables[i]; port->name != NULL; port++)
      if (strcmp(port->name, name) == 0)
        return port;
  return NULL;
}

int main(int argc, char **argv) {
  static const char usage[] = "usage: regions caches|pipeline|requests|limit|walk|short|destroy|defrag [own|plain]";
  const port_t *port = argc > 1 && argc <= 3 ? find(argv[1]) : NULL;
  bool plain = argc > 2 && strcmp(argv[2], "plain") == 0;
  if (port == NULL || (argc > 2 && !plain && strcmp(argv[2], "own") != 0))
    bench_fail(usage);
  const side_t *side = side_of(plain);
  printf("regions %s side=%s", port->name, side->name);
  port->run(side);
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  printf(" cpu_ms=%.1f faults=%ld\n", (double)process_ns() / 1e6, used.ru_minflt);
  return 0;
}
