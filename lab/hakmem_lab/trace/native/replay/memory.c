// Measures the memory of the process, and of the replay itself.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "format/resident.h"
#include "replay.h"

#define POINTS 2048u
#define SERIES_POINTS 64u
#define MOST_OF_MEMORY 0.9 // part of the memory available at the start

static _Atomic size_t own_bytes;
static size_t limit_kib;
static replay_point_t points[POINTS];
static size_t point_count;
static uint64_t point_gap_ns, highest_kib, last_ns, last_kib, last_own_kib, last_peak_kib, samples;
static double area, weight, plain_sum;
static int statm = -1;

void *replay_reserve(size_t bytes) {
  void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return NULL;
  }
  madvise(mapping, bytes, MADV_NOHUGEPAGE);
  return mapping;
}

void *replay_map(size_t bytes) {
  void *mapping = replay_reserve(bytes);
  if (mapping != NULL) {
    replay_count((bytes + replay.page_bytes - 1) / replay.page_bytes * replay.page_bytes);
  }
  return mapping;
}

void replay_unmap(void *mapping, size_t bytes, size_t resident) {
  munmap(mapping, bytes);
  atomic_fetch_sub(&own_bytes, resident);
}

void replay_count(size_t bytes) {
  atomic_fetch_add(&own_bytes, bytes);
}

size_t replay_own_bytes(void) {
  return atomic_load(&own_bytes) + trace_memory_bytes(replay.trace);
}

size_t replay_resident_bytes(const void *mapping, size_t bytes) {
  size_t found;
  return resident_bytes(mapping, bytes, &found) ? found : 0;
}

// Without stdio, which allocates.
static char *read_file(int fd, char *text, size_t capacity) {
  size_t length = 0;
  ssize_t got;
  while (length + 1 < capacity && (got = pread(fd, text + length, capacity - 1 - length, (off_t)length)) > 0) {
    length += (size_t)got;
  }
  text[length] = 0;
  return text;
}

static uint64_t field_kib(const char *path, const char *name) {
  static char text[8192];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return 0;
  }
  const char *found = strstr(read_file(fd, text, sizeof text), name);
  close(fd);
  return found ? strtoull(found + strlen(name), NULL, 10) : 0;
}

void replay_memory_begin(void) {
  statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  limit_kib = (size_t)(MOST_OF_MEMORY * (double)field_kib("/proc/meminfo", "MemAvailable:"));
}

static uint64_t resident_kib(void) {
  char text[128], *end = NULL;
  read_file(statm, text, sizeof text);
  strtoull(text, &end, 10);
  return strtoull(end, NULL, 10) * (replay.page_bytes >> 10);
}

static void keep(uint64_t at_ns, uint64_t kib) {
  if (point_count > 0 && at_ns < points[point_count - 1].at_ns + point_gap_ns) {
    return;
  }
  if (point_count == POINTS) {
    for (size_t i = 0; i < POINTS / 2; i++) {
      points[i] = points[2 * i];
    }
    point_count = POINTS / 2;
    point_gap_ns = (at_ns - points[0].at_ns) / (POINTS / 2);
  }
  points[point_count++] = (replay_point_t){at_ns, kib};
}

// Raises the peak by memory held between two samples, from the kernel's own peak.
static void note_peak(uint64_t own) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  uint64_t peak = (uint64_t)used.ru_maxrss, most_own = own > last_own_kib ? own : last_own_kib;
  if (peak > last_peak_kib && samples > 0 && peak > most_own + highest_kib) {
    highest_kib = peak - most_own;
  }
  last_peak_kib = peak;
  last_own_kib = own;
}

uint64_t replay_check_limit(void) {
  uint64_t raw = resident_kib();
  if (limit_kib != 0 && raw > limit_kib) {
    replay_fail(REPLAY_FAILED, "it needs more than the %zu MiB of memory that are available here", limit_kib >> 10);
  }
  return raw;
}

// Samples the memory. The mean is over the trace's time, since a resting program holds its memory longer.
void replay_sample(uint64_t time_ns) {
  uint64_t raw = replay_check_limit(), own = replay_own_bytes() >> 10, kib = raw > own ? raw - own : 0;
  highest_kib = kib > highest_kib ? kib : highest_kib;
  note_peak(own);
  plain_sum += (double)kib;
  if (samples++ > 0 && time_ns > last_ns) {
    area += (double)(time_ns - last_ns) * (double)(last_kib + kib) / 2;
    weight += (double)(time_ns - last_ns);
  }
  last_ns = time_ns;
  last_kib = kib;
  keep(time_ns, kib);
}

static bool is_image(const char *line) {
  static const char *const names[] = {"/hak-replay", "/libc.so", "/libc-2.", "/ld-linux",
                                      "[vdso]",      "[vvar]",   "[stack]"};
  const char *end = strchr(line, '\n');
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *found = strstr(line, names[i]);
    if (found != NULL && (end == NULL || found < end)) {
      return true;
    }
  }
  return false;
}

// Resident memory of this program's file, the C library and the main stack, which every program has.
static uint64_t image_kib(void) {
  size_t capacity = 4u << 20;
  char *text = replay_reserve(capacity);
  int fd = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
  uint64_t sum = 0;
  if (text == NULL || fd < 0) {
    return 0;
  }
  bool mine = false;
  for (const char *line = read_file(fd, text, capacity); line != NULL && *line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (*line >= 'A' && *line <= 'Z') {
      sum += mine && strncmp(line, "Rss:", 4) == 0 ? strtoull(line + 4, NULL, 10) : 0;
    } else
      mine = is_image(line);
  }
  close(fd);
  munmap(text, capacity);
  return sum;
}

static uint64_t less(uint64_t kib, uint64_t other) {
  return kib > other ? kib - other : 0;
}

replay_memory_t replay_memory_end(void) {
  uint64_t peak = field_kib("/proc/self/status", "VmHWM:"), own = replay_own_bytes() >> 10, image = image_kib();
  double mean = weight > 0 ? area / weight : plain_sum / (double)(samples ? samples : 1);
  size_t step = (point_count + SERIES_POINTS - 1) / SERIES_POINTS, kept = 0;
  for (size_t i = 0; i < point_count; i += step) {
    points[kept++] = (replay_point_t){points[i].at_ns, less(points[i].kib, image)};
  }
  return (replay_memory_t){
      less(highest_kib, image), peak, own, image, mean > (double)image ? mean - (double)image : 0, kept, points};
}
