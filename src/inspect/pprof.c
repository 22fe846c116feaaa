/* Writes profiles for pprof. profile.c calls it. */
#include "pprof.h"

#include "hakmem.h"
#include "images.h"
#include "modules.h"
#include "sites.h"

#include <errno.h>
#include <string.h>

/* Field numbers of pprof's profile.proto. */
enum { PROFILE_SAMPLE_TYPE = 1, PROFILE_SAMPLE, PROFILE_MAPPING, PROFILE_LOCATION, PROFILE_FUNCTION, PROFILE_STRING };
enum { PROFILE_DROP_FRAMES = 7, PROFILE_TIME = 9, PROFILE_DURATION, PROFILE_PERIOD_TYPE, PROFILE_PERIOD };
enum { PROFILE_COMMENT = 13, PROFILE_DEFAULT_TYPE };
enum { TYPE_NAME = 1, TYPE_UNIT };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE, SAMPLE_LABEL, LABEL_KEY = 1, LABEL_STRING };
enum { MAPPING_ID = 1, MAPPING_START, MAPPING_LIMIT, MAPPING_OFFSET, MAPPING_FILE, MAPPING_BUILD_ID };
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE, LINE_FUNCTION = 1 };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYSTEM_NAME };
enum { WIRE_NUMBER = 0, WIRE_BYTES = 2 };

/* Strings are numbered in the order of writing; these come first. */
#define EACH_STRING(STRING) \
  STRING(NONE, ""), STRING(ALLOC_OBJECTS, "alloc_objects"), STRING(COUNT, "count"), \
      STRING(ALLOC_SPACE, "alloc_space"), STRING(BYTES, "bytes"), STRING(INUSE_OBJECTS, "inuse_objects"), \
      STRING(INUSE_SPACE, "inuse_space"), STRING(RESIDENT, "resident_space"), STRING(SPACE, "space"), \
      STRING(REGION, "region")
#define NUMBER(name, text) S_##name
#define TEXT(name, text) text
enum { EACH_STRING(NUMBER), STRINGS };
static const char *const strings[STRINGS] = {EACH_STRING(TEXT)};
enum { VALUES = 5, NUMBER_MOST = 10 };
/* A sample is the longest message: its locations and values, each list after its length. */
enum { MESSAGE_BYTES = (HAK_SITE_FRAMES_MAX + VALUES + 8) * NUMBER_MOST };

/* If the library is linked into the program, stacks contain its own frames. This pattern lets tools drop them. */
static const char own_frames[] = "hak_.*|malloc|calloc|realloc|reallocarray|aligned_alloc|memalign|posix_memalign|"
                                 "valloc|pvalloc|operator new.*|_Zn[wa].*";

typedef struct message {
  size_t length;
  unsigned char bytes[MESSAGE_BYTES];
} message_t;

typedef struct writer {
  hak_sink_t *sink;
  uint64_t strings; /* number of strings so far */
  message_t *parts; /* three parts of a sample; not on the stack, since a signal's stack may be small */
} writer_t;

static void put_varint(message_t *message, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    message->bytes[message->length++] = (unsigned char)(value | 0x80);
  }
  message->bytes[message->length++] = (unsigned char)value;
}

static void put_number(message_t *message, unsigned field, uint64_t value) {
  put_varint(message, field << 3 | WIRE_NUMBER);
  put_varint(message, value);
}

static void put_message(message_t *message, unsigned field, const message_t *inner) {
  put_varint(message, field << 3 | WIRE_BYTES);
  put_varint(message, inner->length);
  memcpy(message->bytes + message->length, inner->bytes, inner->length);
  message->length += inner->length;
}

static void write_bytes(writer_t *writer, unsigned field, const void *bytes, size_t length) {
  message_t head = {0};
  put_varint(&head, field << 3 | WIRE_BYTES);
  put_varint(&head, length);
  hak_file_sink_put(writer->sink, head.bytes, head.length);
  hak_file_sink_put(writer->sink, bytes, length);
}

static void write_message(writer_t *writer, unsigned field, const message_t *message) {
  write_bytes(writer, field, message->bytes, message->length);
}

