/* Each scenario is one function: it starts its threads, joins them, and checks what they left. */
#ifndef HAK_TEST_SCENARIO_H
#define HAK_TEST_SCENARIO_H

#include <pthread.h>
#include <stddef.h>

/* Runs `threads` copies of `body`, each with its index as argument, and joins them. */
void run_threads(size_t threads, void *(*body)(void *index));

void first_allocation(void);
void remote_free(void);
void producer_consumer(void);
void concurrent_realloc(void);
void large_blocks(void);
void observers(void);
void thread_storm(void);
void thread_only_frees(void);
void blocks_outlive_threads(void);
void late_destructors(void);
void sampler_storm(void);
void profile_writers(void);
void observed_regions(void);
void empty_blocks(void);

#endif
