/* Duty: that the handlers of a fork which take our locks are the first that are registered. Layers below: nothing. */
#pragma once

/* What libc's pthread_atfork calls in the modules of a program. */
typedef int (*hak_register_t)(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *module);

/* Registers a module's handlers by `next`, but ours first if they are not yet. */
int hak_process_register(hak_register_t next, void (*prepare)(void), void (*parent)(void), void (*child)(void),
                         void *module);
