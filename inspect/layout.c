#include "layout.h"

#include "arena_internal.h"
#include "depot.h"
#include "hakmem.h"
#include "heap.h"
#include "meta.h"
#include "options.h"
#include "sample.h"
#include "sites.h"
#include "slab.h"

#define ROOT(object) \
  { "&" #object, (uintptr_t) & (object) }
#define SIZE(type) \
  { "size." #type, sizeof(type) }
#define FIELD(type, field) \
  { #type "." #field, offsetof(type, field) }
#define CONSTANT(constant) \
  { #constant, (uintptr_t)(constant) }

#define HAK_OPTION(id, name, kind, speed, balanced, lean, low, high, when, help) {name, #kind, #when, low, high},
#define HAK_CLASS(index, bytes, below, band) [index] = (bytes),
#define HAK_RUN_CLASS(index, kib, below) [index] = (kib)*1024,
HAK_EXPORT const hak_layout_t hak_layout = {
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
#include "options.def"
        },
    .class_sizes =
        {
#include "classes.def"
        },
    .rows =
        {

            ROOT(hak_leaves),
            ROOT(hak_heaps_all),
            ROOT(hak_depots),
            ROOT(hak_arena),
            ROOT(hak_meta_pieces),
            ROOT(hak_no_block),
            ROOT(hak_option_values),
            ROOT(hak_option_given),

            CONSTANT(HAK_SLICE_SHIFT),
            CONSTANT(HAK_CHUNK_SHIFT),
            CONSTANT(HAK_SLAB_SHIFT),
            CONSTANT(HAK_CLASS_COUNT),
            CONSTANT(HAK_CLASS_HUGE),
            CONSTANT(HAK_BIN_WORDS),
            CONSTANT(HAK_CODE_HUGE),
            CONSTANT(HAK_BINS_AT),
            CONSTANT(HAK_RUN_FIRST),
            CONSTANT(HAK_BITS_WORDS),
            CONSTANT(HAK_LEAF_SHIFT),
            CONSTANT(HAK_LEAVES),
            CONSTANT(HAK_LEAF_PIECE_BYTES),
            CONSTANT(HAK_LEAF_PIECES),
            CONSTANT(HAK_CHUNK_SLICED),
            CONSTANT(HAK_CHUNK_FREE),
            CONSTANT(HAK_CHUNK_HUGE),

            SIZE(hak_leaf_t),
            FIELD(hak_leaf_t, codes),
            FIELD(hak_leaf_t, chunks),
            FIELD(hak_leaf_t, pieces),

            SIZE(hak_chunk_t),
            FIELD(hak_chunk_t, present),
            FIELD(hak_chunk_t, free),
            FIELD(hak_chunk_t, dirty),
            FIELD(hak_chunk_t, transit),
            FIELD(hak_chunk_t, base),
            FIELD(hak_chunk_t, slabs),
            FIELD(hak_chunk_t, chunks),
            FIELD(hak_chunk_t, huge_bytes),
            FIELD(hak_chunk_t, state),

            SIZE(hak_slabs_t),
            FIELD(hak_slabs_t, slab),
            SIZE(hak_slab_t),
            FIELD(hak_slab_t, cls),
            FIELD(hak_slab_t, slices),
            FIELD(hak_slab_t, zeroed),
            FIELD(hak_slab_t, carved),
            FIELD(hak_slab_t, blocks),
            FIELD(hak_slab_t, base),
            FIELD(hak_slab_t, bits),

            SIZE(hak_heap_t),
            FIELD(hak_heap_t, bin),
            FIELD(hak_heap_t, info),
            FIELD(hak_heap_t, next),
            FIELD(hak_heap_t, busy),
            FIELD(hak_heap_t, thread),
            FIELD(hak_heap_t, events),
            SIZE(hak_bin_t),
            FIELD(hak_bin_t, head),
            FIELD(hak_bin_t, top),
            SIZE(hak_grant_t),
            FIELD(hak_grant_t, head),
            FIELD(hak_grant_t, top),
            FIELD(hak_heap_t, grant),
            CONSTANT(HAK_GRANT_LAST),
            SIZE(hak_bin_info_t),
            FIELD(hak_bin_info_t, magazine),
            FIELD(hak_bin_info_t, granted),
            FIELD(hak_bin_info_t, outgoing),
            FIELD(hak_bin_info_t, asked_bytes),
            FIELD(hak_bin_info_t, asked_count),

            SIZE(hak_magazine_t),
            FIELD(hak_magazine_t, slots),
            FIELD(hak_magazine_t, size),
            SIZE(hak_depot_t),
            FIELD(hak_depot_t, count),
            FIELD(hak_depot_t, magazine),

            FIELD(hak_arena_t, used_slices),
            FIELD(hak_arena_t, dirty_slices),
            FIELD(hak_arena_t, mapped_slices),
            FIELD(hak_arena_t, mapped_ever),
            FIELD(hak_arena_t, unmapped_ever),
            FIELD(hak_arena_t, cached_bytes),
            FIELD(hak_arena_t, learned_slices),

            ROOT(hak_records),
            CONSTANT(HAK_RECORDS),
            CONSTANT(HAK_CLASS_SAMPLED),
            FIELD(hak_records_t, next),
            FIELD(hak_records_t, sample),
            SIZE(hak_sample_t),
            FIELD(hak_sample_t, block),
            FIELD(hak_sample_t, asked),
            FIELD(hak_sample_t, bytes),
            FIELD(hak_sample_t, weight_bytes),
            FIELD(hak_sample_t, cls),
            FIELD(hak_sample_t, thread),
            FIELD(hak_sample_t, site),
            FIELD(hak_sample_t, live),

            ROOT(hak_sites),
            ROOT(hak_sample_request),
            ROOT(hak_class_codes),
            CONSTANT(HAK_SMALL_STEPS),
            CONSTANT(HAK_SAMPLE_MEAN_BITS),
            CONSTANT(HAK_SITE_BYTE_PARTS),
            CONSTANT(HAK_SITE_OBJECT_PARTS),
            CONSTANT(HAK_FRAMES_PER_PIECE),
            CONSTANT(HAK_FRAME_PIECES),
            FIELD(hak_sites_t, latest),
            FIELD(hak_sites_t, frame_count),
            FIELD(hak_sites_t, frames),
            SIZE(hak_site_t),
            FIELD(hak_site_t, older),
            FIELD(hak_site_t, objects),
            FIELD(hak_site_t, bytes),
            FIELD(hak_site_t, freed_objects),
            FIELD(hak_site_t, freed_bytes),
            FIELD(hak_site_t, frame_count),
            FIELD(hak_site_t, frame),
            SIZE(hak_frame_t),
            FIELD(hak_frame_t, pc),

            SIZE(hak_meta_piece_t),
            FIELD(hak_meta_piece_t, before),
            FIELD(hak_meta_piece_t, bytes),
        },
};
