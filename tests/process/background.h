/* What the programs about HAKMEM_BACKGROUND share. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { BLOCKS = 64, BLOCK = 1 << 20, WAIT_S = 60, WORKERS = 2 };

/* Fill and free so many blocks, in four rounds. */
void fill_and_free(size_t count, size_t bytes);
/* Memory that is faulted in twice stays resident. */
void learn(void);
unsigned threads(void);
/* Whether the library's own thread is there, and whether it blocks a signal. */
bool has_background(void);
bool background_blocks(int signal);
void nap_ms(long ms);
void wait_for_threads(unsigned count);

/* A worker uses memory once, which gives it a cache, and then while `works` is set. Its blocks pass the caches by. */
extern _Atomic bool works, ends;
void start_workers(void);
void end_workers(void);
/* None is there although the program has several threads that use memory. */
void none_starts(void);
/* The program may rely on a process with one thread as soon as it has joined the others. */
void gone_when_joined(void);
