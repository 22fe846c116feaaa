// The packer's parts, from the outside in:
//   pack.c        processes and their threads; the words handed over
//   pack_fork.c   what a forked child begins with
//   pack_order.c  whose word comes next
//   pack_rival.c  where several threads name an address at about the same time: who is first
//   pack_apply.c  what a word does: blocks, slots, hand-overs, operations for the writer
//   pack_table.c  live blocks by address
//   pack_queue.c  a thread's words, free slots, and what it knows of others
// One caller at a time; nothing here locks.
#ifndef PACK_PARTS_H
#define PACK_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "pack.h"

#define PACK_THREADS_MOST (1u << 20) // threads of a process; a block's owner fits in 20 bits

// An address is kept without its lowest three bits, as in a word. Address 0: no block here.
typedef struct {
  uint64_t address : 44, owner : 20;
  uint64_t slot : 32, definer : 20, alignment : 6, zeroed : 1;
  uint64_t defined : 44, order_high : 20; // operations of the definer when it had last done something to the block
  uint64_t size : 44, order_low : 20;     // order: of its allocation within the process
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

// For one more.
static inline int pack_table_room(pack_table_t *table) {
  return table->count < table->mask / 3 * 2 ? 0 : pack_table_grow(table);
}

static inline size_t pack_table_home(const pack_table_t *table, uint64_t address) {
  return (size_t)(address * 0x9e3779b97f4a7c15u >> table->shift);
}

// The block at this address, or the empty place where it would be put.
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
  uint64_t count; // of the freer's operations once it had freed the slot
} pack_returned_t;

typedef struct {
  uint32_t *own; // freed by their owner, last first
  size_t own_count, own_capacity;
  pack_returned_t *returned; // freed by others: a ring, first first
  size_t returned_at, returned_count, returned_capacity;
  uint32_t used; // numbers given out so far
} pack_slots_t;

typedef struct {
  uint32_t thread; // + 1; 0: none
  uint64_t count;
} pack_known_t;

// Of other threads: how many operations it is sure to have seen done.
typedef struct {
  pack_known_t *entries;
  size_t capacity, count;
} pack_knowledge_t;

// The words between two marks are a part: they happened between these times, the first of them at the first one.
#define PACK_SIGNATURE 4
typedef struct {
  uint64_t count;     // operations written
  bool ended;         // only what is above is left of it
  bool listed;        // among those with words left
  bool waiting, ripe; // ripe: all that matters for the order of its part is at hand
  uint64_t *words;
  size_t at, end, capacity;
  uint64_t half;                      // the first word of a record whose second was not handed over yet; 0: none
  size_t settled;                     // words before this one had been handed over before the last call of pack_advance
  size_t marked;                      // the word after the last mark passed
  size_t stop;                        // of the part that is being put in order
  uint64_t mark, high;                // its times
  uint64_t lasted;                    // the part before
  uint64_t key;                       // when its next word has its turn
  uint64_t deadline;                  // what its words wait for has happened by then
  uint64_t addresses[PACK_SIGNATURE]; // bits of the addresses it names
  uint64_t time_ns;                   // of a mark that no operation carries yet; 0: none
  uint32_t stack;                     // of its next allocation; 0: it was not asked for
  bool reallocating;                  // moved holds the block of a RAW_REALLOC_FROM
  pack_block_t moved;                 // address 0: an unknown one
  pack_slots_t slots;
  pack_knowledge_t knowledge;
} pack_thread_t;

typedef struct {
  uint64_t key;
  uint32_t thread;
} pack_turn_t;

// Who takes, or gives, an address in the parts of all threads, by its hash.
typedef struct {
  uint32_t thread, other; // + 1; other: 0: there is none, PACK_SEVERAL
  uint32_t words;
} pack_tag_t;
#define PACK_SEVERAL UINT32_MAX

