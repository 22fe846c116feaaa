/* write_trace FILE: writes the trace that a script on standard input describes:
 *   o PROCESS THREAD KIND SIZE SLOT OTHER TIME    an operation, all as numbers
 *   t KIND PROCESS TEXT                           a chunk of text
 *   f                                             flush
 *   p PROCESS                                     the end of a process
 *   e COMPLETE TEXT                               the end; without this line, the trace has no end
 * A refused line is reported on standard output: its number and the name of the error. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/write.h"

static const char *text_of(const char *line, int words) {
  for (; words > 0 && *line; words--) {
    line += strcspn(line, " ");
    line += strspn(line, " ");
  }
  return line;
}

static int run(trace_writer_t *writer, const char *line) {
  unsigned first, second, kind;
  trace_operation_t operation = {0};
  const char *format = "o %u %u %u %" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu64;
  if (sscanf(line, format, &first, &second, &kind, &operation.size, &operation.slot, &operation.other,
             &operation.time_ns) == 7) {
    operation.kind = (uint8_t)kind;
    return trace_write_operation(writer, first, second, &operation);
  }
  if (sscanf(line, "t %u %u ", &kind, &first) == 2) {
    const char *text = text_of(line, 3);
    return trace_write_text(writer, (trace_chunk_kind_t)kind, first, text, strlen(text));
  }
  if (sscanf(line, "p %u", &first) == 1) {
    return trace_write_process_end(writer, first);
  }
  if (strcmp(line, "f") == 0) {
    return trace_write_flush(writer);
  }
  fprintf(stderr, "write_trace: what is '%s'?\n", line);
  exit(2);
}

int main(int argc, char **argv) {
  signal(SIGXFSZ, SIG_IGN); // tests simulate a full disk by a limit on the file size
  int fd = argc == 2 ? open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
  trace_writer_t *writer = fd < 0 ? NULL : trace_writer_open(fd);
  if (writer == NULL) {
    perror("write_trace");
    return 2;
  }
  char *line = NULL;
  size_t room = 0;
  for (long number = 1; getline(&line, &room, stdin) > 0; number++) {
    line[strcspn(line, "\n")] = '\0';
    int result;
    if (line[0] == 'e') {
      const char *text = text_of(line, 2);
      result = trace_writer_close(writer, line[2] == '1', text, strlen(text));
      writer = NULL;
    } else {
      result = run(writer, line);
    }
    if (result != 0) {
      printf("%ld %s\n", number, strerrorname_np(errno));
    }
  }
  free(line);
  if (writer != NULL && trace_write_flush(writer) != 0) {
    printf("0 %s\n", strerrorname_np(errno));
  }
  fflush(stdout);
  _exit(0); // without closing, as if the program was killed; not reported as a leak
}
