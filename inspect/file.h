/* Duty: files, by system calls that are no cancellation points, without allocating: reading those of /proc, and writing
 * a file through a buffer, gzip's format included (stored blocks: nothing is made smaller, and no library is needed).
 * Data: the caller's. Layers below: base. Anything here may fail; errno may change. */
#pragma once

#include "base.h"

/* A descriptor, or the negative errno. */
int hak_file_open(const char *name);
int hak_file_create(const char *name);
void hak_file_close(int fd);
/* Bytes read, 0 at the end and on any error. */
size_t hak_file_read(int fd, void *to, size_t bytes);
/* All of `bytes` from a place in the file. */
bool hak_file_read_at(int fd, void *to, size_t bytes, size_t offset);

enum { HAK_SINK_BYTES = 16 << 10 };

typedef struct hak_sink {
  int fd;
  int error; /* the first; nothing is written any more */
  bool gzip;
  uint32_t crc, total; /* of what was put: for gzip */
  size_t used;
  unsigned char *buffer; /* HAK_SINK_BYTES */
} hak_sink_t;

hak_sink_t hak_sink_on(int fd, bool gzip, unsigned char buffer[HAK_SINK_BYTES]);
void hak_sink_put(hak_sink_t *sink, const void *bytes, size_t count);
/* Writes what is left. 0, or the first error's errno. The descriptor stays open. */
int hak_sink_end(hak_sink_t *sink);
