// Turns the recorder's words into a trace: finds for each free the allocation it belongs to, in whichever thread, and
// keeps of the order between threads what a block that changes hands needs. Not thread-safe. 0, or -1 with errno.
// Memory: the live blocks, and the words not yet passed by pack_advance.
#ifndef PACK_H
#define PACK_H

#include "format/write.h"
#include "recorder/raw.h"

typedef struct pack pack_t;

pack_t *pack_open(trace_writer_t *, double ns_per_clock); // of a RAW_TIME's field
// A process appears. parent: its number, or -1; fork: the number of the RAW_FORK it began with (its live blocks are
// inherited: allocated by thread 0 of the new process at its start), 0: it begins empty. Returns its number, or -1.
long pack_process(pack_t *, long parent, uint64_t fork);
// More words of a thread, in order. Threads are numbered from 0 by the caller.
int pack_words(pack_t *, uint32_t process, uint32_t thread, const uint64_t *words, size_t count);
// All that happened in this process before this clock has been handed over: it can be put in order. UINT64_MAX: all of
// it.
int pack_advance(pack_t *, uint32_t process, uint64_t clock);
int pack_process_end(pack_t *, uint32_t process); // advances to the end, forgets its blocks
typedef struct {
  uint64_t operations; // the program's: the next three
  uint64_t allocations, frees, reallocations;
  uint64_t handed_over;             // frees and reallocations of another thread's block
  uint64_t unknown_frees;           // of blocks older than the recording
  uint64_t lost_frees;              // blocks whose address was handed out again without a free that was seen
  uint64_t damaged;                 // words that say nothing, or came after their thread's end
  uint64_t live_bytes, live_blocks; // now
} pack_counts_t;
void pack_counts(const pack_t *, uint32_t process, pack_counts_t *);
void pack_close(pack_t *);

#endif
