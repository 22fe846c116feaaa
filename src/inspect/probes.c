/* Probes for an external tracer: a nop for each sampled block that is allocated or freed. */
#include "probes.h"

#define SEMAPHORE __attribute__((section(".probes"), used, visibility("hidden")))

_Atomic bool hak_probes_seen HAK_START_DATA;

volatile uint16_t hak_probe_alloc_semaphore SEMAPHORE = 0, hak_probe_free_semaphore SEMAPHORE = 0;

/* A note of version 3: the address of the nop, a base that shows the load address, the semaphore, and three strings. */
#define PROBE(name, semaphore, arguments) \
  "990: nop\n" \
  ".pushsection .note.stapsdt, \"\", \"note\"\n" \
  ".balign 4\n" \
  ".4byte 992f - 991f, 994f - 993f, 3\n" \
  "991: .asciz \"stapsdt\"\n" \
  "992: .balign 4\n" \
  "993: .8byte 990b, _.stapsdt.base, " semaphore "\n" \
  ".asciz \"otel_memory\"\n" \
  ".asciz \"" name "\"\n" \
  ".asciz \"" arguments "\"\n" \
  "994: .balign 4\n" \
  ".popsection\n" \
  ".ifndef _.stapsdt.base\n" \
  ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n" \
  ".weak _.stapsdt.base\n" \
  ".hidden _.stapsdt.base\n" \
  "_.stapsdt.base: .space 1\n" \
  ".size _.stapsdt.base, 1\n" \
  ".popsection\n" \
  ".endif\n"

HAK_NOINLINE void hak_probe_alloc(void *block, size_t bytes, size_t weighted_bytes) {
  __asm__ volatile(PROBE("alloc", "hak_probe_alloc_semaphore", "8@%0 8@%1 8@%2")
                   :
                   : "r"(block), "r"(bytes), "r"(weighted_bytes));
}

HAK_NOINLINE void hak_probe_free(void *block) {
  __asm__ volatile(PROBE("free", "hak_probe_free_semaphore", "8@%0") : : "r"(block));
}