static void write_number(writer_t *writer, unsigned field, uint64_t value) {
  message_t message = {0};
  put_number(&message, field, value);
  hak_file_sink_put(writer->sink, message.bytes, message.length);
}

/* Returns the string's number. */
static uint64_t write_string(writer_t *writer, const char *string) {
  write_bytes(writer, PROFILE_STRING, string, strlen(string));
  return writer->strings++;
}

static void write_type(writer_t *writer, unsigned field, uint64_t name, uint64_t unit) {
  message_t type = {0};
  put_number(&type, TYPE_NAME, name);
  put_number(&type, TYPE_UNIT, unit);
  write_message(writer, field, &type);
}

static void write_mapping(writer_t *writer, size_t i) {
  const hak_mapping_t *image = &hak_images->image[i];
  unsigned char id[HAK_BUILD_ID_MAX];
  char digits[2 * HAK_BUILD_ID_MAX + 1];
  hak_text_t text = hak_text_on(digits, sizeof digits);
  size_t length = hak_images_build_id(image->name, id);
  for (size_t at = 0; at < length; at++) {
    hak_text_put(&text, "%zx%zx", (size_t)id[at] >> 4, (size_t)id[at] & 15);
  }
  message_t mapping = {0};
  put_number(&mapping, MAPPING_ID, i + 1);
  put_number(&mapping, MAPPING_START, image->start);
  put_number(&mapping, MAPPING_LIMIT, image->end);
  put_number(&mapping, MAPPING_OFFSET, image->offset);
  put_number(&mapping, MAPPING_FILE, write_string(writer, image->name));
  put_number(&mapping, MAPPING_BUILD_ID, write_string(writer, digits));
  write_message(writer, PROFILE_MAPPING, &mapping);
}

/* Write the location of a frame: the instruction before the return address, which lies in the caller's line. */
static void write_location(writer_t *writer, size_t frame) {
  uintptr_t address = hak_site_frame_pc(frame) - 1;
  size_t image = hak_images_find(address);
  message_t location = {0};
  put_number(&location, LOCATION_ID, frame + 1);
  if (image < hak_images_count()) {
    put_number(&location, LOCATION_MAPPING, image + 1);
  }
  put_number(&location, LOCATION_ADDRESS, address);
  write_message(writer, PROFILE_LOCATION, &location);
}

/* Write a function and a location for a row without code. Functions are numbered from 1 without gaps, since readers
 * continue the numbers for inlined ones. */
static void write_row(writer_t *writer, uint64_t function_id, uint64_t location_id, const char *name) {
  uint64_t string = write_string(writer, name);
  message_t function = {0}, line = {0}, location = {0};
  put_number(&function, FUNCTION_ID, function_id);
  put_number(&function, FUNCTION_NAME, string);
  put_number(&function, FUNCTION_SYSTEM_NAME, string);
  write_message(writer, PROFILE_FUNCTION, &function);
  put_number(&line, LINE_FUNCTION, function_id);
  put_number(&location, LOCATION_ID, location_id);
  put_message(&location, LOCATION_LINE, &line);
  write_message(writer, PROFILE_LOCATION, &location);
}

/* `frames`: the numbers of the stack's frames. */
static void write_sample(writer_t *writer, const uint32_t *frames, size_t count, const double values[VALUES],
                         const hak_site_label_t *label) {
  message_t *locations = &writer->parts[0], *numbers = &writer->parts[1], *sample = &writer->parts[2];
  locations->length = numbers->length = sample->length = 0;
  for (size_t i = 0; i < count; i++) {
    put_varint(locations, (uint64_t)frames[i] + 1);
  }
  for (size_t i = 0; i < VALUES; i++) {
    put_varint(numbers, hak_pprof_rounded(values[i]));
  }
  put_message(sample, SAMPLE_LOCATION, locations);
  put_message(sample, SAMPLE_VALUE, numbers);
  if (label) {
    numbers->length = 0;
    put_number(numbers, LABEL_KEY, S_REGION);
    put_number(numbers, LABEL_STRING, label->string);
    put_message(sample, SAMPLE_LABEL, numbers);
  }
  write_message(writer, PROFILE_SAMPLE, sample);
}

