/* Finds the processes of the running program, and samples their resident and proportional memory over time. */
#include "launcher.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 4096, KIB = 1024 };

static void halve(series_t *s) {
  for (int64_t i = 0; i < SERIES_POINTS / 2; i++) {
    s->at_ms[i] = s->at_ms[2 * i];
    s->sum_kib[i] = s->sum_kib[2 * i] + s->sum_kib[2 * i + 1];
    s->samples[i] = s->samples[2 * i] + s->samples[2 * i + 1];
  }
  s->points = SERIES_POINTS / 2;
  s->stride *= 2;
}

void series_add(series_t *s, int64_t at_ms, int64_t kib) {
  s->stride = s->stride ? s->stride : 1;
  if (s->points == 0 || s->samples[s->points - 1] == s->stride) {
    if (s->points == SERIES_POINTS) {
      halve(s);
    }
    s->at_ms[s->points] = at_ms;
    s->sum_kib[s->points] = 0;
    s->samples[s->points++] = 0;
  }
  s->sum_kib[s->points - 1] += kib;
  s->samples[s->points - 1]++;
}

void series_print(const char *name, const series_t *s) {
  printf(" %s=", name);
  for (int64_t i = 0; i < s->points; i++) {
    printf("%s%" PRId64 ":%" PRId64, i ? "," : "", s->at_ms[i], s->sum_kib[i] / s->samples[i]);
  }
}

bool memory_sample_resident(memory_t *memory, int statm, double elapsed_s, double age_s) {
  char text[128];
  ssize_t bytes = pread(statm, text, sizeof text - 1, 0);
  int64_t pages = 0;
  if (bytes <= 0) {
    return false;
  }
  text[bytes] = 0;
  if (sscanf(text, "%*d %" SCNd64, &pages) != 1 || pages == 0) {
    return false;
  }
  int64_t kib = pages * (sysconf(_SC_PAGESIZE) / KIB);
  memory->samples++;
  memory->peak_kib = kib > memory->peak_kib ? kib : memory->peak_kib;
  memory->weighted_kib += (double)kib * elapsed_s;
  memory->weight_s += elapsed_s;
  series_add(&memory->resident, (int64_t)(age_s * 1000), kib);
  return true;
}

/* Adds a process unless it is known. A process whose parent ends meanwhile is found twice: again among our own
 * children. */
static bool is_new(family_t *family, int pid) {
  for (int64_t i = 0; i < family->count; i++) {
    if (family->pids[i] == pid) {
      return false;
    }
  }
  if (family->count == MOST_PROCESSES) {
    return false;
  }
  family->pids[family->count++] = pid;
  return true;
}

static void add_descendants(family_t *family, int pid);

static void add_children(family_t *family, int pid, const char *thread) {
  char path[PATH_BYTES];
  int child;
  snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", pid, thread);
  FILE *children = fopen(path, "re");
  while (children && fscanf(children, "%d", &child) == 1) {
    if (is_new(family, child)) {
      add_descendants(family, child);
    }
  }
  if (children) {
    fclose(children);
  }
}

/* Every thread has its own list of child processes. */
static void add_descendants(family_t *family, int pid) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *threads = opendir(path);
  for (struct dirent *entry; threads && (entry = readdir(threads));) {
    if (entry->d_name[0] != '.') {
      add_children(family, pid, entry->d_name);
    }
  }
  if (threads) {
    closedir(threads);
  }
}

void family_find(family_t *family) {
  family->count = 0;
  add_descendants(family, (int)getpid());
}

static int64_t pss_kib(int pid) {
  char path[PATH_BYTES], line[TEXT_BYTES];
  int64_t kib = 0;
  snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
  FILE *rollup = fopen(path, "re");
  while (rollup && fgets(line, sizeof line, rollup) && sscanf(line, "Pss: %" SCNd64, &kib) != 1) {
  }
  if (rollup) {
    fclose(rollup);
  }
  return kib;
}

void memory_sample_proportional(memory_t *memory, double elapsed_s, double age_s) {
  family_t family;
  int64_t kib = 0;
  family_find(&family);
  for (int64_t i = 0; i < family.count; i++) {
    kib += pss_kib(family.pids[i]);
  }
  if (kib == 0) {
    return;
  }
  memory->pss_samples++;
  memory->pss_weighted_kib += (double)kib * elapsed_s;
  memory->pss_weight_s += elapsed_s;
  memory->pss_peak_kib = kib > memory->pss_peak_kib ? kib : memory->pss_peak_kib;
  series_add(&memory->proportional, (int64_t)(age_s * 1000), kib);
}

void memory_print(const memory_t *memory) {
  printf(" samples=%" PRId64 " rss_mean_kib=%.1f pss_peak_kib=%" PRId64 " pss_mean_kib=%.1f", memory->samples,
         memory->weight_s > 0 ? memory->weighted_kib / memory->weight_s : -1,
         memory->pss_samples ? memory->pss_peak_kib : -1,
         memory->pss_weight_s > 0 ? memory->pss_weighted_kib / memory->pss_weight_s : -1);
  series_print("rss_series", &memory->resident);
  series_print("pss_series", &memory->proportional);
}
