/* Duty: read bytes as the plan of a trace, so that what a fuzzer changes arrives behind checksums and compression.
 * One thread; the file is this module's, made anew for each input.
 *
 * The first byte: PLAN_FILE: what follows is the file itself; PLAN_REPAIRED: the same, its checksums put right;
 * others: records follow. A record is a byte (its low three bits say what) and:
 *   operations  process, thread, flags, slots (16 bits; used if flags & 1), five lengths of columns (16 bits), columns
 *   repeated    process, thread, code, count (16 bits): that many operations of one code, with sizes of 0
 *   text        process, kind, length (16 bits), bytes
 *   end         complete, length (16 bits), bytes
 *   raw         length (16 bits), bytes: go into the file as they are
 *   cut         length (16 bits): as many bytes are taken off the end */
#ifndef HAK_TEST_TRACE_INPUT_H
#define HAK_TEST_TRACE_INPUT_H

#include <stddef.h>
#include <stdint.h>

enum { PLAN_RECORDS, PLAN_FILE, PLAN_REPAIRED };
enum { RECORD_OPERATIONS, RECORD_REPEATED, RECORD_TEXT, RECORD_END, RECORD_RAW, RECORD_CUT, RECORD_KINDS };
enum { PLAN_PROCESSES = 4, PLAN_THREADS = 16 }; /* numbers are taken modulo these, so that they meet */

/* The path of a trace as these bytes plan it. */
const char *make_trace(const uint8_t *plan, size_t length);
/* Reads it in every way that there is, and stops at the first disagreement. */
void read_trace(const char *path);
void run_plan(const uint8_t *plan, size_t length);

#endif
