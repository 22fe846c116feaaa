/* Duty: set a thread's heap aside during a call that other libraries may intercept, and restore it. os.c asks, heap.c
 * does it. Data: none. Layers below: nothing. */
#pragma once

#include <stdbool.h>

typedef struct hak_os_aside {
  void *heap, *operators;
  bool gone; /* the thread is ending */
} hak_os_aside_t;

void hak_os_step_aside(hak_os_aside_t *aside);
void hak_os_step_back(const hak_os_aside_t *aside);
