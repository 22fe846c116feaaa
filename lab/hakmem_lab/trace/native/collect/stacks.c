// Finds the file of each place of a stack while the process still has it mapped. The files at its start are read before
// the process continues. The maps are read again when a place lies in no known file. A build id identifies a file.
#include "collect.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAKE_NS UINT64_C(50000000)
#define STACKS_BYTES (TRACE_TEXT_BYTES / 2)
enum { TAKE_MOST = 16384, HEAD_BYTES = 4096, NOTES_BYTES = 4096, FILES_MOST = 1000, PATH_BYTES = 1024, NO_FILE = -1 };

typedef struct {
  uint64_t start, end, offset;
  int file;
} range_t;

typedef struct stacks {
  uint32_t taken;
  uint64_t taken_ns;
  range_t *ranges; // sorted by address
  size_t range_count;
  char **files;
  size_t file_count, files_said;
} stacks_t;

static void write_build_id(FILE *out, const char *notes, size_t bytes) {
  for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= bytes;) {
    ElfW(Nhdr) note;
    memcpy(&note, notes + at, sizeof note);
    size_t text = at + sizeof note + ((note.n_namesz + (size_t)3) & ~(size_t)3);
    if (text > bytes || note.n_descsz > bytes - text)
      return;
    for (uint32_t i = 0; note.n_type == NT_GNU_BUILD_ID && i < note.n_descsz; i++)
      fprintf(out, "%02x", (unsigned char)notes[text + i]);
    if (note.n_type == NT_GNU_BUILD_ID)
      return;
    at = text + ((note.n_descsz + (size_t)3) & ~(size_t)3);
  }
}

static void write_file(FILE *out, pid_t pid, const char *path) {
  char head[HEAD_BYTES], notes[NOTES_BYTES], name[64 + PATH_BYTES];
  snprintf(name, sizeof name, "/proc/%d/root%s", (int)pid, path);
  fputs("[", out);
  json_string(out, path, strlen(path));
  fputs(",\"", out);
  int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  fd = fd < 0 ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : fd; // the process has ended
  const ElfW(Ehdr) *elf = (const void *)head;
  ssize_t got = fd < 0 ? -1 : pread(fd, head, sizeof head, 0);
  if (got >= (ssize_t)sizeof *elf && memcmp(head, ELFMAG, SELFMAG) == 0 && elf->e_phentsize == sizeof(ElfW(Phdr)))
    for (size_t i = 0, at = elf->e_phoff; i < elf->e_phnum && at + sizeof(ElfW(Phdr)) <= (size_t)got; i++) {
      ElfW(Phdr) header;
      memcpy(&header, head + at, sizeof header);
      at += sizeof header;
      ssize_t held = header.p_type == PT_NOTE ? pread(fd, notes, sizeof notes, (off_t)header.p_offset) : 0;
      size_t bytes = held > 0 && (uint64_t)held > header.p_filesz ? header.p_filesz : (size_t)(held > 0 ? held : 0);
      write_build_id(out, notes, bytes);
    }
  if (fd >= 0)
    close(fd);
  fputs("\"]", out);
}

static int file_of(stacks_t *stacks, const char *path) {
  if (path[0] != '/' || strlen(path) >= PATH_BYTES)
    return NO_FILE;
  for (size_t i = stacks->file_count; i-- > 0;)
    if (strcmp(stacks->files[i], path) == 0)
      return (int)i;
  if (stacks->file_count == FILES_MOST)
    return NO_FILE;
  char **grown = realloc(stacks->files, (stacks->file_count + 1) * sizeof *grown);
  char *copy = strdup(path);
  stacks->files = grown ? grown : stacks->files;
  if (grown == NULL || copy == NULL) {
    free(copy);
    return NO_FILE;
  }
  stacks->files[stacks->file_count] = copy;
  return (int)stacks->file_count++;
}

static void read_ranges(const process_t *process, stacks_t *stacks) {
  char path[64], *line = NULL;
  size_t room = 0, count = 0;
  snprintf(path, sizeof path, "/proc/%d/maps", (int)process->pid);
  FILE *file = fopen(path, "re");
  range_t *ranges = NULL;
  while (file != NULL && getline(&line, &room, file) > 0) {
    range_t range;
    char access[8];
    int at = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %n", &range.start, &range.end, access,
               &range.offset, &at) < 4 ||
        at == 0 || access[2] != 'x')
      continue;
    range_t *grown = realloc(ranges, (count + 1) * sizeof *grown);
    if (grown == NULL)
      break;
    line[strcspn(line, "\n")] = '\0';
    range.file = file_of(stacks, line + at);
    ranges = grown;
    ranges[count++] = range;
  }
  if (file != NULL)
    fclose(file);
  free(line);
  if (count == 0) // the process has ended
    return;
  free(stacks->ranges);
  stacks->ranges = ranges;
  stacks->range_count = count;
}

