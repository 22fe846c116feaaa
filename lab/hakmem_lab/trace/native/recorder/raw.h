// The recorder in the program passes 64-bit words to the collector, in buffers of shared memory; a thread has one
// buffer at a time. Zero is no word: it marks the end of the words written so far.
//
// A word: (address >> 3) << 20 | code. Codes below RAW_SIZE_LIMIT: malloc returned address, the code is the size.
// RAW_FREE: free is about to be called with address. All other words have code RAW_SIZE_LIMIT + kind (raw_kind_t), with
// their data in place of the address or in a further word. Allocations are recorded after the allocator returned, frees
// before it is called. So a block's free comes in time before the next allocation at its address, even in another
// thread. RAW_TIME: the field is the clock, in ticks >> 6 since the process's origin. One stands at the start of each
// buffer. The next one comes after 1 word, and the distance then doubles up to 64 words (512 in a process of one
// thread), unless the thread is slow. All words between two marks happened between their times.
#ifndef RAW_H
#define RAW_H

#include <stdint.h>

#define RAW_CODE_BITS 20
#define RAW_SIZE_LIMIT ((1u << RAW_CODE_BITS) - 16) // larger sizes, and this one, use RAW_LARGE

typedef enum {
  RAW_FREE,         // address
  RAW_TIME,         // clock
  RAW_LARGE,        // address; next word: size + 1
  RAW_CALLOC,       // address; next word: size + 1
  RAW_ALIGNED,      // address; next word: (size << 6 | logarithm of the alignment) + 1
  RAW_REALLOC_FROM, // address of a block that is about to be reallocated
  RAW_REALLOC_TO, // address (0: it failed, the old block lives on); next word: size + 1. Follows its RAW_REALLOC_FROM,
                  // TIME and TOUCHED words may lie between
  RAW_TOUCHED,    // address; next word: bytes touched from the start + 1
  RAW_FORK,       // number of the fork: the child with this number begins with the blocks that are live here
  RAW_THREAD_END,
  RAW_STACK, // number of a node (segment.h): the stack of the thread's next allocation or RAW_REALLOC_TO
} raw_kind_t;

static inline uint64_t raw_word(uint64_t field, uint32_t code) {
  return field << RAW_CODE_BITS | code;
}

#endif
