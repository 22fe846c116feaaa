// A new that is refused throws what the program catches, also where the C++ runtime is linked statically and nothing in
// the program names the runtime's own function for that.
#include <cstddef>
#include <new>

namespace {
volatile std::size_t too_much = static_cast<std::size_t>(1) << 62;
} // namespace

int main() {
  int caught = 0;
  try {
    ::operator delete(::operator new(too_much));
  } catch (const std::bad_alloc &) {
    caught++;
  }
  try {
    ::operator delete[](::operator new[](too_much));
  } catch (const std::exception &refusal) {
    caught += refusal.what() != nullptr;
  }
  return caught == 2 ? 0 : 1;
}
