/* File access by system calls, without allocating, for profiles. */
#include "file.h"

#include "system/system.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  GZIP_HEADER_BYTES = 10,
  STORED_HEADER_BYTES = 5, /* header of an uncompressed deflate block */
  NEW_FILE_MODE = 0644,
};
_Static_assert(HAK_SINK_BYTES - STORED_HEADER_BYTES <= UINT16_MAX, "a stored block's length has 16 bits");

static int open_at(const char *name, int flags) {
  long fd;
  do {
    fd = hak_direct(SYS_openat, AT_FDCWD, (long)name, flags | O_CLOEXEC | O_NOCTTY, NEW_FILE_MODE);
  } while (fd == -EINTR);
  return (int)fd;
}

int hak_file_open(const char *name) {
  return open_at(name, O_RDONLY);
}

int hak_file_create(const char *name) {
  return open_at(name, O_WRONLY | O_CREAT | O_TRUNC);
}

void hak_file_close(int fd) {
  hak_direct(SYS_close, fd);
}

bool hak_file_read_at(int fd, void *to, size_t bytes, size_t offset) {
  return hak_direct(SYS_pread64, fd, (long)to, (long)bytes, (long)offset) == (long)bytes;
}

static void write_all(hak_sink_t *sink, const void *bytes, size_t count) {
  sink->error = sink->error ? sink->error : hak_os_write(sink->fd, bytes, count);
}

static void put_little_endian(unsigned char *to, uint32_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    to[i] = (unsigned char)(value >> 8 * i);
  }
}

/* The CRC-32 of gzip (reflected polynomial), four bits at a time. */
static uint32_t crc_of(uint32_t crc, const unsigned char *bytes, size_t count) {
  static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                     0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                     0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
  crc = ~crc;
  for (size_t i = 0; i < count; i++) {
    crc ^= bytes[i];
    crc = crc >> 4 ^ table[crc & 15];
    crc = crc >> 4 ^ table[crc & 15];
  }
  return ~crc;
}

static size_t header_bytes(const hak_sink_t *sink) {
  return sink->gzip ? STORED_HEADER_BYTES : 0;
}

static void flush(hak_sink_t *sink, bool last) {
  size_t header = header_bytes(sink);
  if (sink->gzip) {
    uint32_t length = (uint32_t)(sink->used - header);
    sink->buffer[0] = last;
    put_little_endian(sink->buffer + 1, length, 2);
    put_little_endian(sink->buffer + 3, ~length, 2);
  }
  write_all(sink, sink->buffer, sink->used);
  sink->used = header;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the sink writes there */
hak_sink_t hak_file_sink_on(int fd, bool gzip, unsigned char buffer[HAK_SINK_BYTES]) {
  hak_sink_t sink = {.fd = fd, .gzip = gzip, .buffer = buffer};
  if (gzip) {
    static const unsigned char header[GZIP_HEADER_BYTES] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff};
    write_all(&sink, header, sizeof header);
  }
  sink.used = header_bytes(&sink);
  return sink;
}

void hak_file_sink_put(hak_sink_t *sink, const void *bytes, size_t count) {
  const unsigned char *from = bytes;
  if (sink->gzip) {
    sink->crc = crc_of(sink->crc, from, count);
    sink->total += (uint32_t)count;
  }
  while (count > 0) {
    size_t room = HAK_SINK_BYTES - sink->used, n = count < room ? count : room;
    memcpy(sink->buffer + sink->used, from, n);
    sink->used += n;
    from += n;
    count -= n;
    if (sink->used == HAK_SINK_BYTES) {
      flush(sink, false);
    }
  }
}

int hak_file_sink_end(hak_sink_t *sink) {
  flush(sink, true);
  if (sink->gzip) {
    unsigned char trailer[8];
    put_little_endian(trailer, sink->crc, 4);
    put_little_endian(trailer + 4, sink->total, 4);
    write_all(sink, trailer, sizeof trailer);
  }
  return sink->error;
}
