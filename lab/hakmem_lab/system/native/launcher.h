/* Declarations that the launcher's files share. Each file measures one aspect of a program that launcher.c starts. */
#ifndef HAK_LAUNCHER_H
#define HAK_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum { SERIES_POINTS = 64, MOST_COUNTERS = 8, MOST_PROCESSES = 4096, PATH_BYTES = 64 };

/* A quantity over time in few points, for a run of any length. Each point is the mean of `stride` samples (0 and 1: of
 * one) and has the time of the first. When the points are full, neighbours are merged. */
typedef struct series {
  int64_t points, stride, at_ms[SERIES_POINTS], sum_kib[SERIES_POINTS], samples[SERIES_POINTS];
} series_t;

void series_add(series_t *series, int64_t at_ms, int64_t kib);
void series_print(const char *name, const series_t *series);

/* Memory of one program: of its first process alone (resident), of all its descendants (proportional). */
typedef struct memory {
  int64_t samples, peak_kib, pss_samples, pss_peak_kib;
  double weighted_kib, weight_s, pss_weighted_kib, pss_weight_s;
  series_t resident, proportional;
} memory_t;

bool memory_sample_resident(memory_t *memory, int statm, double elapsed_s, double age_s);
void memory_sample_proportional(memory_t *memory, double elapsed_s, double age_s);
void memory_print(const memory_t *memory);

/* All running processes of the program. Orphans stay descendants of this process, since it is the nearest subreaper. */
typedef struct family {
  int64_t count;
  int pids[MOST_PROCESSES];
} family_t;

void family_find(family_t *family);

/* Detects whether the program that does the work loaded an allocator's library. It stops or changes no process: inotify
 * reports when the files of library and program are opened, and /proc is read now and then. */
typedef struct served served_t;

/* worker: the program that does the work, "" if unknown. Returns NULL if no library is expected. */
served_t *served_open(const char *library, const char *worker);
/* Call it often. It reads /proc at program ages that grow by a quarter each time. */
void served_watch(served_t *served, double age_s);
/* Prints how often the library was opened after the worker was, and the program that used most processor time without
 * it. */
void served_print(served_t *served);
void served_close(served_t *served);

/* Events that the processor or the kernel counts in the next program and all its descendants, from its exec on. */
typedef struct counters {
  int count, fds[MOST_COUNTERS];
} counters_t;

counters_t counters_open(const char *wanted);
void counters_print(const counters_t *counters);
void counters_close(counters_t *counters);

/* All three run in the launcher or in its child before exec. processors: "0,2". */
int start_pin(const char *processors);
/* Whether the program itself has chosen other processors than these. */
bool start_has_moved(pid_t pid, const char *processors);
/* Reports the program as held and waits for "go". Called in the child of vfork, whose parent cannot read meanwhile. */
int start_wait_for_go(void);

#endif
