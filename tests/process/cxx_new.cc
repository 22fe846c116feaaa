// operator new and delete of every form, failure by exception, the new-handler loop, and exceptions that
// are thrown through them in several threads at once.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "check_cxx.h"

namespace {

constexpr std::size_t kImpossible = PTRDIFF_MAX - 4096;

volatile std::size_t impossible = kImpossible; // hides the constant from the compiler's own checks

struct alignas(256) Wide {
  unsigned char bytes[512];
};

bool throws_bad_alloc() {
  try {
    void *block = ::operator new(impossible);
    ::operator delete(block);
  } catch (const std::bad_alloc &error) {
    return std::strlen(error.what()) > 0;
  }
  return false;
}

bool array_throws_bad_alloc() {
  try {
    const std::unique_ptr<Wide[]> array(new Wide[impossible / sizeof(Wide)]);
    __asm__ volatile("" : : "r"(array.get()) : "memory"); // an array that nobody uses need not be allocated
  } catch (const std::bad_alloc &) {
    return true;
  }
  return false;
}

void check_failures() {
  CHECK(throws_bad_alloc());
  CHECK(array_throws_bad_alloc());
  CHECK(::operator new(impossible, std::nothrow) == nullptr);
  CHECK(::operator new[](impossible, std::nothrow) == nullptr);
  CHECK(::operator new(impossible, std::align_val_t(64), std::nothrow) == nullptr);
  CHECK(::operator new[](impossible, std::align_val_t(64), std::nothrow) == nullptr);
}

int handler_calls;

void counting_handler() {
  if (++handler_calls == 3)
    std::set_new_handler(nullptr);
}

struct OwnError {};

void throwing_handler() {
  throw OwnError();
}

void check_handlers() {
  std::set_new_handler(counting_handler);
  CHECK(throws_bad_alloc());
  CHECK(handler_calls == 3);
  handler_calls = 0;
  std::set_new_handler(counting_handler);
  CHECK(::operator new(impossible, std::nothrow) == nullptr);
  CHECK(handler_calls == 3);
  bool caught = false;
  std::set_new_handler(throwing_handler);
  try {
    ::operator delete(::operator new(impossible));
  } catch (const OwnError &) {
    caught = true;
  }
  std::set_new_handler(nullptr);
  CHECK(caught);
}

template <class New, class Delete> void check_form(std::size_t alignment, New allocate, Delete release) {
  for (std::size_t bytes = 1; bytes < 100000; bytes = bytes * 3 + 1) {
    void *block = allocate(bytes);
    CHECK(block != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % alignment == 0);
    std::memset(block, 0x5A, bytes);
    release(block, bytes);
  }
}

void check_forms() {
  using std::align_val_t;
  using std::nothrow;
  const align_val_t wide{512};
  check_form(
      8, [](std::size_t n) { return ::operator new(n); }, [](void *p, std::size_t) { ::operator delete(p); });
  check_form(
      8, [](std::size_t n) { return ::operator new[](n); }, [](void *p, std::size_t n) { ::operator delete[](p, n); });
  check_form(
      8, [](std::size_t n) { return ::operator new(n, nothrow); },
      [](void *p, std::size_t n) { ::operator delete(p, n); });
  check_form(
      8, [](std::size_t n) { return ::operator new[](n, nothrow); },
      [](void *p, std::size_t) { ::operator delete[](p, nothrow); });
  check_form(
      512, [=](std::size_t n) { return ::operator new(n, wide); },
      [=](void *p, std::size_t) { ::operator delete(p, wide); });
  check_form(
      512, [=](std::size_t n) { return ::operator new[](n, wide); },
      [=](void *p, std::size_t n) { ::operator delete[](p, n, wide); });
  check_form(
      512, [=](std::size_t n) { return ::operator new(n, wide, nothrow); },
      [=](void *p, std::size_t n) { ::operator delete(p, n, wide); });
  check_form(
      512, [=](std::size_t n) { return ::operator new[](n, wide, nothrow); },
      [=](void *p, std::size_t) { ::operator delete[](p, wide, nothrow); });
}

int throw_deep(int depth) {
  std::string local(static_cast<std::size_t>(depth) * 50 + 1, 'x');
  auto wide = std::make_unique<Wide>();
  wide->bytes[0] = static_cast<unsigned char>(local[0]);
  if (depth == 0)
    throw std::string(1000, 'e');
  return throw_deep(depth - 1) + wide->bytes[0];
}

bool throws_text(int depth) {
  try {
    throw_deep(depth);
  } catch (const std::string &error) {
    return error.size() == 1000;
  }
  return false;
}

void throw_often() {
  for (int i = 0; i < 300; i++) {
    CHECK(throws_text(i % 20));
    CHECK(throws_bad_alloc());
  }
}

} // namespace

int main() {
  check_forms();
  check_failures();
  check_handlers();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; i++)
    threads.emplace_back(throw_often);
  for (std::thread &thread : threads)
    thread.join();
  return 0;
}
