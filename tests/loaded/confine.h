/* Duty: set a filter of system calls for this process, as sandboxes do. Data: none. */
#ifndef HAK_TEST_CONFINE_H
#define HAK_TEST_CONFINE_H

#include <stdbool.h>

/* `rules`: the filter's instructions, in hexadecimal, as sandboxes.py makes them. False: the text holds no
 * instructions, or the system has no filters. */
bool confine(const char *rules);

#endif
