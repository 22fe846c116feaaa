/* The regions' operations: a tree of regions with limits, callbacks, scopes and memory of the program, and a table of
 * blocks. After each operation the model knows which regions are open, and which region has which block. */
#include "operations.h"

#include <errno.h>
#include <string.h>

#include "check.h"
#include "hakmem.h"
#include "pattern.h"

enum { OPERATION_BYTES = 4, SLOTS = 48, REGIONS = 12, DEPTH = 8, GIVEN_BYTES = 48 << 10, NONE = -1 };
#define LIVE_BYTES_MAX ((size_t)64 << 20)
#define SPARE_BYTES ((size_t)192 << 10) /* a refusal may come so many bytes before the limit: spans, their holes */

typedef struct {
  unsigned char *block;
  size_t bytes;
  int owner; /* NONE: an ordinary block */
  int place; /* where the memory of the program is that has the block; NONE: elsewhere */
} Slot;

typedef struct {
  hak_region_t *region; /* NULL: none */
  size_t hard;
  int parent;
  unsigned inside, answer; /* `answer`: of the callback */
  bool retired, given;
} Known;

static Slot slots[SLOTS];
static Known known[REGIONS];
static int scopes[DEPTH], depth;
static size_t live_bytes;
static _Alignas(16) unsigned char memory[REGIONS][GIVEN_BYTES];

static size_t decode_bytes(unsigned code) {
  static const unsigned shifts[] = {0, 4, 8, 10};
  return code == 0xffff ? PTRDIFF_MAX : (size_t)(code & 0x3fff) << shifts[code >> 14];
}

static size_t tag_of(const Slot *slot) {
  return (size_t)(slot - slots) + 1;
}

static bool is_below(int region, int top) {
  while (region != NONE && region != top) {
    region = known[region].parent;
  }
  return region == top;
}

/* A retired region that became empty has ended, and perhaps its parent with it. */
static void end_if_done(int region) {
  while (region != NONE && known[region].retired && known[region].inside == 0) {
    for (int i = 0; i < SLOTS; i++) {
      if (slots[i].block && slots[i].owner == region) {
        return;
      }
    }
    for (int i = 0; i < REGIONS; i++) {
      if (known[i].region && known[i].parent == region) {
        return;
      }
    }
    hak_region_usage_t usage;
    CHECK(!hak_region_usage(known[region].region, &usage));
    known[region].region = NULL;
    region = known[region].parent;
  }
}

static void forget(Slot *slot) {
  CHECK(pattern_holds(slot->block, slot->bytes, slot->bytes, tag_of(slot)));
  live_bytes -= slot->bytes;
  slot->block = NULL;
}

static void drop(Slot *slot) {
  unsigned char *block = slot->block;
  int owner = slot->owner;
  if (block) {
    forget(slot);
    errno = EXDEV;
    hak_free(block);
    CHECK(errno == EXDEV);
    end_if_done(owner);
  }
}

static bool near_limit(int region, size_t bytes) {
  for (; region != NONE; region = known[region].parent) {
    hak_region_usage_t usage;
    CHECK(hak_region_usage(known[region].region, &usage));
    if (known[region].given || known[region].answer ||
        (known[region].hard > 0 && usage.used_bytes + bytes + SPARE_BYTES > known[region].hard)) {
      return true;
    }
  }
  return false;
}

static bool may_refuse(int owner, size_t bytes) {
  return bytes > LIVE_BYTES_MAX || (owner != NONE && (known[owner].retired || near_limit(owner, bytes)));
}

static void adopt(Slot *slot, void *block, size_t bytes, size_t alignment, int owner) {
  if (!block) {
    CHECK(errno == ENOMEM && may_refuse(owner, bytes));
    return;
  }
  CHECK(owner == NONE || !known[owner].retired);
  CHECK((uintptr_t)block % (alignment > 16 ? alignment : 16) == 0);
  CHECK(hak_malloc_usable_size(block) >= bytes);
  CHECK(hak_region_of(block) == (owner == NONE ? NULL : known[owner].region));
  CHECK(hak_utilisation(block) <= 100);
  bool given = owner != NONE && known[owner].given;
  CHECK(!given || ((unsigned char *)block >= memory[owner] && (unsigned char *)block + bytes <= memory[owner + 1]));
  *slot = (Slot){block, bytes, owner, given ? owner : NONE};
  live_bytes += bytes;
  pattern_fill(block, bytes, tag_of(slot));
}

static int scope(void) {
  return depth > 0 ? scopes[depth - 1] : NONE;
}

