// The packer's parts, from the outside in:
//   pack.c        processes and their threads; the words they are given
//   fork.c        the blocks that a forked child inherits
//   order.c       the order of the words of all threads
//   rival.c       which thread is first where several name an address at about the same time
//   apply.c       the effects of a word: blocks, slots, waits, operations for the writer
//   table.c       live blocks by address
//   queue.c       a thread's words, its free slots, and its knowledge of other threads
// One caller at a time; there are no locks.
#ifndef PACK_PARTS_H
#define PACK_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "pack.h"

#define PACK_THREADS_MOST (1u << 20) // threads of a process; a block's owner fits in 20 bits

// A block. Its address lacks the lowest three bits, as in a word; 0: the place is empty.
typedef struct {
  uint64_t address : 44, owner : 20;
  uint64_t slot : 32, definer : 20, alignment : 6, zeroed : 1;
  uint64_t defined : 44, order_high : 20; // defined: the definer's count after its last operation on the block
  uint64_t size : 44, order_low : 20;     // order: number of its allocation in the process
} pack_block_t;
#define PACK_SIZE_MOST ((1ull << 44) - 1)

typedef struct {
  pack_block_t *blocks;
  size_t mask, count;
  unsigned shift;
} pack_table_t;

int pack_table_open(pack_table_t *);
void pack_table_close(pack_table_t *);
int pack_table_grow(pack_table_t *);
void pack_table_remove(pack_table_t *, pack_block_t *);

// Makes room for one more block.
static inline int pack_table_room(pack_table_t *table) {
  return table->count < table->mask / 3 * 2 ? 0 : pack_table_grow(table);
}

static inline size_t pack_table_home(const pack_table_t *table, uint64_t address) {
  return (size_t)(address * 0x9e3779b97f4a7c15u >> table->shift);
}

// The block at this address, or the empty place for it.
static inline pack_block_t *pack_table_find(const pack_table_t *table, uint64_t address) {
  size_t at = pack_table_home(table, address);
  while (table->blocks[at].address != address && table->blocks[at].address != 0) {
    at = (at + 1) & table->mask;
  }
  return &table->blocks[at];
}

static inline void pack_table_prefetch(const pack_table_t *table, uint64_t address) {
  __builtin_prefetch(&table->blocks[pack_table_home(table, address)], 1);
}

typedef struct {
  uint32_t slot, freer;
  uint64_t count; // the freer's count of operations after the free
} pack_returned_t;

typedef struct {
  uint32_t *own; // slots freed by their owner: a stack
  size_t own_count, own_capacity;
  pack_returned_t *returned; // slots freed by others: a queue in a ring
  size_t returned_at, returned_count, returned_capacity;
  uint32_t used; // number of slots used so far
} pack_slots_t;

typedef struct {
  uint32_t thread; // number + 1; 0: none
  uint64_t count;
} pack_known_t;

// How many operations of other threads are surely done at this point of a thread.
typedef struct {
  pack_known_t *entries;
  size_t capacity, count;
} pack_knowledge_t;

// The words between two marks are a part. They happened between the times of the marks, the first word at the first
// mark.
#define PACK_SIGNATURE 4
typedef struct {
  uint64_t count;     // number of operations written
  bool ended;         // only the fields above are still valid
  bool listed;        // it is in pack_process_t.busy
  bool waiting, ripe; // ripe: all words that decide the order of its part are here
  uint64_t *words;
  size_t at, end, capacity;
  uint64_t half;                      // first word of a record whose second has not come yet; 0: none
  size_t settled;                     // words before this one had come before the previous pack_advance
  size_t marked;                      // the word after the last mark passed
  size_t stop;                        // end of the part that is being ordered
  uint64_t mark, high;                // start and end time of this part
  uint64_t lasted;                    // duration of the previous part
  uint64_t key;                       // time at which its next word has its turn
  uint64_t deadline;                  // words that its words wait for happened before this time
  uint64_t addresses[PACK_SIGNATURE]; // Bloom filter of the addresses that the part names
  uint64_t time_ns;                   // time of the last mark until an operation carries it; 0: none
  uint32_t stack;                     // stack of its next allocation; 0: not recorded
  bool reallocating;                  // `moved` holds the block of a RAW_REALLOC_FROM
  pack_block_t moved;                 // address 0: an unknown block
  pack_slots_t slots;
  pack_knowledge_t knowledge;
} pack_thread_t;

