/* Profiles as text: collapsed stacks, and the report of what is in use. */
#include "pprof.h"

#include "images.h"
#include "sites.h"
#include "text.h"

#include <string.h>

enum { LINE_BYTES = 512 };

static void put_line(hak_sink_t *sink, const hak_text_t *text) {
  hak_sink_put(sink, text->buffer, text->length < text->capacity ? text->length : text->capacity - 1);
}

/* "file+0xoffset", of the instruction before; the file's name without what would end it in a collapsed stack. */
static void put_place(hak_sink_t *sink, uintptr_t pc) {
  char line[LINE_BYTES];
  hak_text_t text = hak_text_on(line, sizeof line);
  size_t i = hak_images_find(pc - 1);
  if (i == hak_images_count()) {
    hak_text_put(&text, "0x%zx", pc - 1);
  } else {
    const hak_image_t *image = hak_images_at(i);
    const char *slash = strrchr(image->name, '/');
    hak_text_put(&text, "%s+0x%zx", slash ? slash + 1 : image->name, pc - 1 - image->start + image->offset);
  }
  for (char *c = line; *c; c++) {
    if (*c == ';' || *c == ' ') {
      *c = '_';
    }
  }
  put_line(sink, &text);
}

void hak_folded_write(hak_sink_t *sink, const hak_profile_facts_t *facts) {
  (void)facts;
  for (const hak_site_t *site = NULL; (site = hak_site_next(site));) {
    size_t bytes = hak_rounded(hak_site_counts(site).in_use_bytes);
    char line[LINE_BYTES];
    hak_text_t text = hak_text_on(line, sizeof line);
    if (bytes == 0) {
      continue;
    }
    for (size_t i = site->frame_count; i > 0; i--) {
      put_place(sink, hak_site_pc(site, i - 1));
      hak_sink_put(sink, ";", i > 1);
    }
    hak_text_put(&text, "%s %zu\n", site->frame_count > 0 ? "" : HAK_SITE_UNKNOWN, bytes);
    put_line(sink, &text);
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

/* Those with something in use, the largest first: lists of 1, 2, 4, ... sites, joined as a number counts up. */
static hak_site_t *sorted_sites(size_t *count) {
  enum { LEVELS = 32 };
  hak_site_t *lists[LEVELS] = {NULL}, *all = NULL;
  *count = 0;
  for (hak_site_t *site = NULL; (site = hak_site_next(site));) {
    hak_site_t *carried = site;
    size_t level = 0;
    if (hak_rounded(hak_site_counts(site).in_use_bytes) == 0) {
      continue;
    }
    site->next_sorted = NULL;
    for (; lists[level]; level++) {
      carried = merge(lists[level], carried);
      lists[level] = NULL;
    }
    lists[level] = carried;
    ++*count;
  }
  for (size_t level = 0; level < LEVELS; level++) {
    all = merge(lists[level], all);
  }
  return all;
}

static void write_totals(hak_sink_t *sink, const hak_profile_facts_t *facts) {
  char line[LINE_BYTES];
  hak_text_t text = hak_text_on(line, sizeof line);
  hak_site_counts_t all = {0};
  for (const hak_site_t *site = NULL; (site = hak_site_next(site));) {
    hak_site_counts_t n = hak_site_counts(site);
    all.objects += n.objects;
    all.in_use_objects += n.in_use_objects;
  }
  const char *quality = facts->mean_bytes == 1 ? "every block was counted" : "estimated";
  hak_text_put(&text, "hakmem: heap profile, written: %s\n", facts->why);
  hak_text_put(&text, "samples taken %zu, live %zu, dropped %zu; mean distance %zu bytes: %s\n", facts->taken,
               facts->live, facts->dropped, facts->mean_bytes, quality);
  put_line(sink, &text);
  text = hak_text_on(line, sizeof line);
  hak_text_put(&text, "%-20s%16zu bytes in %zu blocks\n", "allocated", hak_rounded(hak_sites_allocated()),
               hak_rounded(all.objects));
  hak_text_put(&text, "%-20s%16zu bytes in %zu blocks\n", "in use", hak_rounded(hak_sites_in_use()),
               hak_rounded(all.in_use_objects));
  put_line(sink, &text);
  double resident = facts->resident.sites;
  for (int row = 0; row < HAK_RESIDENT_ROWS; row++) {
    resident += facts->resident.row[row];
  }
  text = hak_text_on(line, sizeof line);
  hak_text_put(&text, "%-20s%16zu bytes, of these\n", "resident", hak_rounded(resident));
  hak_text_put(&text, "  %-18s%16zu\n", "of the places below", hak_rounded(facts->resident.sites));
  for (int row = 0; row < HAK_RESIDENT_ROWS; row++) {
    hak_text_put(&text, "  %-18s%16zu\n", hak_resident_names[row], hak_rounded(facts->resident.row[row]));
  }
  put_line(sink, &text);
}

void hak_report_write(hak_sink_t *sink, const hak_profile_facts_t *facts) {
  char line[LINE_BYTES];
  size_t count;
  hak_site_t *first = sorted_sites(&count);
  write_totals(sink, facts);
  hak_text_t text = hak_text_on(line, sizeof line);
  hak_text_put(&text, "\nin use, by %zu places\n           bytes      blocks        resident       allocated\n", count);
  put_line(sink, &text);
  for (const hak_site_t *site = first; site; site = site->next_sorted) {
    hak_site_counts_t n = hak_site_counts(site);
    text = hak_text_on(line, sizeof line);
    hak_text_put(&text, "%16zu%12zu%16zu%16zu\n", hak_rounded(n.in_use_bytes), hak_rounded(n.in_use_objects),
                 hak_rounded(site->resident_bytes), hak_rounded(n.bytes));
    put_line(sink, &text);
    for (size_t i = 0; i < site->frame_count; i++) {
      hak_sink_put(sink, "    ", 4);
      put_place(sink, hak_site_pc(site, i));
      hak_sink_put(sink, "\n", 1);
    }
    if (site->frame_count == 0) {
      hak_sink_put(sink, "    " HAK_SITE_UNKNOWN "\n", sizeof "    " HAK_SITE_UNKNOWN);
    }
  }
}