static void allocate(Slot *slot, int region, unsigned how, size_t bytes) {
  drop(slot);
  hak_region_t *from = known[region].region;
  if (how >= 12 || !from) { /* the ordinary calls, perhaps inside a scope */
    adopt(slot, hak_malloc(bytes | 1), bytes | 1, 0, scope());
  } else if (how >= 8) {
    size_t alignment = (size_t)16 << (bytes % 12);
    adopt(slot, hak_region_aligned_alloc(from, alignment, bytes), bytes, alignment, region);
  } else if (how >= 6) {
    unsigned char *block = hak_region_calloc(from, 1, bytes);
    CHECK(!block || all_zero(block, bytes));
    adopt(slot, block, bytes, 0, region);
  } else {
    adopt(slot, hak_region_malloc(from, bytes), bytes, 0, region);
  }
}

static void resize(Slot *slot, int region, bool into, size_t bytes) {
  Slot old = *slot;
  bytes |= 1;
  into = into && known[region].region;
  if (!old.block) {
    return;
  }
  int owner = into ? region : old.owner;
  owner = into || old.owner != NONE || old.place != NONE ? owner : scope();
  errno = 0;
  bool was_here = hak_region_of(old.block) == NULL; /* an ordinary block, or one of a region that was released */
  unsigned char *block =
      into ? hak_region_realloc(known[region].region, old.block, bytes) : hak_realloc(old.block, bytes);
  if (!block) {
    CHECK(errno == ENOMEM && (may_refuse(owner, bytes) || may_refuse(scope(), bytes)));
    CHECK(pattern_holds(old.block, old.bytes, old.bytes, tag_of(slot)));
    return;
  }
  CHECK(pattern_holds(block, bytes < old.bytes ? bytes : old.bytes, old.bytes, tag_of(slot)));
  hak_region_t *now = hak_region_of(block);
  CHECK(into ? now == known[region].region : was_here || now == known[old.owner].region);
  live_bytes -= old.bytes;
  slot->owner = NONE;
  for (int i = 0; i < REGIONS; i++) {
    slot->owner = now && known[i].region == now ? i : slot->owner;
  }
  slot->block = block;
  slot->bytes = bytes;
  slot->place = slot->owner != NONE && known[slot->owner].given ? slot->owner : NONE;
  live_bytes += bytes;
  pattern_fill(block, bytes, tag_of(slot));
  if (old.owner != slot->owner) {
    end_if_done(old.owner);
  }
}

/* It allocates; then it refuses, goes on, or raises the limit. */
static bool on_limit(hak_region_t *region, size_t bytes, hak_region_limit_kind_t limit, void *user) {
  Known *mine = user;
  CHECK(region == mine->region && bytes <= PTRDIFF_MAX);
  hak_free(hak_region_malloc(region, 40));
  hak_free(hak_malloc(40));
  if (mine->answer == 3 && limit == HAK_REGION_HARD && mine->hard < LIVE_BYTES_MAX) {
    mine->hard += SPARE_BYTES;
    hak_region_limit(region, 0, mine->hard);
  }
  return mine->answer > 1;
}

static void make(int region, unsigned how, size_t bytes) {
  static const size_t limits[] = {0, 0, 32 << 10, 1 << 20};
  Known *mine = &known[region];
  for (int i = 0; i < SLOTS; i++) { /* blocks of a released region may still lie there */
    if (slots[i].block && slots[i].place == region) {
      return;
    }
  }
  int parent = (int)(bytes % (REGIONS + 1)) - 1;
  bool child = parent != NONE && parent != region && known[parent].region;
  bool given = how == 15;
  *mine = (Known){.parent = child ? parent : NONE, .given = given, .hard = limits[how % 4], .answer = how / 4 % 4};
  hak_region_options_t options = {.name = "fuzz",
                                  .parent = child ? known[parent].region : NULL,
                                  .soft_limit = how % 4 == 3 ? mine->hard / 2 : 0,
                                  .hard_limit = mine->hard,
                                  .on_limit = mine->answer ? on_limit : NULL,
                                  .user = mine,
                                  .memory = given ? memory[region] : NULL,
                                  .memory_bytes = given ? GIVEN_BYTES : 0};
  mine->region = hak_region_new(&options);
  CHECK(mine->region);
}

static int count_block(void *block, size_t bytes, void *context) {
  size_t *sums = context;
  CHECK(hak_malloc_usable_size(block) == bytes);
  sums[0]++;
  sums[1] += bytes;
  return 0;
}

