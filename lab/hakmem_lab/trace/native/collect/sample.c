// Reads /proc for the recorded processes, and describes them as JSON.
#include "collect.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAMPLE_NS UINT64_C(20000000)
#define COMMANDS_BYTES (TRACE_TEXT_BYTES / 8) // uncut commands; as JSON they may be several times as long
#define SAMPLES_BYTES (TRACE_TEXT_BYTES / 4)
enum {
  SAMPLES_A_CHUNK = 512,
  SAMPLES_TO_DOUBLE = 1500,
  TEXT_BYTES = 65536,
  CUT_BYTES = 256,
  FIELD_PARENT = 1,
  FIELD_USER = 11,
  FIELD_EXIT = 49
};

void json_string(FILE *out, const char *text, size_t bytes) {
  putc('"', out);
  for (size_t i = 0; i < bytes; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\')
      fprintf(out, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
      fprintf(out, "\\u%04x", c);
    else if (c < 0x80)
      putc(c, out);
    else
      fprintf(out, "\\udc%02x", c); // as Python's surrogateescape: it may be no UTF-8
  }
  putc('"', out);
}

static ssize_t read_proc(pid_t pid, const char *name, char *text, size_t bytes) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? -1 : read(fd, text, bytes - 1);
  if (fd >= 0)
    close(fd);
  if (got >= 0)
    text[got] = '\0';
  return got;
}

bool sample_stat(pid_t pid, stat_t *stat) {
  char text[1024];
  char *at = read_proc(pid, "stat", text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
  if (at == NULL)
    return false;
  *stat = (stat_t){.state = at[2]};
  at += 3;
  uint64_t ticks = 0;
  for (int field = 1; *at != '\0'; field++) {
    long long value = strtoll(at, &at, 10);
    if (field == FIELD_PARENT)
      stat->parent = (pid_t)value;
    else if (field == FIELD_USER || field == FIELD_USER + 1)
      ticks += (uint64_t)value;
    else if (field == FIELD_EXIT)
      stat->exit_status = (int)value;
    if (*at != ' ')
      break;
  }
  stat->cpu_ms = ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
  return true;
}

bool sample_is_same(const process_t *process) {
  char begun[sizeof process->begun];
  ssize_t got = read_proc(process->pid, "auxv", begun, sizeof begun);
  return got <= 0 || process->begun_bytes == 0 ||
         ((size_t)got == process->begun_bytes && memcmp(begun, process->begun, (size_t)got) == 0);
}

void sample_cpu(process_t *process) {
  char text[4096];
  stat_t stat;
  if (sample_stat(process->pid, &stat) && stat.cpu_ms > process->cpu_ms)
    process->cpu_ms = stat.cpu_ms;
  const char *peak = read_proc(process->pid, "status", text, sizeof text) > 0 ? strstr(text, "VmHWM:") : NULL;
  uint64_t kib = peak ? strtoull(peak + sizeof "VmHWM:" - 1, NULL, 10) : 0;
  uint64_t own_kib = process_own_kib(process);
  if (kib > own_kib && kib - own_kib > process->peak_kib)
    process->peak_kib = kib - own_kib;
}

void sample_flush(process_t *process) {
  if (process->samples == NULL)
    return;
  fputs("]", process->samples);
  static size_t all_bytes;
  bool good = fclose(process->samples) == 0;
  process->samples = NULL;
  process->sample_count = 0;
  all_bytes += process->samples_bytes;
  if (good && all_bytes > SAMPLES_BYTES)
    free(process->samples_text);
  else if (good)
    queue_put((item_t){.kind = ITEM_TEXT, .process = process, .sort = TRACE_RESIDENT, .text = process->samples_text});
}

// The interval doubles after every SAMPLES_TO_DOUBLE samples, so that even a long process has only some ten thousand.
static bool too_soon(process_t *process) {
  uint64_t now_ns = clock_now_ns();
  if (now_ns - process->sampled_ns < SAMPLE_NS << process->samples_all / SAMPLES_TO_DOUBLE)
    return true;
  process->sampled_ns = now_ns;
  process->samples_all++;
  return false;
}

void sample_resident(process_t *process) {
  char text[128];
  if (too_soon(process))
    return;
  if (process->statm < 0) {
    snprintf(text, sizeof text, "/proc/%d/statm", (int)process->pid);
    process->statm = open(text, O_RDONLY | O_CLOEXEC);
  }
  ssize_t got = process->statm < 0 ? -1 : pread(process->statm, text, sizeof text - 1, 0);
  if (got <= 0)
    return;
  text[got] = '\0';
  char *second = text;
  strtoull(text, &second, 10);
  uint64_t kib = strtoull(second, NULL, 10) * ((uint64_t)sysconf(_SC_PAGESIZE) >> 10);
  uint64_t own_kib = process_own_kib(process);
  if (kib <= own_kib)
    return;
  if (process->samples == NULL)
    process->samples = open_memstream(&process->samples_text, &process->samples_bytes);
  if (process->samples == NULL)
    return;
  fprintf(process->samples, "%s[%" PRIu64 ",%" PRIu64 "]", process->sample_count ? "," : "[",
          clock_ns_since(process->segment->origin), kib - own_kib);
  if (++process->sample_count == SAMPLES_A_CHUNK)
    sample_flush(process);
}

// Writes the command. After COMMANDS_BYTES of commands in all, later ones are cut, since a trace has limited room for
// text.
static void write_command(FILE *out, pid_t pid) {
  static char text[TEXT_BYTES];
  static size_t all_bytes;
  ssize_t got = read_proc(pid, "cmdline", text, all_bytes < COMMANDS_BYTES ? sizeof text : CUT_BYTES);
  all_bytes += got > 0 ? (size_t)got : 0;
  putc('[', out);
  for (ssize_t at = 0; at < got;) {
    size_t length = strlen(text + at);
    fputs(at ? ", " : "", out);
    json_string(out, text + at, length);
    at += (ssize_t)length + 1;
  }
  putc(']', out);
}

char *sample_describe(process_t *process, const segment_hello_t *hello, int64_t parent) {
  char *text = NULL, path[64], number[24] = "null";
  size_t bytes = 0;
  snprintf(path, sizeof path, "/proc/%d/exe", (int)process->pid);
  ssize_t length = readlink(path, process->executable, sizeof process->executable - 1);
  process->executable[length > 0 ? length : 0] = '\0';
  ssize_t got = read_proc(process->pid, "auxv", process->begun, sizeof process->begun);
  process->begun_bytes = got > 0 ? (size_t)got : 0;
  FILE *out = open_memstream(&text, &bytes);
  if (out == NULL)
    return NULL;
  if (parent >= 0)
    snprintf(number, sizeof number, "%" PRId64, parent);
  fprintf(out, "{\"pid\": %d, \"parent\": %s, \"forked\": %s, \"began_ns\": %" PRIu64 ", \"executable\": ",
          (int)process->pid, number, hello->fork ? "true" : "false", process->began_ns);
  json_string(out, process->executable, strlen(process->executable));
  fputs(", \"command\": ", out);
  write_command(out, process->pid);
  const char *file = strrchr(hello->allocator, '/') ? strrchr(hello->allocator, '/') + 1 : hello->allocator;
  fputs(", \"allocator\": ", out);
  if (strncmp(file, "libc.so", 7) == 0 || strncmp(file, "libc-", 5) == 0)
    fputs("null", out);
  else
    json_string(out, hello->allocator, strnlen(hello->allocator, sizeof hello->allocator));
  fputs("}", out);
  return fclose(out) == 0 ? text : NULL;
}
