/* hakmem for C++17: an allocator beside the C library's, for selected containers.
 *
 *   std::vector<int, hakmem::allocator<int>> numbers;
 *   std::pmr::vector<int> others(hakmem::resource());
 *
 * Both call the hak_ functions of hakmem.h, pass them the size and alignment of each freed block, and may be used from
 * any thread. They add nothing to a program whose malloc and new already are hakmem's. */
#ifndef HAKMEM_HPP
#define HAKMEM_HPP

#include "hakmem.h"

#include <cstddef>
#include <limits>
#include <memory_resource>
#include <new>

namespace hakmem {

namespace detail {

/* The alignment of every block. */
inline constexpr std::size_t usual_alignment = 16;

[[nodiscard]] inline void *allocate(std::size_t bytes, std::size_t alignment) {
  void *block = alignment <= usual_alignment ? hak_malloc(bytes) : hak_aligned_alloc(alignment, bytes);
  if (block == nullptr) {
    throw std::bad_alloc();
  }
  return block;
}

inline void deallocate(void *block, std::size_t bytes, std::size_t alignment) noexcept {
  if (alignment <= usual_alignment) {
    hak_free_sized(block, bytes);
  } else {
    hak_free_aligned_sized(block, alignment, bytes);
  }
}

class resource final : public std::pmr::memory_resource {
  void *do_allocate(std::size_t bytes, std::size_t alignment) override {
    return detail::allocate(bytes, alignment);
  }
  void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override {
    detail::deallocate(block, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
    return this == &other;
  }
};

} // namespace detail

/* For the containers of the standard library. Any two instances are equal, so one may free blocks of the other. */
template <typename T> class allocator {
public:
  using value_type = T;

  constexpr allocator() noexcept = default;
  template <typename U> constexpr allocator(const allocator<U> &) noexcept {} /* as every allocator converts */

  [[nodiscard]] T *allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
      throw std::bad_array_new_length();
    }
    return static_cast<T *>(detail::allocate(count * sizeof(T), alignof(T)));
  }
  void deallocate(T *block, std::size_t count) noexcept {
    detail::deallocate(block, count * sizeof(T), alignof(T));
  }
};

template <typename T, typename U> constexpr bool operator==(const allocator<T> &, const allocator<U> &) noexcept {
  return true;
}
template <typename T, typename U> constexpr bool operator!=(const allocator<T> &, const allocator<U> &) noexcept {
  return false;
}

/* For std::pmr: one resource for the whole process. The resource is never destroyed, so it also serves the destructors
 * of other static objects. */
inline std::pmr::memory_resource *resource() noexcept {
  alignas(detail::resource) static unsigned char place[sizeof(detail::resource)];
  static std::pmr::memory_resource *const made = ::new (static_cast<void *>(place)) detail::resource;
  return made;
}

} // namespace hakmem

#endif
