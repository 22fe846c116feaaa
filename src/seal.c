/* The settings of the hardened profile; off until hardened.c puts them in force. */
#include "seal.h"

hak_hard_t hak_hard;
