// Uses every form of operator new and delete, and what of the library calls them; prints which replaced ones were
// reached.
#include "note.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

// Not by the C++ library's streams: these would allocate.
char text[1 << 20];
std::size_t length;

void say(const char *word) {
  const std::size_t more = std::strlen(word);
  if (length + more + 2 > sizeof text) {
    std::abort();
  }
  std::copy_n(word, more, text + length);
  text[length + more] = ' ';
  length += more + 1;
}

void part(const char *name) {
  say("\n");
  say(name);
}

using Size = std::size_t;
constexpr Size HUGE_BYTES = Size{1} << 46;

template <typename Make, typename End> void pair_of(const char *name, Make make, End end) {
  part(name);
  for (const Size bytes : {Size{24}, Size{40000}, Size{2} << 20}) {
    void *blocks[2] = {};
    for (void *&block : blocks) {
      block = make(bytes);
      if (!block) {
        std::abort();
      }
      std::memset(block, 1, bytes < 5000 ? bytes : 5000);
    }
    for (void *block : blocks) {
      end(block, bytes);
    }
  }
  say("refused:");
  try {
    say(make(HUGE_BYTES) ? "got" : "null");
  } catch (const std::bad_alloc &) {
    say("threw");
  }
}

void each_form() {
  const auto a = static_cast<std::align_val_t>(64);
  pair_of(
      "new", [](Size n) { return operator new(n); }, [](void *p, Size) { operator delete(p); });
  pair_of(
      "sized", [](Size n) { return operator new(n); }, [](void *p, Size n) { operator delete(p, n); });
  pair_of(
      "nothrow", [&](Size n) { return operator new(n, std::nothrow); },
      [&](void *p, Size) { operator delete(p, std::nothrow); });
  pair_of(
      "array", [](Size n) { return operator new[](n); }, [](void *p, Size) { operator delete[](p); });
  pair_of(
      "sized array", [](Size n) { return operator new[](n); }, [](void *p, Size n) { operator delete[](p, n); });
  pair_of(
      "nothrow array", [&](Size n) { return operator new[](n, std::nothrow); },
      [&](void *p, Size) { operator delete[](p, std::nothrow); });
  pair_of(
      "aligned", [&](Size n) { return operator new(n, a); }, [&](void *p, Size) { operator delete(p, a); });
  pair_of(
      "sized aligned", [&](Size n) { return operator new(n, a); }, [&](void *p, Size n) { operator delete(p, n, a); });
  pair_of(
      "nothrow aligned", [&](Size n) { return operator new(n, a, std::nothrow); },
      [&](void *p, Size) { operator delete(p, a, std::nothrow); });
  pair_of(
      "aligned array", [&](Size n) { return operator new[](n, a); }, [&](void *p, Size) { operator delete[](p, a); });
  pair_of(
      "sized aligned array", [&](Size n) { return operator new[](n, a); },
      [&](void *p, Size n) { operator delete[](p, n, a); });
  pair_of(
      "nothrow aligned array", [&](Size n) { return operator new[](n, a, std::nothrow); },
      [&](void *p, Size) { operator delete[](p, a, std::nothrow); });
}

struct alignas(128) Wide {
  char bytes[256];
};

void library() {
  part("library");
  std::vector<int> numbers(3000);
  for (int &number : numbers) {
    number = static_cast<int>(&number - numbers.data()) * 7919 % 1000;
  }
  std::stable_sort(numbers.begin(), numbers.end()); // its buffer is of the nothrow form
  const std::list<std::string> list(10, std::string(100, 'x'));
  const std::unique_ptr<Wide> wide(new Wide());
  const std::unique_ptr<Wide[]> wides(new Wide[3]());
  std::thread([] { delete new std::string(200, 'y'); }).join();
  operator delete(nullptr);
  operator delete[](nullptr, Size{5});
}

} // namespace

extern "C" void note(const char *form) {
  say(form);
}

extern "C" bool note_pooled() {
  static const bool pooled = std::getenv("POOL") != nullptr;
  return pooled;
}

extern "C" void use_operators() {
  each_form();
  library();
  std::fwrite(text, 1, length, stdout);
  std::fflush(stdout);
  length = 0;
}
