/* Duty: say where an address lies, for the message of a misuse. A client of the program may read the message, so it has
 * no address, unless HAKMEM_VERBOSE=1 asks for it. misuse.c asks, place.c answers.
 * Data: none. Takes no lock. Layers below: text. */
#pragma once

#include "text.h"

void hak_place_write(hak_text_t *text, const void *address);