static void write_head(writer_t *writer, const hak_profile_facts_t *facts) {
  for (size_t i = 0; i < STRINGS; i++) {
    write_string(writer, strings[i]);
  }
  write_type(writer, PROFILE_SAMPLE_TYPE, S_ALLOC_OBJECTS, S_COUNT);
  write_type(writer, PROFILE_SAMPLE_TYPE, S_ALLOC_SPACE, S_BYTES);
  write_type(writer, PROFILE_SAMPLE_TYPE, S_INUSE_OBJECTS, S_COUNT);
  write_type(writer, PROFILE_SAMPLE_TYPE, S_INUSE_SPACE, S_BYTES);
  write_type(writer, PROFILE_SAMPLE_TYPE, S_RESIDENT, S_BYTES);
  write_type(writer, PROFILE_PERIOD_TYPE, S_SPACE, S_BYTES);
  write_number(writer, PROFILE_PERIOD, facts->mean_bytes);
  write_number(writer, PROFILE_TIME, facts->time_ns);
  write_number(writer, PROFILE_DURATION, facts->duration_ns);
  write_number(writer, PROFILE_DEFAULT_TYPE, S_INUSE_SPACE);
  if (!hak_modules_is_mine((uintptr_t)&hak_pprof_write)) {
    write_number(writer, PROFILE_DROP_FRAMES, write_string(writer, own_frames));
  }
  char line[160];
  hak_text_t text = hak_text_on(line, sizeof line);
  hak_text_put(&text, "hakmem %zu; written: %s; samples taken: %zu, live: %zu, dropped: %zu", (size_t)HAKMEM_VERSION,
               facts->why, facts->taken, facts->live, facts->dropped);
  write_number(writer, PROFILE_COMMENT, write_string(writer, line));
  size_t inherited = hak_pprof_rounded(hak_sites_inherited());
  if (inherited > 0) {
    text = hak_text_on(line, sizeof line);
    hak_text_put(&text, "inherited over fork: %zu bytes of those in use", inherited);
    write_number(writer, PROFILE_COMMENT, write_string(writer, line));
  }
}

void hak_pprof_write(hak_sink_t *sink, const hak_profile_facts_t *facts) {
  static message_t *parts;
  parts = parts ? parts : hak_meta_alloc(3 * sizeof *parts);
  if (!parts) {
    sink->error = ENOMEM;
    return;
  }
  writer_t writer = {sink, 0, parts};
  hak_site_t *latest = hak_site_next(NULL);
  size_t frames = hak_site_frames_count();
  write_head(&writer, facts);
  for (hak_site_label_t *label = NULL; (label = hak_site_label_next(label));) {
    label->string = write_string(&writer, label->name);
  }
  for (size_t i = 0; i < hak_images_count(); i++) {
    write_mapping(&writer, i);
  }
  for (size_t i = 0; i < frames; i++) {
    write_location(&writer, i);
  }
  for (uint32_t row = 0; row <= HAK_RESIDENT_ROWS; row++) {
    uint32_t frame = (uint32_t)frames + row;
    bool told = row < HAK_RESIDENT_ROWS;
    const double values[VALUES] = {0, 0, 0, 0, told ? facts->resident.row[row] : 0};
    write_row(&writer, row + 1, frame + 1, told ? hak_resident_names[row] : HAK_SITE_UNKNOWN);
    if (hak_pprof_rounded(values[VALUES - 1]) > 0) {
      write_sample(&writer, &frame, 1, values, NULL);
    }
  }
  for (const hak_site_t *site = latest; site; site = site->older) {
    uint32_t unknown = (uint32_t)frames + HAK_RESIDENT_ROWS;
    hak_site_counts_t n = hak_site_counts(site);
    const double values[VALUES] = {n.objects, n.bytes, n.in_use_objects, n.in_use_bytes, site->resident_bytes};
    bool known = site->frame_count > 0;
    if (n.bytes > 0 || n.in_use_bytes > 0) {
      write_sample(&writer, known ? site->frame : &unknown, known ? site->frame_count : 1, values, site->label);
    }
  }
}
