/* Duty: the probes of provider `otel_memory`, for a tracer outside: alloc(ptr, size, weighted_bytes) and free(ptr) of
 * each sampled block. Each is one nop at the entry of a function that has exactly these arguments, so they are in the
 * registers of a call there; .note.stapsdt says where, and names the semaphore that a tracer raises.
 * Data: the semaphores; the kernel counts them up and down, and we only read. Layers below: hook. */
#pragma once

#include "hook.h"

extern volatile uint16_t hak_probe_free_semaphore;

void hak_probe_alloc(void *block, size_t bytes, size_t weighted_bytes);
void hak_probe_free(void *block);
