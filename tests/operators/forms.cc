// Every replaceable form of operator new and delete, each of which notes that it was called. operator_subsets.py hides
// some of them.
//
// In the mode "pool" blocks come from a pool of their own, and what is deleted must, too.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "note.h"

namespace {

struct Header {
  std::uintptr_t mark;
  char fill[48];
};
constexpr std::uintptr_t POOLED = 0x706f6f6c65646fff;
constexpr std::size_t LARGEST = std::size_t{1} << 40;

char *from_pool(std::size_t bytes, std::size_t alignment) {
  static char pool[256 << 20];
  static std::size_t used;
  const std::size_t from =
      (reinterpret_cast<std::uintptr_t>(pool) + used + sizeof(Header) + alignment - 1) & ~(alignment - 1);
  char *block = reinterpret_cast<char *>(from);
  used = static_cast<std::size_t>(block + bytes - pool);
  if (used > sizeof pool) {
    std::abort();
  }
  reinterpret_cast<Header *>(block)[-1].mark = POOLED ^ from;
  return block;
}

void *make(std::size_t bytes, std::size_t alignment) {
  if (bytes > LARGEST) {
    return nullptr;
  }
  if (note_pooled()) {
    return from_pool(bytes, alignment < 16 ? 16 : alignment);
  }
  return alignment <= 16 ? std::malloc(bytes)
                         : std::aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
}

void *make_or_throw(std::size_t bytes, std::size_t alignment = 16) {
  void *block = make(bytes, alignment);
  if (!block) {
    throw std::bad_alloc();
  }
  return block;
}

void end(void *block) {
  if (block && note_pooled()) {
    Header *header = static_cast<Header *>(block) - 1;
    if (header->mark != (POOLED ^ reinterpret_cast<std::uintptr_t>(block))) {
      std::abort();
    }
    header->mark = 0;
  } else {
    std::free(block);
  }
}

std::size_t of(std::align_val_t alignment) {
  return static_cast<std::size_t>(alignment);
}

} // namespace

using Size = std::size_t;
using Align = std::align_val_t;
using Nothrow = const std::nothrow_t &;
#define NOTED(name) note(#name)

void *operator new(Size n) {
  return NOTED(n), make_or_throw(n);
}
void *operator new(Size n, Nothrow) noexcept {
  return NOTED(nn), make(n, 16);
}
void *operator new(Size n, Align a) {
  return NOTED(na), make_or_throw(n, of(a));
}
void *operator new(Size n, Align a, Nothrow) noexcept {
  return NOTED(nan), make(n, of(a));
}
void *operator new[](Size n) {
  return NOTED(N), make_or_throw(n);
}
void *operator new[](Size n, Nothrow) noexcept {
  return NOTED(Nn), make(n, 16);
}
void *operator new[](Size n, Align a) {
  return NOTED(Na), make_or_throw(n, of(a));
}
void *operator new[](Size n, Align a, Nothrow) noexcept {
  return NOTED(Nan), make(n, of(a));
}
void operator delete(void *p) noexcept {
  NOTED(d), end(p);
}
void operator delete(void *p, Nothrow) noexcept {
  NOTED(dn), end(p);
}
void operator delete(void *p, Size) noexcept {
  NOTED(ds), end(p);
}
void operator delete(void *p, Align) noexcept {
  NOTED(da), end(p);
}
void operator delete(void *p, Align, Nothrow) noexcept {
  NOTED(dan), end(p);
}
void operator delete(void *p, Size, Align) noexcept {
  NOTED(dsa), end(p);
}
void operator delete[](void *p) noexcept {
  NOTED(D), end(p);
}
void operator delete[](void *p, Nothrow) noexcept {
  NOTED(Dn), end(p);
}
void operator delete[](void *p, Size) noexcept {
  NOTED(Ds), end(p);
}
void operator delete[](void *p, Align) noexcept {
  NOTED(Da), end(p);
}
void operator delete[](void *p, Align, Nothrow) noexcept {
  NOTED(Dan), end(p);
}
void operator delete[](void *p, Size, Align) noexcept {
  NOTED(Dsa), end(p);
}
