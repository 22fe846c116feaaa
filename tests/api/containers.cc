/* hakmem.hpp: containers get their blocks from hakmem, aligned as their elements ask, and a failure is std::bad_alloc.
 */
#include "check.h"
#include "hakmem.hpp"
#include "throws.h"

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

struct alignas(128) wide {
  std::array<char, 128> bytes;
};

template <typename T> using vector = std::vector<T, hakmem::allocator<T>>;
using text = std::basic_string<char, std::char_traits<char>, hakmem::allocator<char>>;

void check_allocator() {
  vector<text> words;
  for (int i = 0; i < 1000; i++) {
    words.emplace_back(std::string(static_cast<std::size_t>(i), 'x').c_str());
    CHECK(hak_malloc_usable_size(words.data()) >= words.capacity() * sizeof(text));
  }
  for (int i = 0; i < 1000; i++) {
    CHECK(words[static_cast<std::size_t>(i)].size() == static_cast<std::size_t>(i));
  }
  std::map<int, int, std::less<>, hakmem::allocator<std::pair<const int, int>>> squares;
  for (int i = 0; i < 1000; i++) {
    squares[i] = i * i;
  }
  CHECK(squares.at(999) == 998001);

  vector<wide> aligned(3);
  CHECK(reinterpret_cast<std::uintptr_t>(aligned.data()) % alignof(wide) == 0);

  /* Blocks go from one to the other: all are equal, of whatever type. */
  CHECK(hakmem::allocator<int>() == hakmem::allocator<char>());
  CHECK(!(hakmem::allocator<int>() != hakmem::allocator<char>()));
  CHECK(std::allocator_traits<hakmem::allocator<int>>::is_always_equal::value);
  const auto shared = std::allocate_shared<int>(hakmem::allocator<int>(), 7);
  CHECK(*shared == 7);
}

void check_resource() {
  std::pmr::memory_resource *const ours = hakmem::resource();
  CHECK(ours == hakmem::resource() && *ours == *hakmem::resource() && *ours != *std::pmr::new_delete_resource());
  std::pmr::unordered_map<std::pmr::string, int> counts(ours);
  for (int i = 0; i < 1000; i++) {
    counts[std::pmr::string(std::to_string(i), ours)] += i;
  }
  CHECK(counts.size() == 1000 && counts.at("999") == 999);
  for (std::size_t alignment = 1; alignment <= 1U << 16; alignment *= 2) {
    for (const std::size_t bytes : {std::size_t(0), std::size_t(1), std::size_t(100), std::size_t(3) << 20}) {
      void *const block = ours->allocate(bytes, alignment);
      CHECK(reinterpret_cast<std::uintptr_t>(block) % alignment == 0 && hak_malloc_usable_size(block) >= bytes);
      ours->deallocate(block, bytes, alignment);
    }
  }
  std::pmr::monotonic_buffer_resource pool(ours);
  CHECK(std::pmr::vector<char>(100000, &pool).size() == 100000);
}

void check_failure() {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  CHECK(throws_bad_alloc([] { (void)hakmem::allocator<int>().allocate(most / 2); })); /* the product overflows */
  CHECK(throws_bad_alloc([] { (void)hakmem::allocator<char>().allocate(most / 2); }));
  CHECK(throws_bad_alloc([] { (void)hakmem::allocator<wide>().allocate(most / 2 / sizeof(wide)); }));
  CHECK(throws_bad_alloc([] { (void)hakmem::resource()->allocate(most / 2, 4096); }));
}

} // namespace

int main() { // NOLINT(bugprone-exception-escape): one that escapes fails the test
  check_allocator();
  check_resource();
  check_failure();
  hak_check();
  return 0;
}
