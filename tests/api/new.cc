// Every replaceable operator new and delete, the new-handler loop, and a standard container on top of them.
#include <malloc.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory_resource>
#include <new>
#include <string>
#include <vector>

#include "check.h"
#include "throws.h"

namespace {

constexpr std::size_t impossible_bytes = PTRDIFF_MAX - 4096;
constexpr std::size_t sizes[] = {0, 1, 16, 100, 1000, 20480, 100000, 3 << 20};

void use(void *block, std::size_t alignment, std::size_t bytes) {
  CHECK(block != nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(block) % alignment == 0);
  CHECK(malloc_usable_size(block) >= bytes);
  std::memset(block, 0x5a, bytes);
}

void plain_forms() {
  for (const std::size_t bytes : sizes) {
    void *blocks[8] = {::operator new(bytes),
                       ::operator new[](bytes),
                       ::operator new(bytes, std::nothrow),
                       ::operator new[](bytes, std::nothrow),
                       ::operator new(bytes),
                       ::operator new[](bytes),
                       ::operator new(bytes),
                       ::operator new[](bytes)};
    for (void *block : blocks) {
      use(block, 16, bytes);
    }
    errno = ERANGE;
    ::operator delete(blocks[0]);
    ::operator delete[](blocks[1]);
    ::operator delete(blocks[2], std::nothrow);
    ::operator delete[](blocks[3], std::nothrow);
    ::operator delete(blocks[4], bytes);
    ::operator delete[](blocks[5], bytes);
    CHECK(errno == ERANGE);
    std::free(blocks[6]); // the operators and malloc share one heap
    std::free(blocks[7]);
  }
  ::operator delete(nullptr);
  ::operator delete[](nullptr);
}

void no_bytes_are_no_bytes() {
  void *blocks[] = {::operator new(0), ::operator new[](0), ::operator new(0, std::nothrow),
                    ::operator new(0, std::align_val_t{16}), new char[0]};
  for (void *const &block : blocks) {
    CHECK(block != nullptr && malloc_usable_size(block) == 0); // so any use of it is a fault
    for (void *const &other : blocks) {
      CHECK(&block == &other || block != other);
    }
  }
  ::operator delete(blocks[0], std::size_t{0});
  ::operator delete[](blocks[1]);
  ::operator delete(blocks[2], std::nothrow);
  ::operator delete(blocks[3], std::align_val_t{16});
  delete[] static_cast<char *>(blocks[4]);
}

void aligned_forms() {
  for (std::size_t alignment = 8; alignment <= 65536; alignment *= 2) {
    for (const std::size_t bytes : sizes) {
      auto align = static_cast<std::align_val_t>(alignment);
      void *blocks[6] = {::operator new(bytes, align),
                         ::operator new[](bytes, align),
                         ::operator new(bytes, align, std::nothrow),
                         ::operator new[](bytes, align, std::nothrow),
                         ::operator new(bytes, align),
                         ::operator new[](bytes, align)};
      for (void *block : blocks) {
        use(block, alignment, bytes);
      }
      ::operator delete(blocks[0], align);
      ::operator delete[](blocks[1], align);
      ::operator delete(blocks[2], align, std::nothrow);
      ::operator delete[](blocks[3], align, std::nothrow);
      ::operator delete(blocks[4], bytes, align);
      ::operator delete[](blocks[5], bytes, align);
    }
  }
}

void impossible_requests_throw() {
  std::size_t bytes = hide_size(impossible_bytes);
  auto align = static_cast<std::align_val_t>(4096);
  CHECK(throws_bad_alloc([&] { hide_pointer(::operator new(bytes)); }));
  CHECK(throws_bad_alloc([&] { hide_pointer(::operator new[](bytes)); }));
  CHECK(throws_bad_alloc([&] { hide_pointer(::operator new(bytes, align)); }));
  CHECK(throws_bad_alloc([&] { hide_pointer(::operator new[](bytes, align)); }));
  CHECK(::operator new(bytes, std::nothrow) == nullptr);
  CHECK(::operator new[](bytes, std::nothrow) == nullptr);
  CHECK(::operator new(bytes, align, std::nothrow) == nullptr);
  CHECK(::operator new[](bytes, align, std::nothrow) == nullptr);
}

int handler_calls;

void count_then_give_up() {
  if (++handler_calls == 3) {
    std::set_new_handler(nullptr);
  }
}

void the_handler_is_called_until_it_gives_up() {
  std::size_t bytes = hide_size(impossible_bytes);
  handler_calls = 0;
  std::set_new_handler(count_then_give_up);
  CHECK(throws_bad_alloc([&] { hide_pointer(::operator new(bytes)); }));
  CHECK(handler_calls == 3);
  handler_calls = 0;
  std::set_new_handler(count_then_give_up);
  CHECK(::operator new(bytes, std::nothrow) == nullptr);
  CHECK(handler_calls == 3);
  handler_calls = 0;
  std::set_new_handler(count_then_give_up);
  CHECK(throws_bad_alloc([&] { hide_pointer(::operator new(bytes, static_cast<std::align_val_t>(256))); }));
  CHECK(handler_calls == 3);
}

struct OutOfPatience {};

void a_handler_may_throw() {
  const std::size_t bytes = hide_size(impossible_bytes);
  std::set_new_handler([] { throw OutOfPatience(); });
  bool caught = false;
  try {
    hide_pointer(::operator new(bytes));
  } catch (const OutOfPatience &) {
    caught = true;
  }
  CHECK(caught);
  std::set_new_handler(nullptr);
}

struct alignas(4096) Page {
  unsigned char bytes[4096];
};

void over_aligned_types() {
  auto *one = new Page;
  auto *many = new Page[5];
  use(hide_pointer(one), 4096, sizeof *one);
  use(hide_pointer(many), 4096, 5 * sizeof *many);
  delete one;
  delete[] many;
}

void containers() {
  std::map<int, std::string> names;
  for (int i = 0; i < 20000; i++) {
    names[i] = std::string(static_cast<std::size_t>(i % 200), 'x');
  }
  for (int i = 0; i < 20000; i += 2) {
    names.erase(i);
  }
  for (const auto &[key, value] : names) {
    CHECK(value.size() == static_cast<std::size_t>(key % 200));
  }

  std::pmr::set_default_resource(std::pmr::new_delete_resource());
  std::pmr::vector<std::pmr::string> lines;
  for (int i = 0; i < 20000; i++) {
    lines.emplace_back(static_cast<std::size_t>(i % 300), 'y');
  }
  for (std::size_t i = 0; i < lines.size(); i++) {
    CHECK(lines[i].size() == i % 300);
  }
  std::pmr::monotonic_buffer_resource buffer;
  std::pmr::vector<int> numbers(100000, 7, &buffer);
  CHECK(numbers[99999] == 7);
}

} // namespace

int main() {
  plain_forms();
  no_bytes_are_no_bytes();
  aligned_forms();
  impossible_requests_throw();
  the_handler_is_called_until_it_gives_up();
  a_handler_may_throw();
  over_aligned_types();
  containers();
  return 0;
}
