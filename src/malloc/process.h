/* Duty: register the fork handlers that take the heap's locks before all other fork handlers. Layers below: nothing. */
#pragma once

/* The type of the function that libc's pthread_atfork calls in the modules of a program. */
typedef int (*hak_register_t)(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *module);

/* Register a module's handlers by a call of `next`. If the heap's own are not registered yet, they come first. */
int hak_process_register(hak_register_t next, void (*prepare)(void), void (*parent)(void), void (*child)(void),
                         void *module);
