/* What the programs of this directory share. Each commits exactly one crime:
 *
 *   - announce(block): the pointer that the message has to name, on stdout; each program does it once;
 *   - the crime;
 *   - drain(bytes): use the heap until the crime is noticed. No block may be handed out twice on the way there.
 *
 * A program that ends by itself was not noticed. The runner (run_crime.py) judges.
 * Nothing here may allocate: with the library preloaded, stdio would disturb the heap of the crime. */
#ifndef HAK_TEST_CRIME_H
#define HAK_TEST_CRIME_H

#include <stddef.h>

#include "check.h"
#include "names.h"

enum { EXIT_HANDED_OUT_TWICE = 3 };

void announce(const void *block);

/* malloc that must work and is registered: ends the process with EXIT_HANDED_OUT_TWICE if the block is in use.
 * The first 16 bytes are overwritten, as a program would. */
void *take(size_t bytes);

/* Registers a block that came from elsewhere (realloc). */
void registered(const void *block);

/* Frees a block from take(). */
void give(void *block);

/* The same for many. */
void take_many(void **blocks, size_t count, size_t bytes);
void give_many(void **blocks, size_t count);

/* A crime of several programs: free(a), free(b), free(a), of two blocks of so many bytes. Announces a. */
void free_aba(size_t bytes);

/* A number that the test gives the program, as CRIME_NAME of its environment: one program serves for every size.
 * Without a number to fall back to, a missing one is a failed check. */
size_t crime_number(const char *name);
size_t crime_number_or(const char *name, size_t otherwise);

#define BLOCK_BYTES crime_number("BLOCK_BYTES")
#define NEW_BYTES crime_number("NEW_BYTES")
#define OTHER_BYTES crime_number("OTHER_BYTES")
#define MAPPING_BYTES crime_number("MAPPING_BYTES")
#define BYTES crime_number("BYTES")
#define OFFSET crime_number("OFFSET")
#define ADDRESS crime_number("ADDRESS")

/* With WARM_BYTES the program begins with a cache that keeps blocks of so many bytes, with WARM_ROOM more in use. */

/* Takes blocks until more were handed out than any cache of this size can hold. */
void drain(size_t bytes);

/* hak_thread_flush, found at run time when the library is preloaded. */
void flush_thread_cache(void);

#endif