typedef struct pack_process {
  pack_t *pack;
  uint32_t number;
  pack_table_t table;
  pack_thread_t **threads; // NULL: not seen yet
  size_t thread_count;
  uint64_t order;                                // allocations so far
  uint32_t last, last_ended;                     // threads + 1: whoever did the last operation, whoever ended last
  uint32_t *busy;                                // threads with words left
  pack_turn_t *turns;                            // a heap of those that may go on
  size_t busy_count, turns_count, busy_capacity; // of both
  pack_tag_t *tags;                              // NULL: one thread only has words left
  size_t tags_mask;
  uint64_t now;   // time, as far as the order has come
  uint64_t clock; // pack_advance's
  unsigned depth; // threads that wait for each other
  pack_counts_t counts;

  long parent; // of a child whose inheritance is not there yet, else -1
  uint64_t fork;
  unsigned patience; // advances of the parent until it is given up
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
  pack_inheritance_t *inheritances; // the newest first
  size_t waiting_children;          // for what they begin with
};

// pack_queue.c
pack_thread_t *pack_thread_at(pack_process_t *, uint32_t thread); // NULL: EINVAL, ENOMEM
int pack_words_append(pack_thread_t *, const uint64_t *words, size_t count);
void pack_words_passed(pack_thread_t *); // gives back the room of words passed
int pack_slot_give(pack_slots_t *, uint32_t slot);
int pack_slot_return(pack_slots_t *, pack_returned_t);
uint64_t pack_known(const pack_knowledge_t *, uint32_t thread);
int pack_learn(pack_process_t *, pack_knowledge_t *, uint32_t thread, uint64_t count);
void pack_thread_release(pack_thread_t *); // what an ended thread does not need
void pack_thread_shrink(pack_process_t *, uint32_t thread);

#define PACK_LOW_BITS(value, bits) \
  ((value) & (((uint64_t)1 << (bits)) - 1)) // an inline function would hide that it fits

// pack_block.c
// What is said of a new block.
typedef struct {
  uint64_t address, size;
  trace_kind_t kind;
  uint32_t alignment;
} pack_request_t;

int pack_put(pack_process_t *, uint32_t thread, trace_operation_t);
int pack_wait(pack_process_t *, uint32_t thread, const pack_block_t *); // until it was defined
int pack_allocate(pack_process_t *, uint32_t thread, pack_block_t *place, pack_request_t);
int pack_release(pack_process_t *, uint32_t thread, pack_block_t *);
// The next words of its part, as long as they are plain: they can come, and no other thread wants the same.
int pack_apply_plain(pack_process_t *, uint32_t thread);
int pack_inherited(pack_process_t *, const pack_block_t *); // thread 0 allocates it

// pack_apply.c
enum { PACK_DONE = 0, PACK_BLOCKED = 1 };
// Does what the record at thread->at says, and passes it. PACK_BLOCKED: it cannot come now; forced: then what is
// missing was lost. -1 with errno.
int pack_apply(pack_process_t *, uint32_t thread, bool forced);
// pack_order.c
int pack_order(pack_process_t *, uint64_t clock);
bool pack_next_part(pack_process_t *, uint32_t thread); // false: no words
int pack_list(pack_process_t *, uint32_t thread);       // it has words left

// pack_rival.c
typedef struct {
  uint32_t thread;
  size_t at; // the word
} pack_place_t;
int pack_tags_open(pack_process_t *, size_t words);    // room for so many
void pack_tags_add(pack_process_t *, uint32_t thread); // the words of its part
// Who should come before the next word of this thread, which could come now; tag: that word's. False: nobody.
bool pack_rival(const pack_process_t *, uint32_t thread, const pack_tag_t *tag, pack_place_t *);
// Who can do by now what the next word of this thread waits for. False: nobody.
bool pack_provider(const pack_process_t *, uint32_t thread, pack_place_t *);

// pack_fork.c
int pack_fork(pack_process_t *, uint64_t fork);     // keeps what is live
bool pack_inheritance(const pack_process_t *child); // whether it is there
int pack_inherit(pack_process_t *child);            // it is
void pack_inheritances_close(pack_t *);

static inline uint32_t pack_code(uint64_t word) {
  return (uint32_t)word & ((1u << RAW_CODE_BITS) - 1);
}

static inline uint64_t pack_field(uint64_t word) {
  return word >> RAW_CODE_BITS;
}

// What a word says of its address: that it is in use from now on, or was until now.
typedef enum { PACK_NEITHER, PACK_TAKES, PACK_GIVES } pack_claim_t;

typedef struct {
  uint8_t words; // of the record; 0: one
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
  return pack_field(word) != 0 ? (pack_claim_t)pack_kind(word).claim : PACK_NEITHER; // realloc knows of no address 0
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
