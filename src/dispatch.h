/* Duty: gate TINY_SWITCH_DISPATCH: from a request to its class, and to whether the class has slots, by a switch over
 * the band, which is computed, instead of by a table and a comparison. free has the class from the map of units in
 * either case, and a switch over that would be compiled to the comparison.
 * Data: none. Layers below: slots, geometry, gates.
 *
 *   band   last byte's number   class
 *   C0     0 .. 31              1 + last / 16
 *   C1     32 .. 63             1 + last / 16
 *   C2     64 .. 127            1 + last / 16
 *   Cb     2^(b+4) .. 2^(b+5)   4 (b - 2) + 1 + last / 2^(b+2)        b = 3 .. 7 */
#ifndef HAK_DISPATCH_H
#define HAK_DISPATCH_H

#include "gates.h"
#include "slots.h"

typedef struct hak_route {
  uint32_t cls;
  bool slots;
} hak_route_t;

/* For 0 <= bytes <= HAK_SMALL_MAX. */
HAK_INLINE hak_route_t hak_route_by_switch(size_t bytes) {
  uint32_t last = (uint32_t)bytes - (bytes != 0);
  uint32_t band = 27 - (uint32_t)__builtin_clz(last | 31);
  switch (band) {
  case 0:
  case 1:
  case 2:
    return (hak_route_t){1 + last / 16, false};
  case 3:
    return (hak_route_t){5 + last / 32, HAK_GATE_TINY_C3_INLINE_SLOTS};
  case 4:
    return (hak_route_t){9 + last / 64, HAK_GATE_TINY_C4_INLINE_SLOTS};
  case 5:
    return (hak_route_t){13 + last / 128, HAK_GATE_TINY_C5_INLINE_SLOTS};
  case 6:
    return (hak_route_t){17 + last / 256, HAK_GATE_TINY_C6_INLINE_SLOTS};
  case 7:
    return (hak_route_t){21 + last / 512, false};
  default:
    return (hak_route_t){hak_class_of(bytes), false};
  }
}

HAK_INLINE hak_route_t hak_route_of_request(size_t bytes) {
  if (HAK_GATE_TINY_SWITCH_DISPATCH) {
    return hak_route_by_switch(bytes);
  }
  uint32_t cls = hak_class_of(bytes);
  return (hak_route_t){cls, hak_slots_serve(cls)};
}

#endif
