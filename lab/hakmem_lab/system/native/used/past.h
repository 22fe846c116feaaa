// The file of a recorded history, which history.c replays: a head, then steps in the order of their time.
#ifndef USED_PAST_H
#define USED_PAST_H

#include <stdint.h>

#define PAST_MAGIC 0x3154534150u // "PAST1"

typedef struct {
  uint64_t magic, slots; // slot numbers are below
} past_head_t;

typedef enum { PAST_ALLOCATE, PAST_RESIZE, PAST_FREE, PAST_TOUCH } past_kind_t;

typedef struct {
  uint64_t size;
  uint32_t slot;
  uint8_t kind, alignment_log; // past_kind_t; 0: malloc's own alignment
  uint16_t zeroed;             // calloc
} past_step_t;

#endif
