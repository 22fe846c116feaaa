// Run with HAKMEM_MEMORY_LIMIT=64M: a new-handler that frees its reserve lets the request that failed succeed.
#include <cstring>
#include <new>

#include "check.h"

namespace {

void *reserve;
int handler_calls;

void give_up_the_reserve() {
  handler_calls++;
  CHECK(reserve != nullptr);
  std::free(reserve);
  reserve = nullptr;
}

} // namespace

int main() {
  constexpr std::size_t reserve_bytes = 40u << 20, request_bytes = 30u << 20;
  reserve = std::malloc(reserve_bytes);
  CHECK(reserve != nullptr);
  std::set_new_handler(give_up_the_reserve);
  void *block = ::operator new(hide_size(request_bytes));
  CHECK(block != nullptr);
  CHECK(handler_calls == 1);
  std::memset(block, 1, request_bytes);
  ::operator delete(block);
  return 0;
}
