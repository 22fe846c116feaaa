/* Profiles as text: collapsed stacks, and the report of the memory in use. */
#include "pprof.h"

#include "images.h"
#include "sites.h"
#include "system/match.h"
#include "system/text.h"

#include <string.h>

enum { LINE_BYTES = 512 };

/* Formats as hak_text_put does. */
__attribute__((format(printf, 2, 3))) static void say(hak_sink_t *sink, const char *format, ...) {
  char line[LINE_BYTES];
  hak_text_t text = hak_text_on(line, sizeof line);
  va_list values;
  va_start(values, format);
  hak_text_put_values(&text, format, values);
  va_end(values);
  hak_sink_put(sink, line, strlen(line));
}

/* Write "file+0xoffset" of the instruction before `pc`. The file's name omits characters that would end it in a
 * collapsed stack. */
static void put_place(hak_sink_t *sink, uintptr_t pc) {
  char line[LINE_BYTES];
  hak_text_t text = hak_text_on(line, sizeof line);
  size_t i = hak_images_find(pc - 1);
  if (i == hak_images_count()) {
    hak_text_put(&text, "0x%zx", pc - 1);
  } else {
    const hak_mapping_t *image = hak_images_at(i);
    const char *slash = hak_match_last(image->name, '/');
    hak_text_put(&text, "%s+0x%zx", slash ? slash + 1 : image->name, pc - 1 - image->start + image->offset);
  }
  for (char *c = line; *c; c++) {
    if (*c == ';' || *c == ' ') {
      *c = '_';
    }
  }
  hak_sink_put(sink, line, strlen(line));
}

void hak_folded_write(hak_sink_t *sink, const hak_profile_facts_t *facts) {
  (void)facts;
  for (const hak_site_t *site = NULL; (site = hak_site_next(site));) {
    size_t bytes = hak_rounded(hak_site_counts(site).in_use_bytes);
    if (bytes == 0) {
      continue;
    }
    for (size_t i = site->frame_count; i > 0; i--) {
      put_place(sink, hak_frame_pc(site->frame[i - 1]));
      hak_sink_put(sink, ";", i > 1);
    }
    say(sink, "%s %zu\n", site->frame_count > 0 ? "" : HAK_SITE_UNKNOWN, bytes);
  }
}

static bool comes_before(const hak_site_t *a, const hak_site_t *b) {
  return hak_site_counts(a).in_use_bytes >= hak_site_counts(b).in_use_bytes;
}

static hak_site_t *merge(hak_site_t *a, hak_site_t *b) {
  hak_site_t *first = NULL, **last = &first;
  while (a && b) {
    hak_site_t **from = comes_before(a, b) ? &a : &b;
    *last = *from;
    last = &(*from)->next_sorted;
    *from = (*from)->next_sorted;
  }
  *last = a ? a : b;
  return first;
}

/* The sites with memory in use, largest first. */
static hak_site_t *sorted_sites(size_t *count) {
  hak_site_t *runs[64] = {NULL}, *all = NULL; /* sorted lists of 2^i sites, present where bit i of the count is set */
  *count = 0;
  for (hak_site_t *site = NULL; (site = hak_site_next(site));) {
    if (hak_rounded(hak_site_counts(site).in_use_bytes) > 0) {
      hak_site_t *run = site;
      size_t i = 0;
      for (run->next_sorted = NULL; *count >> i & 1; i++) {
        run = merge(runs[i], run);
      }
      runs[i] = run;
      ++*count;
    }
  }
  for (size_t i = 0; *count >> i > 0; i++) {
    all = *count >> i & 1 ? merge(runs[i], all) : all;
  }
  return all;
}

static void write_totals(hak_sink_t *sink, const hak_profile_facts_t *facts) {
  hak_site_counts_t all = {0};
  for (const hak_site_t *site = NULL; (site = hak_site_next(site));) {
    hak_site_counts_t n = hak_site_counts(site);
    all.objects += n.objects;
    all.bytes += n.bytes;
    all.in_use_objects += n.in_use_objects;
  }
  double resident = facts->resident.sites;
  for (int row = 0; row < HAK_RESIDENT_ROWS; row++) {
    resident += facts->resident.row[row];
  }
  say(sink, "hakmem: heap profile, written: %s\n", facts->why);
  say(sink, "samples taken %zu, live %zu, dropped %zu; mean distance %zu bytes: %s\n", facts->taken, facts->live,
      facts->dropped, facts->mean_bytes, facts->mean_bytes == 1 ? "every block was counted" : "estimated");
  say(sink, "%-20s%16zu bytes in %zu blocks\n", "allocated", hak_rounded(all.bytes), hak_rounded(all.objects));
  say(sink, "%-20s%16zu bytes in %zu blocks\n", "in use", hak_rounded(hak_sites_in_use()),
      hak_rounded(all.in_use_objects));
  say(sink, "  %-18s%16zu\n", "inherited over fork", hak_rounded(hak_sites_inherited()));
  say(sink, "%-20s%16zu bytes, of these\n", "resident", hak_rounded(resident));
  say(sink, "  %-18s%16zu\n", "of the places below", hak_rounded(facts->resident.sites));
  for (int row = 0; row < HAK_RESIDENT_ROWS; row++) {
    say(sink, "  %-18s%16zu\n", hak_resident_names[row], hak_rounded(facts->resident.row[row]));
  }
}

void hak_report_write(hak_sink_t *sink, const hak_profile_facts_t *facts) {
  size_t count;
  hak_site_t *first = sorted_sites(&count);
  write_totals(sink, facts);
  say(sink, "\nin use, by %zu places\n           bytes      blocks        resident       allocated\n", count);
  for (const hak_site_t *site = first; site; site = site->next_sorted) {
    hak_site_counts_t n = hak_site_counts(site);
    say(sink, "%16zu%12zu%16zu%16zu\n", hak_rounded(n.in_use_bytes), hak_rounded(n.in_use_objects),
        hak_rounded(site->resident_bytes), hak_rounded(n.bytes));
    for (size_t i = 0; i < site->frame_count; i++) {
      say(sink, "    ");
      put_place(sink, hak_frame_pc(site->frame[i]));
      say(sink, "\n");
    }
    if (site->frame_count == 0) {
      say(sink, "    " HAK_SITE_UNKNOWN "\n");
    }
  }
}
