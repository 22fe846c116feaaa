/* The table that lets another process read this heap: names, offsets, addresses. */
#include "layout.h"

#include "hakmem.h"
#include "images.h"
#include "regions/regions.h"
#include "sample.h"
#include "sites.h"

#define ROW(text, number) \
  { text, (uintptr_t)(number) }
/* Every row macro takes a type as its first argument, but only FIELD uses it. */
#define ROOT(none, object) ROW("&" #object, &(object))
#define CONSTANT(none, constant) ROW(#constant, constant)
#define FIELD(type, field) ROW(#type "." #field, offsetof(type, field))
#define EACH_1(row, type, a) row(type, a)
#define EACH_2(row, type, a, ...) row(type, a), EACH_1(row, type, __VA_ARGS__)
#define EACH_3(row, type, a, ...) row(type, a), EACH_2(row, type, __VA_ARGS__)
#define EACH_4(row, type, a, ...) row(type, a), EACH_3(row, type, __VA_ARGS__)
#define EACH_5(row, type, a, ...) row(type, a), EACH_4(row, type, __VA_ARGS__)
#define EACH_6(row, type, a, ...) row(type, a), EACH_5(row, type, __VA_ARGS__)
#define EACH_7(row, type, a, ...) row(type, a), EACH_6(row, type, __VA_ARGS__)
#define EACH_8(row, type, a, ...) row(type, a), EACH_7(row, type, __VA_ARGS__)
#define EACH_9(row, type, a, ...) row(type, a), EACH_8(row, type, __VA_ARGS__)
#define TENTH(a, b, c, d, e, f, g, h, i, tenth, ...) tenth
/* Make a row for each of up to nine names. */
#define EACH(row, type, ...) \
  TENTH(__VA_ARGS__, EACH_9, EACH_8, EACH_7, EACH_6, EACH_5, EACH_4, EACH_3, EACH_2, EACH_1, ) \
  (row, type, __VA_ARGS__)
#define ROOTS(...) EACH(ROOT, , __VA_ARGS__)
#define CONSTANTS(...) EACH(CONSTANT, , __VA_ARGS__)
#define FIELDS(type, ...) EACH(FIELD, type, __VA_ARGS__)
#define OBJECT(type, ...) ROW("size." #type, sizeof(type)), FIELDS(type, __VA_ARGS__)

