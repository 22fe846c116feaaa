/* Misuse of sampled blocks, and of blocks in a counted batch. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "child.h"
#include "hakmem.h"
#include "inspect/sample.h"
#include "pages/pagemap.h"
#include "threads/heap.h"

enum { ALL = 1, RARE = 1 << 28 };

static hak_batch_t *grant_of(size_t bytes) {
  return &hak_heap->batch[hak_class_of(bytes) - 1];
}

static char *sampled(size_t bytes) {
  static char *blocks[2];
  CHECK(hak_sample_start(ALL));
  blocks[0] = hak_malloc(bytes);
  blocks[1] = hak_malloc(bytes); /* so that the slice stays */
  CHECK(hak_pagemap_class(blocks[0]) == HAK_CLASS_SAMPLED);
  return blocks[0];
}

#define STOPPED(name, bytes, offset, crime, function, reason) \
  static void name##_body(void) { \
    char *block = sampled(bytes); \
    fprintf(stderr, "%p\n", (void *)(block + (offset))); \
    crime; \
  } \
  static void name(void) { \
    is_stopped(name##_body, function, reason); \
  }

/* Like child_is_stopped, but only the child knows the address. */
static void is_stopped(void (*body)(void), const char *function, const char *reason) {
  static ChildResult result;
  char expected[128], place[32], *end = NULL;
  child_run(body, &result);
  unsigned long address = strtoul(result.errors, &end, 16);
  snprintf(expected, sizeof expected, "\nhakmem: %s(): %s: ", function, reason);
  snprintf(place, sizeof place, ": 0x%lx\n", address);
  bool as_expected = strncmp(end, expected, strlen(expected)) == 0 && strstr(end + strlen(expected), place);
  if (!as_expected) {
    fprintf(stderr, "expected %s instead of %s", expected, end);
  }
  CHECK(as_expected);
}

STOPPED(double_free_of_a_slot, 100, 0, hak_free(block); hak_free(block), "free", "double free")
STOPPED(double_free_of_slices, 10000, 0, hak_free(block); hak_free(block), "free", "double free")
STOPPED(free_inside_a_slot, 1000, 16, hak_free(block + 16), "free", "not the start of a block")
STOPPED(free_inside_a_run, 100000, 16, hak_free(block + 16), "free", "not the start of a block")
STOPPED(free_of_a_slot_never_used, 1000, 8192, hak_free(block + 8192), "free", "invalid pointer")
STOPPED(realloc_of_a_freed_slot, 100, 0, hak_free(block); (void)hak_realloc(block, 200), "realloc", "double free")
STOPPED(size_of_a_freed_slot, 100, 0, hak_free(block);
        (void)hak_malloc_usable_size(block), "malloc_usable_size", "double free")
STOPPED(write_to_a_freed_slot, 100, 0, hak_free(block); memset(block, 9, 16);
        (void)hak_malloc(100), "malloc", "double free or corrupted free block")

static char *batch_magazine(void) {
  for (int i = 0; i < 20; i++) { /* the first blocks of a class come one by one */
    hak_malloc(300);
  }
  CHECK(hak_sample_start(RARE));
  hak_free(hak_malloc(300));
  char *block = (char *)grant_of(300)->head;
  fprintf(stderr, "%p\n", (void *)block);
  return block;
}
static void write_to_a_granted_block_body(void) {
  memset(batch_magazine(), 9, 16);
  (void)hak_malloc(300);
}
static void write_to_a_granted_block(void) {
  is_stopped(write_to_a_granted_block_body, "malloc", "double free or corrupted free block");
}
static void realloc_of_a_granted_block_body(void) {
  (void)hak_realloc(batch_magazine(), 1);
}
static void realloc_of_a_granted_block(void) {
  is_stopped(realloc_of_a_granted_block_body, "realloc", "double free");
}
static void verification_sees_grants_body(void) {
  memset(batch_magazine(), 9, 16);
  hak_heap_verify_mine("test");
}
static void verification_sees_grants(void) {
  is_stopped(verification_sees_grants_body, "test", "double free or corrupted free block");
}
static void check_sees_grants_body(void) {
  memset(batch_magazine(), 9, 16);
  hak_check();
}
static void check_sees_grants(void) {
  is_stopped(check_sees_grants_body, "hak_check", "double free or corrupted free block");
}
static void free_of_a_granted_block_body(void) {
  char *block = batch_magazine();
  hak_bin_t *bin = &hak_heap->bin[hak_class_of(300)];
  hak_policy_set_capacity(hak_heap, hak_class_of(300), hak_bin_blocks(hak_heap, hak_class_of(300)));
  CHECK(bin->end == atomic_load(&bin->top)); /* no room, so the block is checked */
  hak_free(block);
}
static void free_of_a_granted_block(void) {
  is_stopped(free_of_a_granted_block_body, "free", "double free");
}

int main(void) {
  double_free_of_a_slot();
  double_free_of_slices();
  free_inside_a_slot();
  free_inside_a_run();
  free_of_a_slot_never_used();
  realloc_of_a_freed_slot();
  size_of_a_freed_slot();
  write_to_a_freed_slot();
  write_to_a_granted_block();
  realloc_of_a_granted_block();
  verification_sees_grants();
  check_sees_grants();
  free_of_a_granted_block();
  return 0;
}
