// What the recorder inside the program hands to the collector outside: words of 64 bits in buffers of shared memory,
// one buffer a thread at a time. Zero is no word: it ends what was written so far.
//
// A word: (address >> 3) << 20 | code. Codes below RAW_SIZE_LIMIT: malloc returned address, the code is the size.
// RAW_FREE: free is about to be called with address. The others: code RAW_SIZE_LIMIT + kind (raw_kind_t), with what
// they say in place of the address or in further words. Allocations are recorded after the allocator returned, frees
// before it is called: so by time, a block's free comes before the next allocation at its address, in whichever
// threads. RAW_TIME: the field is the clock, in ticks >> 6 since the process's origin; one stands at the start of each
// buffer. The next one comes after 1 word, and so on after twice as many each time, up to 64 (512 in a process of one
// thread), for as long as the thread is not slow: what lies between two marks happened between these times.
#ifndef RAW_H
#define RAW_H

#include <stdint.h>

#define RAW_CODE_BITS 20
#define RAW_SIZE_LIMIT ((1u << RAW_CODE_BITS) - 16) // sizes of this and more: RAW_LARGE

typedef enum {
  RAW_FREE,         // address
  RAW_TIME,         // clock
  RAW_LARGE,        // address; next word: size + 1
  RAW_CALLOC,       // address; next word: size + 1
  RAW_ALIGNED,      // address; next word: (size << 6 | logarithm of the alignment) + 1
  RAW_REALLOC_FROM, // address: about to be reallocated
  RAW_REALLOC_TO, // address (0: it failed, the old block lives on); next word: size + 1. Follows its RAW_REALLOC_FROM,
                  // TIME and TOUCHED words may lie between
  RAW_TOUCHED,    // address; next word: bytes touched from the start + 1
  RAW_FORK,       // number of the fork: the child that says this number begins with what is live here
  RAW_THREAD_END,
  RAW_STACK, // number of a node (segment.h): whence the thread's next allocation, or RAW_REALLOC_TO, was called
} raw_kind_t;

static inline uint64_t raw_word(uint64_t field, uint32_t code) {
  return field << RAW_CODE_BITS | code;
}

#endif
