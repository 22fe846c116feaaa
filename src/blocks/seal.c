/* The settings of the hardened profile; off until hardened.c puts them in force. */
#include "seal.h"

hak_hard_page_t hak_hard_page __attribute__((aligned(1 << HAK_PAGE_SHIFT))) HAK_READ_PAGE;
