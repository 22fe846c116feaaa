// The state that the writer and the reader of a thread's operations share at each operation, so that most slots and
// times need few bytes. Owned by the code that writes or reads the thread; no locks. Below: trace.h.
#ifndef TRACE_CODEC_H
#define TRACE_CODEC_H

#include <stdbool.h>
#include <stddef.h>

#include "trace.h"

// How a slot is encoded. Blocks of another thread use HINT_NEAR (same owner as the last time) or HINT_TOLD (owner
// first).
typedef enum {
  HINT_IMPLIED, // in an allocation: the slot freed last; else the slot allocated last
  HINT_NEXT,    // in an allocation: the first slot that was never used
  HINT_NEAR,    // zigzag difference to the last encoded slot
  HINT_TOLD,
} trace_hint_t;
#define HINT_SHIFT 4

typedef enum { MARK_NONE, MARK_SHORT, MARK_LONG } trace_mark_t;
#define MARK_SHIFT 6

typedef enum { COLUMN_CODES, COLUMN_SIZES, COLUMN_SLOTS, COLUMN_TIMES, COLUMN_EXTRAS } trace_column_t;

enum {
  CODEC_FREED = 4096, // number of last freed slots that are remembered, in a ring
  LEB128_BYTES = 10,
};

typedef struct {
  uint32_t freed[CODEC_FREED];
  uint32_t freed_top, freed_count;
  uint32_t slots;          // number of slots used so far
  uint32_t allocated;      // slot of the last allocation
  uint32_t reused;         // slot of the last allocation that encoded its slot
  uint32_t named;          // slot of the last operation on a block of this thread
  uint32_t owner, foreign; // owner and slot of the last operation on a block of another thread
  uint32_t awaited;        // thread of the last wait; awaited_count: its operations
  uint64_t awaited_count;
  uint64_t time_ns; // the sum of the marks
} trace_codec_t;

static inline void codec_push(trace_codec_t *codec, uint32_t slot) {
  codec->freed[codec->freed_top++ % CODEC_FREED] = slot;
  codec->freed_count += codec->freed_count < CODEC_FREED;
}

static inline uint32_t codec_top(const trace_codec_t *codec) {
  return codec->freed[(codec->freed_top - 1) % CODEC_FREED];
}

static inline void codec_pop(trace_codec_t *codec) {
  codec->freed_top--;
  codec->freed_count--;
}

static inline uint64_t zigzag(uint64_t difference) {
  return difference << 1 ^ (0 - (difference >> 63));
}

static inline uint64_t unzigzag(uint64_t code) {
  return code >> 1 ^ (0 - (code & 1));
}

static inline unsigned char *leb128_put(unsigned char *at, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    *at++ = (unsigned char)(value | 0x80);
  }
  *at++ = (unsigned char)value;
  return at;
}

// NULL if the number does not end before `end`, or has more than 64 bits.
static inline const unsigned char *leb128_get(const unsigned char *at, const unsigned char *end, uint64_t *value) {
  uint64_t sum = 0;
  for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
    uint64_t byte = *at++;
    if (shift == 63 && byte > 1) {
      return NULL;
    }
    sum |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = sum;
      return at;
    }
  }
  return NULL;
}

// A duration in a byte: 3 bits of mantissa, 5 of exponent. It is exact below 16 ns, and within 6 % above.
#define SHORT_LONGEST_NS (15ull << 30)

static inline uint64_t short_time(unsigned char code) {
  unsigned exponent = code >> 3;
  uint64_t mantissa = code & 7;
  return exponent == 0 ? mantissa : (8 + mantissa) << (exponent - 1);
}

// The code of the nearest duration; ns <= SHORT_LONGEST_NS.
static inline unsigned char short_code(uint64_t ns) {
  if (ns < 8) {
    return (unsigned char)ns;
  }
  unsigned shift = 60u - (unsigned)__builtin_clzll(ns);
  uint64_t rounded = (ns + (shift ? 1ull << (shift - 1) : 0)) >> shift; // 8 to 16; 16 carries into the exponent
  return (unsigned char)(((uint64_t)shift << 3) + rounded);
}

#endif
