/* Gate TINY_SWITCH_DISPATCH: the switch says what the table and the comparison say, in every build. */
#include "dispatch.h"

#include "check.h"

int main(void) {
  for (size_t bytes = 0; bytes <= HAK_SMALL_MAX; bytes++) {
    hak_route_t route = hak_route_by_switch(bytes);
    CHECK(route.cls == hak_class_of(bytes) && route.slots == hak_slots_serve(route.cls));
    hak_route_t chosen = hak_route_of_request(bytes);
    CHECK(chosen.cls == route.cls && chosen.slots == route.slots);
  }
  return 0;
}
