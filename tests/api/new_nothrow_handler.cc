// A nothrow operator new whose new-handler throws returns null instead of ending the process.
#include <cstdint>
#include <new>

#include "check.h"

int main() {
  const std::size_t bytes = hide_size(PTRDIFF_MAX - 4096);
  std::set_new_handler([] { throw std::bad_alloc(); });
  CHECK(::operator new(bytes, std::nothrow) == nullptr);
  CHECK(::operator new[](bytes, std::nothrow) == nullptr);
  CHECK(::operator new(bytes, static_cast<std::align_val_t>(64), std::nothrow) == nullptr);
  return 0;
}