#define HAK_OPTION(id, name, kind, speed, balanced, lean, low, high, when, help) {name, #kind, #when, low, high},
#define HAK_CLASS(index, bytes, below, band) [index] = (bytes),
#define HAK_RUN_CLASS(index, kib, below) [index] = (kib)*1024,
/* The formatter would indent the whole table. clang-format 16 reads the next line alone. */
/* clang-format off */
__attribute__((visibility("protected"))) const hak_layout_t hak_layout = {
    .magic = "hakmem layout",
    .layout_version = HAK_LAYOUT_VERSION,
    .library_version = HAKMEM_VERSION,
    .row_count = HAK_LAYOUT_ROWS,
    .row_bytes = sizeof(hak_layout_row_t),
    .option_count = HAK_OPTION_COUNT,
    .option_bytes = sizeof(hak_layout_option_t),
    .self = &hak_layout,
    .first_row = hak_layout.rows,
    .first_option = hak_layout.options,
    .first_class_size = hak_layout.class_sizes,
    .options =
        {
#include "system/options.def"
        },
    .class_sizes =
        {
#include "base/classes.def"
        },
    .rows =
        {
            ROOTS(hak_leaves, hak_heaps_all, hak_depots, hak_arena, hak_meta_pieces, hak_no_block),
            ROOTS(hak_images, hak_regions_made, hak_regions_released),
            ROOTS(hak_option_values, hak_option_given, hak_records, hak_sites, hak_sample_request, hak_class_codes),

            CONSTANTS(HAK_SLICE_SHIFT, HAK_CHUNK_SHIFT, HAK_SLAB_SHIFT, HAK_CLASS_COUNT, HAK_CLASS_HUGE, HAK_DEPOTS),
            CONSTANTS(HAK_CLASS_SAMPLED, HAK_CLASS_MIXED, HAK_BIN_WORDS, HAK_CODE_HUGE, HAK_BINS_AT, HAK_RUN_FIRST),
            ROW("HAK_GRANT_LAST", HAK_BATCH_LAST),
            CONSTANTS(HAK_BITS_WORDS, HAK_LEAF_SHIFT, HAK_LEAVES, HAK_LEAF_PIECE_BYTES, HAK_LEAF_PIECES),
            CONSTANTS(HAK_CHUNK_SLICED, HAK_CHUNK_FREE, HAK_CHUNK_HUGE, HAK_SMALL_STEPS, HAK_SAMPLE_MEAN_BITS),
            CONSTANTS(HAK_REGION_LIVE, HAK_REGION_RETIRED, HAK_REGION_NAME, HAK_SITE_LABEL_BYTES),
            CONSTANTS(HAK_RECORDS, HAK_SITE_BYTE_PARTS, HAK_SITE_OBJECT_PARTS, HAK_FRAMES_PER_PIECE, HAK_FRAME_PIECES),

            OBJECT(hak_leaf_t, codes, chunks, pieces),
            OBJECT(hak_chunk_t, present, free, dirty, base, slabs, chunks, huge_bytes, state),
            ROW("hak_chunk_t.transit", offsetof(hak_chunk_t, purging)),
            OBJECT(hak_slabs_t, slab),
            ROW("hak_slab_t.carved", offsetof(hak_slab_t, bump)),
            OBJECT(hak_slab_t, cls, slices, zeroed, blocks, base, bits, mixed),
            ROW("hak_heap_t.grant", offsetof(hak_heap_t, batch)),
            OBJECT(hak_heap_t, bin, info, next, busy, thread, events),
            OBJECT(hak_bin_t, head, top),
            ROW("size.hak_grant_t", sizeof(hak_batch_t)),
            ROW("hak_grant_t.head", offsetof(hak_batch_t, head)),
            ROW("hak_grant_t.top", offsetof(hak_batch_t, top)),
            ROW("hak_bin_info_t.outgoing", offsetof(hak_bin_info_t, remote_count)),
            ROW("hak_bin_info_t.granted", offsetof(hak_bin_info_t, batch_magazine)),
            OBJECT(hak_bin_info_t, magazine, asked_bytes, asked_count),
            OBJECT(hak_magazine_t, slots, size),
            OBJECT(hak_depot_t, count, magazine),
            FIELDS(hak_arena_t, used_slices, dirty_slices, mapped_slices, mapped_ever, unmapped_ever),
            FIELDS(hak_arena_t, retention.fetched, retention.purged, retention.balance, retention.idle),
            FIELDS(hak_arena_t, retention.least_free, retention.ghosts[0], retention.ghosts[1]),
            FIELDS(hak_arena_t, retention.most_used[0], retention.most_used[1]),
            FIELDS(hak_records_t, next, sample),
            OBJECT(hak_sample_t, block, asked, bytes, weight_bytes, cls, thread, site, live),
            FIELDS(hak_sites_t, latest, frame_count, frames),
            FIELDS(hak_site_t, label),
            FIELDS(hak_site_label_t, name),
            OBJECT(hak_site_t, older, objects, bytes, freed_objects, freed_bytes, inherited, frame_count, frame),
            OBJECT(hak_frame_t, pc),
            OBJECT(hak_region_t, made, parent, state, used, peak, soft, hard, name, pieces),
            FIELDS(hak_region_t, live_bytes, live_blocks, allocated, freed),
            OBJECT(hak_piece_t, next, base, charged, slices, chunks, is_span, first, at),
            FIELDS(hak_piece_t, end, bits),
            OBJECT(hak_span_bits_t, start, used),
            FIELDS(hak_mixed_t, cls),
            OBJECT(hak_images_t, count, image),
            OBJECT(hak_mapping_t, start, end, offset, name),
            OBJECT(hak_meta_piece_t, before, bytes),
        },
};
/* clang-format on */
