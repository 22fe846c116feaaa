/* The sampler where lists are long: a sample far down is found without a walk over the blocks before it. */
#include "check.h"
#include "child.h"
#include "hakmem.h"
#include "pagemap.h"
#include "sample.h"

enum { RARE = 1 << 28 };

static int32_t in_list(uint32_t cls) {
  return hak_bin_capacity(&hak_heap->info[cls]) - hak_bin_room(&hak_heap->bin[cls]);
}

/* Where it is due far down a long list, blocks are handed out one by one till it is near. */
static void long_lists_are_not_walked(void) {
  enum { BLOCKS = 500, FAR = HAK_GRANT_CUT_MOST + 100 };
  uint32_t cls = hak_class_of(16);
  void *blocks[BLOCKS];
  hak_sample_seed(3);
  CHECK(hak_sample_start(RARE));
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(16);
  }
  for (int i = 0; i < BLOCKS; i++) {
    hak_free(blocks[i]);
  }
  while (hak_grant_left(&hak_heap->grant[cls - 1]) > 0) {
    CHECK(hak_malloc(16));
  }
  int32_t listed = in_list(cls);
  uint64_t taken = hak_sample_totals().taken;
  CHECK(listed > FAR);
  hak_heap->info[cls].sample_left = FAR;
  for (int32_t i = 0; i < FAR; i++) {
    bool near = FAR - i <= HAK_GRANT_CUT_MOST;
    blocks[i] = hak_malloc(16);
    CHECK(hak_heap->info[cls].sample_left == (near ? 0 : (uint32_t)(FAR - i - 1)));
    CHECK(in_list(cls) == (near ? listed - FAR : listed - i - 1));
    hak_check();
  }
  CHECK(hak_sample_totals().taken == taken && hak_class_at(hak_malloc(16)) == HAK_CLASS_SAMPLED);
  for (int i = 0; i < FAR; i++) {
    hak_free(blocks[i]);
  }
  hak_sample_stop();
  hak_check();
}

int main(void) {
  child_succeeds(long_lists_are_not_walked);
  return 0;
}