typedef struct {
  uint64_t key;
  uint32_t thread;
} pack_turn_t;

// The threads that take, or give, an address in their present parts, by the hash of the address.
typedef struct {
  uint32_t thread, other; // numbers + 1; 0: none; other may be PACK_SEVERAL
  uint32_t words;
} pack_tag_t;
#define PACK_SEVERAL UINT32_MAX

typedef struct pack_process {
  pack_t *pack;
  uint32_t number;
  pack_table_t table;
  pack_thread_t **threads; // NULL: not seen yet
  size_t thread_count;
  uint64_t order;                                // number of allocations so far
  uint32_t last, last_ended;                     // number + 1 of the thread that operated last, and that ended last
  uint32_t *busy;                                // threads with words left
  pack_turn_t *turns;                            // a heap of the threads that may continue
  size_t busy_count, turns_count, busy_capacity; // busy_capacity: of busy and turns
  pack_tag_t *tags;                              // NULL: at most one thread has words left
  size_t tags_mask;
  uint64_t now;   // latest time that has been ordered
  uint64_t clock; // clock of the last pack_advance
  unsigned depth; // present chain of threads that wait for each other
  pack_counts_t counts;

  long parent; // parent of a child that waits for its inheritance, else -1
  uint64_t fork;
  unsigned patience; // advances of the parent until the child stops waiting
  bool any_word, ending, closed;
} pack_process_t;

// A process's blocks at a fork, in the order of their allocation.
typedef struct pack_inheritance {
  struct pack_inheritance *next;
  uint32_t process;
  uint64_t fork;
  size_t count;
  pack_block_t blocks[];
} pack_inheritance_t;

struct pack {
  trace_writer_t *writer;
  double ns_per_clock;
  uint64_t slack; // in clocks
  pack_process_t **processes;
  size_t process_count, process_capacity;
  pack_inheritance_t *inheritances; // newest first
  size_t waiting_children;          // children that wait for their inheritance
};

// queue.c
pack_thread_t *pack_thread_at(pack_process_t *, uint32_t thread); // NULL: EINVAL, ENOMEM
int pack_words_append(pack_thread_t *, const uint64_t *words, size_t count);
void pack_words_passed(pack_thread_t *); // frees the room of applied words
int pack_slot_give(pack_slots_t *, uint32_t slot);
int pack_slot_return(pack_slots_t *, pack_returned_t);
uint64_t pack_known(const pack_knowledge_t *, uint32_t thread);
int pack_learn(pack_process_t *, pack_knowledge_t *, uint32_t thread, uint64_t count);
void pack_thread_release(pack_thread_t *); // frees what an ended thread does not need
void pack_thread_shrink(pack_process_t *, uint32_t thread);

#define PACK_LOW_BITS(value, bits) \
  ((value) & (((uint64_t)1 << (bits)) - 1)) // a macro, so that the compiler sees that it fits

// block.c
// The request for a new block.
typedef struct {
  uint64_t address, size;
  trace_kind_t kind;
  uint32_t alignment;
} pack_request_t;

int pack_put(pack_process_t *, uint32_t thread, trace_operation_t);
int pack_wait(pack_process_t *, uint32_t thread, const pack_block_t *); // waits for the last operation on the block
int pack_allocate(pack_process_t *, uint32_t thread, pack_block_t *place, pack_request_t);
int pack_release(pack_process_t *, uint32_t thread, pack_block_t *);
// Applies the next words of the part while they are plain mallocs and frees that can come now and whose address no
// other thread names.
int pack_apply_plain(pack_process_t *, uint32_t thread);
int pack_inherited(pack_process_t *, const pack_block_t *); // allocates the block in thread 0

