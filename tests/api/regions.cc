/* hakmem.hpp: regions as memory resource, as allocator and as scope. The same source is compiled without exceptions and
 * without type information, and then leaves out what throws. */
#include "check.h"
#include "hakmem.hpp"
#ifdef __cpp_exceptions
#include "throws.h"
#endif

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

template <typename T> using vector = std::vector<T, hakmem::region_allocator<T>>;
constexpr char word[] = "a word that is too long to lie in the string itself";

struct alignas(256) wide {
  char bytes[256];
};

struct freed {
  void operator()(void *block) const {
    hak_free(block);
  }
};
using owned = std::unique_ptr<void, freed>;

owned block_of(std::size_t bytes) {
  return owned(hak_malloc(bytes));
}

bool lies_in(const void *block, const hakmem::region &region) {
  return hak_region_of(block) == region.get();
}

hak_region_options_t options_of(const char *name, std::size_t soft, std::size_t hard) {
  hak_region_options_t options{};
  options.name = name;
  options.soft_limit = soft;
  options.hard_limit = hard;
  return options;
}

void check_resource() {
  hakmem::region region("resource"), other;
  CHECK(std::string(region.name()) == "resource" && std::string(other.name()).empty());
  CHECK(region.is_equal(region) && !region.is_equal(other) && !region.is_equal(*hakmem::resource()));
  {
    std::pmr::unordered_map<std::pmr::string, int> counts(&region);
    for (int i = 0; i < 1000; i++) {
      counts[std::pmr::string(word, &region) + std::to_string(i).c_str()] += i;
    }
    CHECK(counts.size() == 1000 && lies_in(counts.begin()->first.data(), region));
    std::pmr::vector<std::pmr::string> words(&other);
    words.emplace_back(counts.begin()->first); /* a copy lies where its container lies */
    CHECK(lies_in(words[0].data(), other) && lies_in(words.data(), other));
    std::pmr::monotonic_buffer_resource pool(&region);
    CHECK(std::pmr::vector<char>(100000, &pool).size() == 100000);
    CHECK(region.usage().live_blocks > 1000 && other.usage().live_blocks == 2);
  }
  CHECK(region.usage().live_blocks == 0 && region.usage().freed_bytes > 100000);
  for (std::size_t alignment = 1; alignment <= 1U << 16; alignment *= 2) {
    for (const std::size_t bytes : {std::size_t(0), std::size_t(1), std::size_t(100), std::size_t(3) << 20}) {
      void *const block = region.allocate(bytes, alignment);
      CHECK(reinterpret_cast<std::uintptr_t>(block) % alignment == 0 && hak_malloc_usable_size(block) >= bytes);
      region.deallocate(block, bytes, alignment);
    }
  }
}

void check_allocator() {
  const hakmem::region region, other;
  vector<int> numbers(1000, 7, region);
  CHECK(lies_in(numbers.data(), region));
  vector<wide> aligned(3, region);
  CHECK(reinterpret_cast<std::uintptr_t>(aligned.data()) % alignof(wide) == 0 && lies_in(aligned.data(), region));
  std::map<int, int, std::less<>, hakmem::region_allocator<std::pair<const int, int>>> squares{other};
  for (int i = 0; i < 1000; i++) {
    squares[i] = i * i;
  }
  CHECK(squares.at(999) == 998001 && lies_in(&squares.at(5), other));
  CHECK(*std::allocate_shared<int>(hakmem::region_allocator<int>(region), 7) == 7);

  const hakmem::region_allocator<int> ints(region), those(other);
  CHECK(ints == hakmem::region_allocator<char>(region) && ints == hakmem::region_allocator<char>(ints));
  CHECK(ints != those && !(ints == those) && those == hakmem::region_allocator<int>(other.get()));
  static_assert(!std::allocator_traits<hakmem::region_allocator<int>>::is_always_equal::value);
  vector<int> elsewhere(those);
  const int *before = numbers.data();
  elsewhere = std::move(numbers); /* the regions differ, so the elements are moved */
  CHECK(elsewhere.size() == 1000 && elsewhere[999] == 7 && elsewhere.data() != before &&
        lies_in(elsewhere.data(), other));
}

void check_move() {
  static_assert(!std::is_copy_constructible_v<hakmem::region> && std::is_nothrow_move_constructible_v<hakmem::region>);
  static_assert(std::is_nothrow_move_assignable_v<hakmem::region>);
  static_assert(!std::is_move_constructible_v<hakmem::region_scope>);
  hakmem::region first("first"), second("second");
  hak_region_t *const one = first.get(), *const two = second.get();
  vector<int> numbers(100, 1, first);
  hakmem::region third(std::move(first));
  /* NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): it is empty then */
  CHECK(third.get() == one && first.get() == nullptr && lies_in(numbers.data(), third));
  numbers.resize(10000); /* the allocator names the region, wherever its owner is */
  CHECK(lies_in(numbers.data(), third));
  third = std::move(second);
  /* NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): the two were swapped */
  CHECK(third.get() == two && second.get() == one);
  std::vector<hakmem::region> many;
  many.reserve(1);
  for (int i = 0; i < 100; i++) {
    many.emplace_back(std::to_string(i).c_str(), std::size_t(1) << 20);
  }
  CHECK(std::string(many[42].name()) == "42" && many[42].usage().limit_bytes == 1U << 20);
}

