/* Regions in the statistics: a row for each name, in JSON, OpenMetrics and text; what names may hold; how many. */
#include "check.h"
#include "hakmem.h"
#include "json.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 1 << 20, MANY = 10000, ROWS = 256 };
static char text[TEXT_BYTES];
static hak_region_t *regions[MANY];

static const char *json(void) {
  CHECK(hak_stats_json(text, sizeof text) == strlen(text));
  JsonReport report = json_validate(text);
  CHECK(report.valid && report.negative_numbers == 0);
  return text;
}

static const char *metrics(void) {
  size_t length = hak_stats_openmetrics(text, sizeof text);
  CHECK(length == strlen(text) && length < sizeof text && strcmp(text + length - 6, "# EOF\n") == 0);
  return text;
}

/* The number behind the first `what` that follows `where`. */
static size_t number(const char *from, const char *where, const char *what) {
  const char *at = strstr(from, where);
  CHECK(at != NULL && (at = strstr(at, what)) != NULL);
  return (size_t)strtoull(at + strlen(what), NULL, 10);
}

static size_t count(const char *from, const char *what) {
  size_t found = 0;
  while ((from = strstr(from, what)) != NULL) {
    from += strlen(what);
    found++;
  }
  return found;
}

static hak_region_t *region_of(const char *name, hak_region_t *parent, size_t hard) {
  hak_region_t *region = hak_region_new(&(hak_region_options_t){.name = name, .parent = parent, .hard_limit = hard});
  CHECK(region != NULL);
  return region;
}

static void nothing_without_regions(void) {
  CHECK(strstr(json(), "\"regions\":[],\"regions_left_out\":0}") != NULL);
  CHECK(strstr(metrics(), "heap") == NULL);
}

static void figures_are_those_of_the_interface(void) {
  hak_region_t *top = region_of("top", NULL, 0), *part = region_of("part", top, 1 << 20);
  void *block = hak_region_malloc(part, 50000);
  CHECK(block && hak_region_malloc(part, 1000) && hak_region_malloc(top, 100));
  hak_free(block);
  hak_region_usage_t usage;
  CHECK(hak_region_usage(part, &usage));
  const char *at = json(), *row = "{\"name\":\"part\",\"parent\":\"top\",\"regions\":1,\"state\":\"live\",";
  CHECK(number(at, row, "\"hard_limit\":") == 1 << 20 && number(at, row, "\"soft_limit\":") == 0);
  CHECK(number(at, row, "\"used_bytes\":") == usage.used_bytes);
  CHECK(number(at, row, "\"peak_bytes\":") == usage.peak_bytes && usage.peak_bytes > 50000);
  CHECK(number(at, row, "\"live_bytes\":") == usage.live_bytes && usage.live_bytes > 0);
  CHECK(number(at, row, "\"live_blocks\":") == 1);
  CHECK(number(at, row, "\"allocated_bytes\":") == usage.allocated_bytes);
  CHECK(number(at, row, "\"freed_bytes\":") == usage.freed_bytes && usage.freed_bytes > 0);
  size_t live = number(at, "\"totals\"", "\"live_bytes\":"),
         of_regions = number(at, "\"totals\"", "\"region_live_bytes\":");
  CHECK(of_regions >= 1100 && of_regions < 2000 && live >= of_regions);
  at = metrics();
  CHECK(number(at, "\n", "hakmem_heap_used_bytes{heap=\"part\",parent=\"top\"} ") == usage.used_bytes);
  CHECK(number(at, "\n", "hakmem_heap_limit_bytes{heap=\"part\",parent=\"top\"} ") == 1 << 20);
  CHECK(number(at, "\n", "hakmem_heap_live_blocks{heap=\"top\"} ") == 1);
  hak_region_retire(part);
  CHECK(strstr(json(), "\"parent\":\"top\",\"regions\":1,\"state\":\"retired\"") != NULL);
  FILE *file = fmemopen(text, sizeof text, "w");
  CHECK(file != NULL);
  hak_stats_print(file);
  CHECK(fclose(file) == 0 && strstr(text, "  \"part\"\n") != NULL && strstr(text, "  \"top\"\n") != NULL);
  hak_region_release(top);
  CHECK(number(json(), "{\"name\":\"[released]\"", "\"live_blocks\":") == 2);
}