// apply.c
enum { PACK_DONE = 0, PACK_BLOCKED = 1 };
// Applies the record at thread->at, and passes it. PACK_BLOCKED: it cannot come now. forced: it comes even so, since
// the missing word was lost. -1 with errno.
int pack_apply(pack_process_t *, uint32_t thread, bool forced);
// order.c
int pack_order(pack_process_t *, uint64_t clock);
bool pack_next_part(pack_process_t *, uint32_t thread); // false: no words left
int pack_list(pack_process_t *, uint32_t thread);       // lists a thread that has words left

// rival.c
typedef struct {
  uint32_t thread;
  size_t at; // index of the word
} pack_place_t;
int pack_tags_open(pack_process_t *, size_t words);    // empties the tags, and makes room
void pack_tags_add(pack_process_t *, uint32_t thread); // adds the words of the thread's part
// The word of another thread that should come before the next word of this one, which could come now. tag: of that next
// word. False: there is none.
bool pack_rival(const pack_process_t *, uint32_t thread, const pack_tag_t *tag, pack_place_t *);
// The word of another thread for which the next word of this one waits, if it can come now. False: there is none.
bool pack_provider(const pack_process_t *, uint32_t thread, pack_place_t *);

// fork.c
int pack_fork(pack_process_t *, uint64_t fork);     // keeps the live blocks for the child
bool pack_inheritance(const pack_process_t *child); // whether the inheritance is there
int pack_inherit(pack_process_t *child);            // requires pack_inheritance
void pack_inheritances_close(pack_t *);

static inline uint32_t pack_code(uint64_t word) {
  return (uint32_t)word & ((1u << RAW_CODE_BITS) - 1);
}

static inline uint64_t pack_field(uint64_t word) {
  return word >> RAW_CODE_BITS;
}

// The claim of a word on its address: TAKES: in use from now on; GIVES: in use until now.
typedef enum { PACK_NEITHER, PACK_TAKES, PACK_GIVES } pack_claim_t;

typedef struct {
  uint8_t words; // words of the record; 0: one
  uint8_t claim; // pack_claim_t
} pack_kind_t;

static inline pack_kind_t pack_kind(uint64_t word) {
  static const pack_kind_t kinds[(1 << RAW_CODE_BITS) - RAW_SIZE_LIMIT] = {
      [RAW_FREE] = {1, PACK_GIVES},      [RAW_LARGE] = {2, PACK_TAKES},        [RAW_CALLOC] = {2, PACK_TAKES},
      [RAW_ALIGNED] = {2, PACK_TAKES},   [RAW_REALLOC_FROM] = {1, PACK_GIVES}, [RAW_REALLOC_TO] = {2, PACK_TAKES},
      [RAW_TOUCHED] = {2, PACK_NEITHER},
  };
  uint32_t code = pack_code(word);
  return code < RAW_SIZE_LIMIT ? (pack_kind_t){1, PACK_TAKES} : kinds[code - RAW_SIZE_LIMIT];
}

static inline size_t pack_record_words(uint64_t word) {
  return pack_kind(word).words == 2 ? 2 : 1;
}

static inline pack_claim_t pack_claim(uint64_t word) {
  return pack_field(word) != 0 ? (pack_claim_t)pack_kind(word).claim : PACK_NEITHER; // realloc may name address 0
}

static inline void pack_tag_drop(pack_tag_t *tag) {
  if (--tag->words == 0) {
    *tag = (pack_tag_t){0};
  }
}

static inline uint64_t pack_hash(uint64_t address) {
  uint64_t mixed = address * 0x9e3779b97f4a7c15u;
  return (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u >> 32;
}

static inline pack_tag_t *pack_tag(const pack_process_t *process, uint64_t address, pack_claim_t claim) {
  return &process->tags[(pack_hash(address) + claim) & process->tags_mask];
}

#endif