static void look(int region) {
  hak_region_usage_t usage;
  size_t walked[2] = {0, 0}, blocks = 0, bytes = 0, below = 0;
  CHECK(hak_region_usage(known[region].region, &usage));
  CHECK(hak_region_walk(known[region].region, count_block, walked) == 0);
  for (int i = 0; i < SLOTS; i++) {
    if (slots[i].block && slots[i].owner == region) {
      blocks++;
      bytes += hak_malloc_usable_size(slots[i].block);
    }
  }
  for (int i = 0; i < REGIONS; i++) {
    hak_region_usage_t part;
    if (known[i].region && known[i].parent == region) {
      CHECK(hak_region_usage(known[i].region, &part));
      below += part.used_bytes;
    }
  }
  CHECK(usage.live_blocks == blocks && usage.live_bytes == bytes && walked[0] == blocks && walked[1] == bytes);
  CHECK(usage.used_bytes >= usage.live_bytes + below && usage.peak_bytes >= usage.used_bytes);
  CHECK(usage.allocated_bytes - usage.freed_bytes == usage.live_bytes);
  CHECK(usage.limit_bytes == known[region].hard && (known[region].hard == 0 || usage.used_bytes <= known[region].hard));
}

/* Its blocks are gone (`keep`: are ordinary ones); with `tree`, those of its descendants too. */
static void end_blocks(int region, bool tree, bool keep) {
  for (int i = 0; i < SLOTS; i++) {
    if (slots[i].block && slots[i].owner != NONE &&
        (slots[i].owner == region || (tree && is_below(slots[i].owner, region)))) {
      if (keep) {
        slots[i].owner = NONE;
      } else {
        forget(&slots[i]);
      }
    }
  }
}

static void end_tree(int region, bool keep) {
  int parent = known[region].parent;
  for (int i = 0; i < REGIONS; i++) {
    if (known[i].region && is_below(i, region) && known[i].inside > 0) {
      return; /* misuse, which tests/regions/misuse.c commits */
    }
  }
  hak_region_t *top = known[region].region;
  end_blocks(region, true, keep);
  bool ends[REGIONS];
  for (int i = 0; i < REGIONS; i++) {
    ends[i] = known[i].region && is_below(i, region);
  }
  for (int i = 0; i < REGIONS; i++) {
    known[i].region = ends[i] ? NULL : known[i].region;
  }
  keep ? hak_region_release(top) : hak_region_destroy(top);
  end_if_done(parent);
}

static void leave(void) {
  int region = scopes[--depth];
  hak_region_leave(known[region].region);
  known[region].inside--;
  end_if_done(region);
}

static void change(int region, unsigned how) {
  Known *mine = &known[region];
  switch (how) {
  case 0:
  case 1:
    end_tree(region, how == 1);
    break;
  case 2:
    end_blocks(region, false, false);
    hak_region_reset(mine->region);
    end_if_done(region);
    break;
  case 3:
    hak_region_retire(mine->region);
    mine->retired = true;
    end_if_done(region);
    break;
  case 4:
  case 5:
  case 6:
    if (depth < DEPTH) {
      CHECK(hak_region_enter(mine->region));
      scopes[depth++] = region;
      mine->inside++;
    }
    break;
  default:
    look(region);
  }
}

static void run_one(const uint8_t *operation) {
  unsigned what = operation[0] % 16, how = operation[0] / 16;
  Slot *slot = &slots[operation[1] % SLOTS];
  int region = operation[1] / 16 % REGIONS;
  size_t bytes = decode_bytes(operation[2] | (unsigned)operation[3] << 8);
  if (bytes < PTRDIFF_MAX && live_bytes + bytes > LIVE_BYTES_MAX) {
    bytes %= 4096;
  }
  errno = 0;
  if (what < 6) {
    allocate(slot, region, how, bytes);
  } else if (what < 9) {
    drop(slot);
  } else if (what < 11) {
    resize(slot, region, how % 2 == 0, bytes);
  } else if (what == 11 && depth > 0) {
    leave();
  } else if (what == 12 && how > 13) {
    hak_check();
  } else if (known[region].region) {
    change(region, how);
  } else {
    make(region, how, bytes);
  }
}

void run_operations(const uint8_t *program, size_t length) {
  for (size_t at = 0; at + OPERATION_BYTES <= length; at += OPERATION_BYTES) {
    run_one(program + at);
  }
  while (depth > 0) {
    leave();
  }
  for (int i = 0; i < SLOTS; i++) {
    drop(&slots[i]);
  }
  for (int i = 0; i < REGIONS; i++) {
    if (known[i].region && known[i].parent == NONE) {
      look(i);
      end_tree(i, false);
    }
  }
  CHECK(live_bytes == 0);
  hak_check();
}
