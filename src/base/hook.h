/* Duty: the one seam through which a folder reaches those above it. Each table is a constant that a file above fills
 * in, so an attacker finds no function pointer to overwrite. Data: none. Layers below: base. */
#pragma once

#include "vocabulary.h"

struct hak_heap;
struct hak_lock;
struct hak_owner;
struct hak_piece;
struct hak_sample;
struct hak_text;

/* What a thread sets aside during a call that other libraries may intercept. */
typedef struct hak_aside {
  void *heap, *operators;
  bool gone;  /* the thread is ending */
  bool scope; /* its requests go to a region */
} hak_aside_t;

/* For system/, by malloc/process.c. */
typedef struct hak_hook_heap {
  void (*step_aside)(hak_aside_t *aside);
  void (*step_back)(const hak_aside_t *aside);
  /* Say where an address lies, for the message of a misuse. A client of the program may read the message, so it has no
   * address, unless HAKMEM_VERBOSE=1 asks for it. */
  void (*write_place)(struct hak_text *text, const void *address);
  /* A thread ends. */
  void (*thread_ends)(void);
  /* The calling thread is none of the program's: it has no heap from here on. */
  void (*leave)(void);
  /* The process's madvise: another library's, or the one in malloc/protection.c. */
  int (*advise)(void *at, size_t bytes, int advice);
} hak_hook_heap_t;
extern const hak_hook_heap_t hak_hook_heap;

/* For threads/ and malloc/: the sampler and the hardened profile. */
typedef struct hak_hook {
  /* At start: put into force what the options ask for. The function tells a signal handler whether the thread holds a
   * lock of the heap. */
  void (*start)(bool (*holds_a_lock)(void));
  /* `inside`: a signal handler ends the process while the thread holds a lock. The profile is then not asked. */
  void (*exit)(bool inside);
  void (*each_lock)(void (*visit)(struct hak_lock *lock, bool flag), bool flag);
  /* In the child of a fork. NULL: the thread has no heap. */
  void (*fork_child)(struct hak_heap *mine);

  /* The sampler serves requests of up to HAK_SMALL_MAX bytes for which the batch is empty: NULL makes the heap find a
   * block. The profile serves all requests: NULL means that there is no memory. *zeroed: the block reads as zeros. */
  void *(*alloc)(size_t bytes, size_t align, bool *zeroed);
  /* Usable bytes. The sampler aborts, and names `function`, unless it knows the block. The profile aborts unless the
   * block is live, and returns HAK_UNSEALED for a block that is none of its small ones. */
  size_t (*usable)(const void *block, const char *function);
} hak_hook_t;

/* By inspect/sampler.c. While sampling is off, the heap calls these functions only for a refused request. */
typedef struct hak_hook_sampler {
  hak_hook_t part;
  /* The heap found a block and is about to hand it out. */
  void (*allocated)(void *block, size_t bytes);
  /* The heap refused a request for want of memory. */
  void (*refused)(size_t bytes);
  /* Free a block of class SAMPLED. Returns the class of a run or huge block, restored in the page map, which the caller
   * must free. HAK_CLASS_NONE: the hook freed it. */
  uint32_t (*free)(void *block);
  /* Before a run or huge block is resized: end its role as a sample. NULL: the block is no such sample. */
  struct hak_sample *(*lift)(const void *block);
  /* After the resize. `changed`: the block was freed; else it becomes a sample again. */
  void (*put_back)(struct hak_sample *sample, bool changed);
  /* A block of a region is about to be handed out; `bytes`: the request. */
  void (*in_region)(void *block, size_t bytes);
  /* A block of a region's piece was freed, sampled or not; NULL: all blocks of the piece were freed. */
  void (*out_of_region)(struct hak_piece *piece, const void *block);
  /* Part of hak_check(). */
  void (*check)(void);
} hak_hook_sampler_t;
extern const hak_hook_sampler_t hak_hook_sampler;

/* By hardened/hardened_large.c. Except `owner`, `place` and `why`, the heap calls these functions only in the profile.
 */
typedef struct hak_hook_hardened {
  hak_hook_t part;
  void *(*malloc)(size_t bytes);
  void (*free)(void *block);
  void (*free_sized)(void *block, size_t bytes);
  void *(*realloc)(void *block, uint32_t cls, size_t bytes);
  /* Of the profile's large blocks. NULL: the block is none. */
  const struct hak_owner *(*owner)(const void *block);
  /* The bytes of the large block around an address, and the offset in it. 0: there is none. */
  size_t (*place)(const void *address, size_t *offset);
  hak_misuse_t (*why)(const void *address);
  /* The heap returns a thread's blocks; then the thread or its heap ends. */
  void (*flush)(struct hak_heap *heap, const char *function);
  void (*close)(struct hak_heap *heap, const char *function);
  /* Give free pages to the system. */
  void (*trim)(void);
  /* Bytes that wait outside of the arena. */
  size_t (*waiting_bytes)(void);
  /* Memory is short: end the delays whose blocks this request needs. */
  void (*release)(size_t bytes);
} hak_hook_hardened_t;
extern const hak_hook_hardened_t hak_hook_hardened;
