/* Whether a call ends with std::bad_alloc. */
#pragma once

#include <new>

template <typename F> bool throws_bad_alloc(F call) {
  try {
    call();
  } catch (const std::bad_alloc &) {
    return true;
  }
  return false;
}
