/* Duty: interpret bytes as the plan of a trace, so that a fuzzer's changes reach the code behind checksums and
 * compression. For one thread only. The module owns the file, and makes it anew for each input.
 *
 * The first byte: PLAN_FILE: the rest is the file itself; PLAN_REPAIRED: the same, but its checksums are corrected;
 * others: records follow. A record is a byte (its low three bits choose the kind) and:
 *   operations  process, thread, flags, slots (16 bits; used if flags & 1), five lengths of columns (16 bits), columns
 *   repeated    process, thread, code, count (16 bits): that many operations of one code, with sizes of 0
 *   text        process, kind, length (16 bits), bytes
 *   end         complete, length (16 bits), bytes
 *   raw         length (16 bits), bytes: these go into the file unchanged
 *   cut         length (16 bits): so many bytes are removed from the end */
#ifndef HAK_TEST_TRACE_INPUT_H
#define HAK_TEST_TRACE_INPUT_H

#include <stddef.h>
#include <stdint.h>

enum { PLAN_RECORDS, PLAN_FILE, PLAN_REPAIRED };
enum { RECORD_OPERATIONS, RECORD_REPEATED, RECORD_TEXT, RECORD_END, RECORD_RAW, RECORD_CUT, RECORD_KINDS };
enum { PLAN_PROCESSES = 4, PLAN_THREADS = 16 }; /* numbers are taken modulo these, so that records share threads */

/* Make the trace that these bytes plan. Returns its path. */
const char *make_trace(const uint8_t *plan, size_t length);
/* Reads the trace in every possible way, and stops at the first disagreement. */
void read_trace(const char *path);
void run_plan(const uint8_t *plan, size_t length);

#endif
