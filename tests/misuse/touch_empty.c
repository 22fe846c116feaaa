/* A block of no bytes is read, or written to. */
#include "crime.h"

int main(void) {
  volatile char *block = hide_pointer(crime_number("CLEARED") ? hak_calloc(0, 7) : hak_malloc(0));
  announce((const char *)block);
  if (crime_number("WRITTEN")) {
    *block = 1;
  } else {
    (void)*block;
  }
  return 0;
}
