/* Files without allocation: a file holds exactly the bytes that were put, also as gzip. The first error is reported. */
#include "inspect/file.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "prng.h"
#include "system.h"

enum { BYTES_MOST = 200000 };

static unsigned char buffer[HAK_SINK_BYTES], given[BYTES_MOST], found[BYTES_MOST + 1024];
static char name[] = "/tmp/hak-file-XXXXXX";

static size_t file_bytes(void) {
  FILE *file = fopen(name, "r");
  CHECK(file);
  size_t length = fread(found, 1, sizeof found, file);
  CHECK(fclose(file) == 0);
  return length;
}

static void write_in_pieces(bool gzip, size_t bytes, size_t piece) {
  int fd = hak_file_create(name);
  CHECK(fd >= 0);
  hak_sink_t sink = hak_file_sink_on(fd, gzip, buffer);
  for (size_t at = 0; at < bytes; at += piece) {
    hak_file_sink_put(&sink, given + at, piece < bytes - at ? piece : bytes - at);
  }
  CHECK(hak_file_sink_end(&sink) == 0);
  hak_file_close(fd);
}

static const size_t sizes[] = {0,
                               1,
                               HAK_SINK_BYTES - 6,
                               HAK_SINK_BYTES - 5,
                               HAK_SINK_BYTES - 4,
                               HAK_SINK_BYTES,
                               HAK_SINK_BYTES + 1,
                               3 * HAK_SINK_BYTES,
                               BYTES_MOST};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void a_file_holds_what_was_put(void) {
  for (size_t i = 0; i < SIZES; i++) {
    for (size_t piece = 1; piece < BYTES_MOST; piece *= 57) {
      write_in_pieces(false, sizes[i], piece);
      CHECK(file_bytes() == sizes[i] && memcmp(found, given, sizes[i]) == 0);
    }
  }
}

static uint32_t little_endian(const unsigned char *at, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes; i++) {
    value |= (uint32_t)at[i] << 8 * i;
  }
  return value;
}

/* The CRC, one bit at a time, from its definition. */
static uint32_t crc_of(size_t bytes) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < bytes; i++) {
    crc ^= given[i];
    for (int bit = 0; bit < 8; bit++) {
      crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
  }
  return ~crc;
}

static void gzip_has_stored_blocks_and_a_checksum(void) {
  for (size_t i = 0; i < SIZES; i++) {
    write_in_pieces(true, sizes[i], 1000);
    size_t length = file_bytes(), at = 10, bytes = 0;
    CHECK(length >= 10 && memcmp(found, "\x1f\x8b\x08\0\0\0\0\0\0\xff", 10) == 0);
    for (bool last = false; !last;) {
      CHECK(at + 5 <= length && found[at] <= 1);
      last = found[at] == 1;
      uint32_t block = little_endian(found + at + 1, 2);
      CHECK((block ^ little_endian(found + at + 3, 2)) == UINT16_MAX);
      CHECK(at + 5 + block <= length && memcmp(found + at + 5, given + bytes, block) == 0);
      at += 5 + block;
      bytes += block;
    }
    CHECK(bytes == sizes[i] && at + 8 == length);
    CHECK(little_endian(found + at, 4) == crc_of(bytes) && little_endian(found + at + 4, 4) == bytes);
  }
}

static void the_checksum_is_that_of_the_standard(void) {
  for (size_t i = 0; i < 9; i++) {
    given[i] = (unsigned char)('1' + i);
  }
  write_in_pieces(true, 9, 4);
  size_t length = file_bytes();
  CHECK(little_endian(found + length - 8, 4) == 0xcbf43926);
}

static void an_interrupted_write_goes_on(void) {
  int fd = hak_file_create(name);
  hak_sink_t sink = hak_file_sink_on(fd, false, buffer);
  system_refuse(SYSTEM_WRITE, 0, 3);
  hak_file_sink_put(&sink, given, 1000);
  CHECK(hak_file_sink_end(&sink) == 0);
  system_allow();
  hak_file_close(fd);
  CHECK(file_bytes() == 1000);
}

static void the_first_error_is_told(void) {
  int fd = hak_file_create("/dev/full");
  CHECK(fd >= 0);
  hak_sink_t sink = hak_file_sink_on(fd, true, buffer);
  for (int i = 0; i < 10; i++) {
    hak_file_sink_put(&sink, given, BYTES_MOST);
  }
  CHECK(hak_file_sink_end(&sink) == ENOSPC);
  hak_file_close(fd);
  CHECK(hak_file_create("/no/such/folder/file") == -ENOENT && hak_file_open("/no/such/file") == -ENOENT);
  CHECK(!hak_file_read_at(-1, found, 10, 0));
}

static void a_part_of_a_file_is_read_whole_or_not(void) {
  write_in_pieces(false, 100, 100);
  int fd = hak_file_open(name);
  CHECK(hak_file_read_at(fd, found, 20, 70) && memcmp(found, given + 70, 20) == 0);
  CHECK(!hak_file_read_at(fd, found, 20, 90));
  hak_file_close(fd);
}

int main(void) {
  int fd = mkstemp(name);
  CHECK(fd >= 0 && close(fd) == 0);
  Prng prng = prng_seeded(3);
  for (size_t i = 0; i < BYTES_MOST; i++) {
    given[i] = (unsigned char)prng_next(&prng);
  }
  a_file_holds_what_was_put();
  gzip_has_stored_blocks_and_a_checksum();
  the_checksum_is_that_of_the_standard();
  an_interrupted_write_goes_on();
  the_first_error_is_told();
  a_part_of_a_file_is_read_whole_or_not();
  CHECK(unlink(name) == 0);
  return 0;
}
