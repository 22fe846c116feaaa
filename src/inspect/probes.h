/* Duty: the probes of provider `otel_memory`, for an external tracer: alloc(ptr, size, weighted_bytes) and free(ptr) of
 * each sampled block. Each is a nop at the entry of a function with exactly these arguments, so the arguments are in
 * the registers of a call. .note.stapsdt gives its address, and the semaphore that a tracer raises.
 * Data: the semaphores. The kernel changes their counts, and the library only reads them. Layers below: hook. */
#pragma once

#include "malloc/malloc.h"

extern volatile uint16_t hak_probe_free_semaphore;

void hak_probe_alloc(void *block, size_t bytes, size_t weighted_bytes);
void hak_probe_free(void *block);
