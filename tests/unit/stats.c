/* The statistics: sums that must hold, both formats, and the reports at exit. */
#include "inspect/stats.h"

#include <string.h>
#include <sys/wait.h>

#include "blocks/blocks.h"
#include "blocks/slab.h"
#include "check.h"
#include "child.h"
#include "hakmem.h"
#include "json.h"
#include "setting.h"
#include "threads/heap.h"

enum { BLOCKS = 5000, TEXT_BYTES = 1 << 15 };

static void *blocks[BLOCKS];
static size_t live_of_class[HAK_BIN_COUNT];

/* In a program with one thread, every block is live, cached or free; none is between two states. */
static void sums_hold(void) {
  hak_stats_t stats;
  hak_slab_totals_t slabs[HAK_BIN_COUNT];
  size_t live_bytes = 0, cached_bytes = 0, free_bytes = 0, rounding_bytes = 0, used_slices = 0;
  hak_stats_read(&stats);
  hak_stats_slabs(slabs);
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    const hak_class_stats_t *class = &stats.classes[cls];
    CHECK(class->block_bytes == hak_class_sizes[cls] && class->slabs == slabs[cls].slabs);
    CHECK(class->live_blocks == live_of_class[cls]);
    bool is_run = hak_class_is_run(cls);
    size_t all = is_run ? hak_arena_runs(cls) : slabs[cls].bump_blocks;
    CHECK(class->live_blocks + class->cached_blocks + class->free_blocks == all);
    CHECK(!is_run || (class->slabs == 0 && class->free_blocks == 0));
    CHECK(class->rounding_bytes <= class->live_blocks * class->block_bytes);
    live_bytes += class->live_blocks * class->block_bytes;
    cached_bytes += class->cached_blocks * class->block_bytes;
    free_bytes += class->free_blocks * class->block_bytes;
    rounding_bytes += class->rounding_bytes;
    used_slices += is_run ? hak_arena_runs(cls) * hak_slices_for(class->block_bytes) : class->slabs * HAK_SLAB_SLICES;
  }
  CHECK(stats.live_bytes == live_bytes && stats.cached_bytes == cached_bytes && stats.free_bytes == free_bytes);
  CHECK(stats.rounding_bytes == rounding_bytes);
  used_slices += slabs[HAK_CLASS_MIXED].slabs * HAK_SLAB_SLICES;
  CHECK(stats.arena.used_slices == used_slices + hak_slices_for(stats.huge_bytes));
  CHECK(stats.arena.used_slices + stats.arena.dirty_slices <= stats.arena.mapped_slices);
  CHECK(stats.arena.mapped_slices == stats.arena.mapped_ever - stats.arena.unmapped_ever);
  CHECK(stats.meta_bytes > 0 && stats.threads == 1 && stats.os.mmap > 0);
}

/* Every 50th is a run. */
static size_t bytes_of(size_t i) {
  return i % 50 == 0 ? HAK_SMALL_MAX + 1 + i * 200 : 1 + i % 2000;
}

static void alloc_each(void) {
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(bytes_of(i));
    CHECK(blocks[i] != NULL);
    live_of_class[hak_class_of(bytes_of(i))]++;
  }
}

static void free_each(size_t step) {
  for (size_t i = 0; i < BLOCKS; i += step) {
    live_of_class[hak_class_of(bytes_of(i))] -= blocks[i] != NULL;
    hak_free(blocks[i]);
    blocks[i] = NULL;
  }
}

static void every_block_is_somewhere(void) {
  hak_free(hak_malloc(1));
  sums_hold();
  alloc_each();
  sums_hold();
  free_each(3);
  sums_hold();
  hak_thread_flush();
  sums_hold();
  free_each(1);
  sums_hold();
  CHECK(hak_trim(0));
  sums_hold();
}

static void huge_blocks_count(void) {
  hak_stats_t before, after;
  hak_stats_read(&before);
  void *block = hak_malloc(5000000);
  hak_stats_read(&after);
  CHECK(after.huge_blocks == before.huge_blocks + 1);
  CHECK(after.huge_bytes - before.huge_bytes == hak_malloc_usable_size(block));
  CHECK(after.live_bytes == before.live_bytes);
  hak_free(block);
  hak_stats_read(&after);
  CHECK(after.huge_blocks == before.huge_blocks && after.huge_bytes == before.huge_bytes);
}

