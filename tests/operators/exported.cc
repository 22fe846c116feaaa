// A program with a C++ runtime of its own, whose operators every library sees: blocks of many sizes come and go.
#include <cstddef>
#include <string>
#include <vector>

namespace {
constexpr std::size_t blocks = 2000, sizes = 90;
} // namespace

int main() {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < blocks; i++) {
    kept.emplace_back(i % sizes, 'x');
  }
  return kept[blocks - 1].size() == (blocks - 1) % sizes ? 0 : 1;
}
