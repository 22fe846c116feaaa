/* Duty: file access without allocation, by system calls that are no cancellation points. The writer fills a file
 * through a buffer, optionally as gzip (stored blocks, without compression or a library). Data: the caller's. Layers
 * below: base. Any call may fail; errno may change. */
#pragma once

#include "base/base.h"

/* Returns a descriptor, or the negative errno. */
int hak_file_open(const char *name);
int hak_file_create(const char *name);
void hak_file_close(int fd);
/* Read all of `bytes` from an offset in the file. */
bool hak_file_read_at(int fd, void *to, size_t bytes, size_t offset);

enum { HAK_SINK_BYTES = 16 << 10 };

typedef struct hak_sink {
  int fd;
  int error; /* the first error; writing stops there */
  bool gzip;
  uint32_t crc, total; /* CRC and length of the content, for gzip */
  size_t used;
  unsigned char *buffer; /* HAK_SINK_BYTES */
} hak_sink_t;

hak_sink_t hak_file_sink_on(int fd, bool gzip, unsigned char buffer[HAK_SINK_BYTES]);
void hak_file_sink_put(hak_sink_t *sink, const void *bytes, size_t count);
/* Write the rest of the buffer. Returns 0, or the errno of the first error. The descriptor stays open. */
int hak_file_sink_end(hak_sink_t *sink);
