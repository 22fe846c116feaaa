// Only operator new(size_t) and operator delete(void *), with a pool of their own, and blocks of it for others to
// delete.
#include "pool.h"

#include <cstdlib>
#include <new>

namespace {
alignas(16) char pool[1 << 22];
std::size_t used;
} // namespace

void *operator new(std::size_t bytes) {
  void *block = pool + used;
  used += (bytes + 15) & ~std::size_t{15};
  return used <= sizeof pool ? block : throw std::bad_alloc();
}

void operator delete(void *block) noexcept {
  char *at = static_cast<char *>(block);
  if (at && (at < pool || at >= pool + used)) {
    std::abort();
  }
}

std::string *pool_string() {
  return new std::string(100, 'x');
}

int *pool_array() {
  return new int[100];
}