static const range_t *range_of(const stacks_t *stacks, uint64_t pc) {
  size_t low = 0, high = stacks->range_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (stacks->ranges[middle].end <= pc)
      low = middle + 1;
    else
      high = middle;
  }
  return low < stacks->range_count && stacks->ranges[low].start <= pc ? &stacks->ranges[low] : NULL;
}

void stacks_begin(process_t *process) {
  if (process->segment->stack_bytes == 0 || (process->stacks = calloc(1, sizeof *process->stacks)) == NULL)
    return;
  read_ranges(process, process->stacks);
}

// Describes nodes as [parent, file, offset in the file], or [parent, -1, address]. Files come before the nodes that use
// them.
static char *describe(process_t *process, uint32_t end) {
  stacks_t *stacks = process->stacks;
  char *nodes = NULL, *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&nodes, &bytes);
  bool looked = process->died_ns != 0;
  for (uint32_t number = stacks->taken + 1; out != NULL && number <= end; number++) {
    const segment_node_t *node = segment_node(process->segment, number);
    uint64_t pc = atomic_load_explicit(&node->pc, memory_order_acquire);
    const range_t *range = range_of(stacks, pc);
    if (range == NULL && !looked) {
      looked = true;
      read_ranges(process, stacks);
      range = range_of(stacks, pc);
    }
    int file = range != NULL ? range->file : NO_FILE;
    fprintf(out, "%s[%" PRIu64 ",%d,%" PRIu64 "]", number > stacks->taken + 1 ? "," : "",
            node->parent < number ? node->parent : 0, file, file == NO_FILE ? pc : pc - range->start + range->offset);
  }
  if (out == NULL || fclose(out) != 0 || (out = open_memstream(&text, &bytes)) == NULL) {
    free(nodes);
    return NULL;
  }
  fputs("{\"files\":[", out);
  for (const char *between = ""; stacks->files_said < stacks->file_count; between = ",") {
    fputs(between, out);
    write_file(out, process->pid, stacks->files[stacks->files_said++]);
  }
  fprintf(out, "],\"nodes\":[%s]}", nodes);
  free(nodes);
  return fclose(out) == 0 ? text : NULL;
}

static void forget(process_t *process) {
  for (size_t i = 0; i < process->stacks->file_count; i++)
    free(process->stacks->files[i]);
  free(process->stacks->files);
  free(process->stacks->ranges);
  free(process->stacks);
  process->stacks = NULL;
}

// Last node that can be taken. If the process ended while it added a node, the node stays empty.
static uint32_t there(const process_t *process, bool last) {
  uint32_t begun = atomic_load(&process->segment->nodes), number = process->stacks->taken;
  begun = begun < SEGMENT_NODES ? begun : SEGMENT_NODES;
  while (!last && number < begun &&
         atomic_load_explicit(&segment_node(process->segment, number + 1)->pc, memory_order_acquire) != 0)
    number++;
  return last ? begun : number;
}

void stacks_take(process_t *process, bool last) {
  static size_t all_bytes;
  stacks_t *stacks = process->stacks;
  uint64_t now_ns = clock_now_ns();
  if (stacks == NULL || (!last && now_ns - stacks->taken_ns < TAKE_NS))
    return;
  stacks->taken_ns = now_ns;
  for (uint32_t end = there(process, last); stacks->taken < end && all_bytes <= STACKS_BYTES;) {
    uint32_t until = end - stacks->taken < TAKE_MOST ? end : stacks->taken + TAKE_MOST;
    char *text = describe(process, until);
    // Touched pages of the segment: the nodes, and the places in the index; few nodes touch about a page of each.
    process->own_pages += (until - stacks->taken) * (sizeof(segment_node_t) + 2 * sizeof(uint32_t)) / 4096 + 1;
    stacks->taken = until;
    if (text == NULL) {
      failure_note(ENOMEM, "the stacks");
      break;
    }
    all_bytes += strlen(text);
    queue_put((item_t){.kind = ITEM_TEXT, .process = process, .sort = TRACE_STACKS, .text = text});
  }
  if (last)
    forget(process);
}
