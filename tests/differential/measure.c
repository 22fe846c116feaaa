#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "machine.h"

/* A system call reads the processor time before each big block, and once for so many small blocks. */
enum { SAMPLES = 16, TEXT = 1 << 16, BIG = 32 << 10, ASKED_EVERY = 32, SUSPECT_NS = 200000 };

/* In KiB, except `cpu_us`, which excludes the cost of sampling, and `waits`, the number of times a thread waited. */
struct sample {
  int64_t round;
  uint64_t cpu_us, waits, rss, size, mappings, live;
};

static struct sample samples[SAMPLES + 3];
static int taken;
static uint64_t sampling_us;
/* This thread's processor time at the last reading, and the number of calls since. */
static _Thread_local uint64_t known_ns;
static _Thread_local unsigned calls_since;
static atomic_ullong refusals, longest_ns, longest_at;
static atomic_llong live_bytes;
static atomic_ullong *spent_ns;
static char text[TEXT];
static int output = STDOUT_FILENO;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  int bytes = vsnprintf(line, sizeof line, format, arguments); /* NOLINT(clang-analyzer-valist.Uninitialized) */
  va_end(arguments);
  if (write(output, line, (size_t)bytes) != bytes) {
    fail("cannot write the figures");
  }
}

static uint64_t clock_ns(clockid_t which) {
  struct timespec now;
  clock_gettime(which, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t cpu_us(void) {
  uint64_t sum = 0;
  const int who[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
  for (int i = 0; i < 2; i++) {
    struct rusage usage;
    getrusage(who[i], &usage);
    sum += (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000u;
    sum += (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  }
  return sum;
}

/* The value of a line `Name:   123 kB` of /proc/self/status; 0 if the file cannot be read. */
static uint64_t status_kib(const char *name) {
  int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0) {
    close(file);
  }
  text[bytes > 0 ? bytes : 0] = '\0';
  const char *line = strstr(text, name);
  uint64_t value = 0;
  for (line = line == NULL ? "" : line + strlen(name); *line == ' ' || *line == '\t'; line++) {
  }
  for (; *line >= '0' && *line <= '9'; line++) {
    value = value * 10 + (uint64_t)(*line - '0');
  }
  return value;
}

static uint64_t count_mappings(void) {
  uint64_t lines = 0;
  int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  ssize_t bytes;
  while (file >= 0 && (bytes = read(file, text, sizeof text)) > 0) {
    for (ssize_t i = 0; i < bytes; i++) {
      lines += text[i] == '\n';
    }
  }
  if (file >= 0) {
    close(file);
  }
  return lines;
}

static void take(int64_t round) {
  uint64_t before = cpu_us();
  struct sample *sample = &samples[taken++];
  sample->round = round;
  sample->cpu_us = before - sampling_us;
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  sample->waits = (uint64_t)usage.ru_nvcsw;
  sample->rss = status_kib("VmRSS:");
  sample->size = status_kib("VmSize:");
  sample->mappings = count_mappings();
  sample->live = (uint64_t)atomic_load(&live_bytes) >> 10;
  sampling_us += cpu_us() - before;
}

void measure_start(void) {
  size_t bytes = ((size_t)header.operations + 1) * sizeof *spent_ns;
  spent_ns = own_map(bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1);
  if (spent_ns == MAP_FAILED) {
    fail("no memory for the machine's own figures");
  }
  take(0);
}

/* Call it after each round; it takes SAMPLES samples over all rounds. A negative number: after idling. */
void measure_round(int64_t round) {
  if (round < 0 || round * SAMPLES / header.rounds > (round - 1) * SAMPLES / header.rounds) {
    take(round);
  }
}

bool measure_time(int64_t round, int64_t seconds) {
  static uint64_t start, told;
  uint64_t now = clock_ns(CLOCK_MONOTONIC), whole = (uint64_t)seconds * 1000000000u;
  start = start == 0 ? now : start;
  if ((now - start) / 1000000000u > told) {
    told = (now - start) / 1000000000u;
    say("steady t=%.3f operations=%lld\n", (double)(now - start) / 1e9, (long long)round);
  }
  if ((now - start) * SAMPLES / whole >= (uint64_t)taken && taken <= SAMPLES) {
    take(round);
  }
  return now - start < whole;
}

uint64_t measure_before(size_t bytes) {
  if (bytes > BIG || ++calls_since >= ASKED_EVERY) {
    known_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    calls_since = 0;
  }
  return clock_ns(CLOCK_MONOTONIC);
}

/* Another process may have interrupted a long call. The call took at most the thread's processor time since the last
 * reading. */
void measure_after(const struct op *op, uint64_t start) {
  unsigned long long ns = clock_ns(CLOCK_MONOTONIC) - start, longest = atomic_load(&longest_ns);
  if (ns > SUSPECT_NS) {
    unsigned long long most = clock_ns(CLOCK_THREAD_CPUTIME_ID) - known_ns;
    ns = ns < most ? ns : most;
  }
  atomic_fetch_add_explicit(&spent_ns[op - operations], ns, memory_order_relaxed);
  while (ns > longest) {
    if (atomic_compare_exchange_weak(&longest_ns, &longest, ns)) {
      atomic_store(&longest_at, (unsigned long long)(op - operations));
    }
  }
}

void measure_refusal(void) {
  atomic_fetch_add(&refusals, 1);
}

void measure_live(int64_t bytes) {
  atomic_fetch_add_explicit(&live_bytes, bytes, memory_order_relaxed);
}

void measure_print(int file) {
  output = file;
  say("{\"refused\":%llu,\"longest_ns\":%llu,\"longest_at\":%llu", atomic_load(&refusals), atomic_load(&longest_ns),
      atomic_load(&longest_at));
  say(",\"peak_rss\":%llu", (unsigned long long)status_kib("VmHWM:"));
  say(",\"peak_size\":%llu,\"spent_us\":[", (unsigned long long)status_kib("VmPeak:"));
  for (int64_t i = 0; i < header.operations; i++) {
    say("%s%llu", i == 0 ? "" : ",", atomic_load(&spent_ns[i]) / 1000);
  }
  say("],\"samples\":[");
  for (int i = 0; i < taken; i++) {
    const struct sample *s = &samples[i];
    say("%s[%lld,%llu,%llu,%llu,%llu,%llu,%llu]", i == 0 ? "" : ",", (long long)s->round, (unsigned long long)s->cpu_us,
        (unsigned long long)s->waits, (unsigned long long)s->rss, (unsigned long long)s->size,
        (unsigned long long)s->mappings, (unsigned long long)s->live);
  }
  /* Only hakmem has statistics; programs.py needs one number of them. */
  size_t (*stats)(char *, size_t) = NULL;
  *(void **)&stats = dlsym(RTLD_DEFAULT, "hak_stats_json");
  unsigned long long metadata = 0;
  if (stats != NULL && stats(text, sizeof text) > 0) {
    const char *at = strstr(text, "\"metadata_bytes\":");
    if (at != NULL) {
      sscanf(at, "\"metadata_bytes\":%llu", &metadata);
    }
  }
  say("],\"metadata\":%llu}\n", metadata >> 10);
}
