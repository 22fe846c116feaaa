// Turns the recorder's words into a trace. It finds the allocation of each free, even in another thread, and keeps as
// much order between threads as the blocks need that change threads. Not thread-safe. The functions return 0, or -1
// with errno. Memory use: the live blocks, and the words that pack_advance has not ordered yet.
#ifndef PACK_H
#define PACK_H

#include "format/write.h"
#include "recorder/raw.h"

typedef struct pack pack_t;

pack_t *pack_open(trace_writer_t *, double ns_per_clock); // nanoseconds per unit of a RAW_TIME's field
// Adds a process. parent: number of its parent, or -1. fork: number of the RAW_FORK with which it began; 0: it begins
// without blocks. It inherits the blocks live at the fork: its thread 0 allocates them at the start. Returns its
// number, or -1.
long pack_process(pack_t *, long parent, uint64_t fork);
// Adds words of a thread, in order. The caller numbers the threads from 0.
int pack_words(pack_t *, uint32_t process, uint32_t thread, const uint64_t *words, size_t count);
// Orders the words of a process. All its words from before this clock have been added; UINT64_MAX: all words.
int pack_advance(pack_t *, uint32_t process, uint64_t clock);
int pack_process_end(pack_t *, uint32_t process); // orders the remaining words, then forgets the blocks
typedef struct {
  uint64_t operations; // sum of the next three
  uint64_t allocations, frees, reallocations;
  uint64_t handed_over;             // frees and reallocations of another thread's block
  uint64_t unknown_frees;           // frees of blocks older than the recording
  uint64_t lost_frees;              // blocks whose address was allocated again without a recorded free
  uint64_t damaged;                 // invalid words, and words after their thread's end
  uint64_t live_bytes, live_blocks; // at present
} pack_counts_t;
void pack_counts(const pack_t *, uint32_t process, pack_counts_t *);
void pack_close(pack_t *);

#endif
