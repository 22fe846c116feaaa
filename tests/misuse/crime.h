/* Functions that the programs of this directory share. Each program commits exactly one crime, in three steps:
 *
 *   - announce(block), called once: writes to stdout the pointer that the message must name;
 *   - the crime;
 *   - drain(bytes): uses the heap until the crime is noticed. Meanwhile no block may be handed out twice.
 *
 * If a program ends by itself, its crime was not noticed. The runner (run_crime.py) judges.
 * No function here may allocate: with the library preloaded, stdio would disturb the heap. */
#ifndef HAK_TEST_CRIME_H
#define HAK_TEST_CRIME_H

#include <stddef.h>

#include "check.h"
#include "names.h"

enum { EXIT_HANDED_OUT_TWICE = 3 };

void announce(const void *block);

/* Calls malloc, which must succeed, and registers the block. Ends the process with EXIT_HANDED_OUT_TWICE if the block
 * is in use. Overwrites the first 16 bytes, as a program would. */
void *take(size_t bytes);

/* Registers a block that came from elsewhere (realloc). */
void registered(const void *block);

/* Frees a block from take(). */
void give(void *block);

/* The same for many. */
void take_many(void **blocks, size_t count, size_t bytes);
void give_many(void **blocks, size_t count);

/* A crime that several programs share: free(a), free(b), free(a), of two blocks of so many bytes. Announces a. */
void free_aba(size_t bytes);

/* A number that the test passes in the environment as CRIME_NAME, so that one program serves for every size. If it is
 * missing, the first function fails, and the second returns `otherwise`. */
size_t crime_number(const char *name);
size_t crime_number_or(const char *name, size_t otherwise);

#define BLOCK_BYTES crime_number("BLOCK_BYTES")
#define NEW_BYTES crime_number("NEW_BYTES")
#define OTHER_BYTES crime_number("OTHER_BYTES")
#define MAPPING_BYTES crime_number("MAPPING_BYTES")
#define BYTES crime_number("BYTES")
#define OFFSET crime_number("OFFSET")
#define ADDRESS crime_number("ADDRESS")

/* With WARM_BYTES set, the program first makes its cache keep blocks of so many bytes, while WARM_ROOM others are in
 * use. */

/* Takes blocks until more were handed out than any cache of this size can hold. */
void drain(size_t bytes);

/* hak_thread_flush, found at run time when the library is preloaded. */
void flush_thread_cache(void);

#endif