void check_ends() {
  hakmem::region region;
  (void)region.allocate(100000, 16);
  (void)region.allocate(100, 16);
  CHECK(region.usage().live_blocks == 2);
  region.reset();
  CHECK(region.usage().live_blocks == 0);
  void *const kept = region.allocate(100, 16);
  region.release();
  CHECK(region.get() == nullptr && hak_region_of(kept) == nullptr);
  hak_free(kept);
  hakmem::region stage;
  hak_region_t *const handle = stage.get();
  void *const last = stage.allocate(100, 16);
  hak_region_usage_t usage;
  stage.retire();
  CHECK(stage.get() == nullptr && hak_region_usage(handle, &usage) && usage.live_blocks == 1);
  hak_free(last);
  CHECK(!hak_region_usage(handle, &usage));
}

void check_callback() {
  int soft = 0, hard = 0;
  auto on_limit = [&](hak_region_t *met, std::size_t bytes, hak_region_limit_kind_t limit) {
    (limit == HAK_REGION_SOFT ? soft : hard)++;
    CHECK(bytes == 1 << 20);
    if (limit == HAK_REGION_HARD) {
      hak_region_limit(met, 0, 8 << 20);
    }
    return true;
  };
  const hakmem::region region(options_of("asks", 1 << 20, 2 << 20), on_limit);
  hak_region_options_t inner = options_of("inner", 0, 0);
  inner.parent = region.get();
  const hakmem::region child(inner);
  hak_region_t *const handle = child.get();
  for (int i = 0; i < 5; i++) {
    CHECK(hak_region_malloc(handle, 1 << 20) != nullptr);
  }
  CHECK(soft > 0 && hard == 1 && region.usage().used_bytes >= 5U << 20 && region.usage().live_blocks == 0);
}

void check_scope() {
  const hakmem::region outer, inner;
  {
    const hakmem::region_scope in(outer);
    const owned one = block_of(100);
    {
      const hakmem::region_scope deeper(inner.get());
      CHECK(lies_in(block_of(100).get(), inner));
    }
    CHECK(lies_in(one.get(), outer));
  }
  CHECK(hak_region_of(block_of(100).get()) == nullptr);
}

#ifdef __cpp_exceptions
void check_failure() {
  hakmem::region region("small", 1 << 20);
  CHECK(throws_bad_alloc([&] { const std::pmr::vector<char> too_many(2 << 20, &region); }));
  CHECK(throws_bad_alloc([&] { const vector<char> too_many(2 << 20, region); }));
  CHECK(throws_bad_alloc([&] { (void)hakmem::region_allocator<int>(region).allocate(SIZE_MAX / 2); }));
  CHECK(region.usage().live_blocks == 0);
  CHECK(vector<char>(500000, region).size() == 500000);
  region.limit(0, 4 << 20);
  CHECK(std::pmr::vector<char>(2 << 20, &region).size() == 2U << 20);
  const hakmem::region other(std::move(region));
  /* NOLINTNEXTLINE(bugprone-use-after-move): it has no region any more */
  CHECK(throws_bad_alloc([&] { (void)region.allocate(1); }));
  CHECK(throws_bad_alloc([&] { const hakmem::region_scope nowhere(region); }));
  hak_region_options_t tiny{};
  char memory[64];
  tiny.memory = memory;
  tiny.memory_bytes = sizeof memory;
  CHECK(throws_bad_alloc([&] { const hakmem::region none(tiny); }));
}

/* The exception lies in the region if new and malloc are hakmem's. */
void check_scope_and_exception() {
  hak_region_t *handle = nullptr;
  hak_region_usage_t usage;
  try {
    const hakmem::region region("throws");
    handle = region.get();
    const hakmem::region_scope in(region);
    throw std::runtime_error(word);
  } catch (const std::runtime_error &error) {
    CHECK(std::string(error.what()) == word);
    CHECK(hak_region_of(block_of(100).get()) == nullptr); /* the scope was left */
  }
  CHECK(!hak_region_usage(handle, &usage)); /* it ended with the exception */
  try {
    const hakmem::region region;
    throw 1;
  } catch (int) {
    /* A region that begins and ends while an exception is handled ends at once. */
    hakmem::region region;
    handle = region.get();
    (void)region.allocate(100);
  }
  CHECK(!hak_region_usage(handle, &usage));
}
#endif

} // namespace

int main() { // NOLINT(bugprone-exception-escape): one that escapes fails the test
  check_resource();
  check_allocator();
  check_move();
  check_ends();
  check_callback();
  check_scope();
#ifdef __cpp_exceptions
  check_failure();
  check_scope_and_exception();
#endif
  hak_check();
  return 0;
}