static void json_is_cut_where_the_buffer_ends(void) {
  static char whole[TEXT_BYTES], cut[TEXT_BYTES];
  size_t length = hak_stats_json(whole, sizeof whole);
  JsonReport report = json_validate(whole);
  CHECK(length == strlen(whole) && report.valid && report.negative_numbers == 0);
  CHECK(hak_stats_json(NULL, 0) == length);
  for (size_t capacity = 1; capacity <= length + 1; capacity += capacity < 40 || capacity + 40 > length ? 1 : 37) {
    cut[capacity] = '#';
    CHECK(hak_stats_json(cut, capacity) == length);
    CHECK(strlen(cut) == capacity - 1 && memcmp(cut, whole, capacity - 1) == 0 && cut[capacity] == '#');
    CHECK(json_validate(cut).valid == (capacity > length));
  }
}

/* Finds `name`, and returns the number behind it. */
static uint64_t number_after(const char *text, const char *name) {
  const char *at = strstr(text, name);
  CHECK(at != NULL);
  return strtoull(at + strlen(name), NULL, 10);
}

static void text_and_json_agree(void) {
  static char json[TEXT_BYTES], text[TEXT_BYTES];
  void *block = hak_malloc(3000000);
  CHECK(block != NULL);
  hak_stats_json(json, sizeof json);
  FILE *file = fmemopen(text, sizeof text, "w");
  CHECK(file != NULL);
  hak_stats_print(file);
  CHECK(fclose(file) == 0);
  CHECK(number_after(json, "\"version\":") == HAKMEM_VERSION);
  CHECK(number_after(json, "\"large_live_blocks\":") == number_after(text, "large_live_blocks"));
  CHECK(number_after(json, "\"live_bytes\":") == number_after(text, "\nlive_bytes"));
  CHECK(number_after(json, "\"used_bytes\":") == number_after(text, "used_bytes"));
  CHECK(number_after(json, "\"munmap\":") == number_after(text, "munmap"));
  CHECK(number_after(json, "\"large_live_blocks\":") == 1 && number_after(json, "\"large_live_bytes\":") >= 3000000);
  CHECK(number_after(json, "\"retain_target_bytes\":") == number_after(text, "retain_target_bytes"));
  static const char *const waits[] = {"below_1us", "below_10us", "below_100us", "below_1ms", "below_10ms", "longer"};
  CHECK(strstr(json, "\"lock_waits\":{") != NULL);
  for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
    char key[32];
    snprintf(key, sizeof key, "\"%s\":", waits[i]);
    CHECK(number_after(json, key) == number_after(text, waits[i]));
  }
  hak_free(block);
}

/* The text must not be cut off even if every class is in use. */
static void text_has_a_row_for_every_class(void) {
  static char text[TEXT_BYTES];
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    CHECK(hak_malloc(hak_class_sizes[cls]) != NULL);
  }
  FILE *file = fmemopen(text, sizeof text, "w");
  CHECK(file != NULL);
  hak_stats_print(file);
  CHECK(fclose(file) == 0);
  const char *at = strstr(text, "\nclass");
  size_t rows = 0;
  CHECK(at != NULL);
  for (at = strchr(at + 1, '\n') + 1; *at != '\0'; at = strchr(at, '\n') + 1) {
    CHECK(strtoul(at, NULL, 10) == hak_class_sizes[++rows]);
  }
  CHECK(rows == HAK_CLASS_COUNT - 1);
}

static void print_nothing(void) {
  hak_stats_at_exit(false);
}

static void print_both(void) {
  set_variable("HAKMEM_STATS=1");
  set_variable("HAKMEM_SS_OS_STATS=1");
  hak_free(hak_malloc(100));
}

static void the_exit_prints_what_was_asked_for(void) {
  ChildResult result;
  child_run(print_nothing, &result);
  CHECK(result.status == 0 && result.errors[0] == '\0');
  child_run(print_both, &result);
  CHECK(result.status == 0 && strncmp(result.errors, "hakmem statistics", 17) == 0);
  const char *line = strstr(result.errors, "\n[SS_OS_STATS] alloc=");
  CHECK(line != NULL && strchr(line + 1, '\n')[1] == '\0');
  static const char *const names[] = {
      " alloc=", " free=", " madvise=", " mmap_total=", " munmap=", " mprotect=", " mremap=", " failed="};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    CHECK(strstr(line, names[i]) != NULL);
  }
  CHECK(number_after(line, " alloc=") == 1 && number_after(line, " mmap_total=") >= 1);
}

int main(void) {
  child_succeeds(every_block_is_somewhere);
  child_succeeds(huge_blocks_count);
  child_succeeds(json_is_cut_where_the_buffer_ends);
  child_succeeds(text_and_json_agree);
  child_succeeds(text_has_a_row_for_every_class);
  the_exit_prints_what_was_asked_for();
  return 0;
}