static void names_are_escaped(void) {
  static const char *const names[][2] = {
      {"quote \" back \\ line\n", "\"quote \\\" back \\\\ line\\n\""},
      {"tab\tbell\a\x7f", "\"tab?bell??\""},
      {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
      {"\xc3 \xc0\xaf \xed\xa0\x80 \xf5\x80\x80\x80 \xff", "\"? ?? ??? ???? ?\""},
      {"0123456789012345678901234567890123456789012345\xc3\xa9",
       "\"0123456789012345678901234567890123456789012345?\""}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    hak_region_t *region = region_of(names[i][0], NULL, 0);
    CHECK(hak_region_malloc(region, 10) != NULL);
    CHECK(strstr(json(), names[i][1]) != NULL);
    CHECK(strstr(metrics(), names[i][1]) != NULL);
    hak_region_destroy(region);
  }
}

static void equal_names_are_one_row(void) {
  for (int i = 0; i < MANY; i++) {
    regions[i] = region_of("request", NULL, 1 << 16);
    CHECK(i >= 100 || hak_region_malloc(regions[i], 1000) != NULL);
  }
  const char *at = metrics();
  CHECK(count(at, "hakmem_heap_used_bytes{heap=\"request\"}") == 1);
  CHECK(number(at, "\n", "hakmem_heap_regions{heap=\"request\"} ") == MANY);
  CHECK(number(at, "\n", "hakmem_heap_live_blocks{heap=\"request\"} ") == 100);
  CHECK(number(at, "\n", "hakmem_heap_limit_bytes{heap=\"request\"} ") == (size_t)MANY << 16);
  CHECK(number(at, "\n", "hakmem_heap_regions_left_out ") == 0);
  for (int i = 0; i < MANY; i++) {
    hak_region_destroy(regions[i]);
  }
}

/* The larger ones have a row; all count in the total. */
static void many_names_are_bounded(void) {
  size_t before = number(json(), "\"totals\"", "\"region_live_bytes\":"), bytes = 0;
  for (int i = 0; i < MANY; i++) {
    char name[32];
    (void)snprintf(name, sizeof name, "tenant %d", i);
    regions[i] = region_of(name, NULL, 0);
    bytes += i % 100 == 0 ? hak_malloc_usable_size(hak_region_malloc(regions[i], 20000)) : 0;
  }
  const char *at = json();
  CHECK(count(at, "\"name\":") == ROWS && count(at, "\"name\":\"tenant ") >= ROWS - 2);
  CHECK(number(at, "\"regions\":[", "\"regions_left_out\":") >= MANY - ROWS);
  CHECK(number(at, "\"totals\"", "\"region_live_bytes\":") == before + bytes);
  for (int i = 0; i < MANY; i += 100) {
    char name[48];
    (void)snprintf(name, sizeof name, "{\"name\":\"tenant %d\",", i);
    CHECK(strstr(at, name) != NULL);
  }
  at = metrics();
  CHECK(count(at, "\nhakmem_heap_used_bytes{") == ROWS);
  FILE *file = fmemopen(text, sizeof text, "w");
  CHECK(file != NULL);
  hak_stats_print(file);
  CHECK(fclose(file) == 0 && strstr(text, " more, which use less\n") != NULL);
  for (int i = 0; i < MANY; i++) {
    hak_region_destroy(regions[i]);
  }
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) { /* for a parser */
    names_are_escaped();
    region_of("a \"b\" \\ \n c", region_of("parent", NULL, 0), 5000);
    CHECK(fputs(metrics(), stdout) >= 0);
    return 0;
  }
  nothing_without_regions();
  figures_are_those_of_the_interface();
  names_are_escaped();
  equal_names_are_one_row();
  many_names_are_bounded();
  return 0;
}
