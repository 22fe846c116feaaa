/* hakmem for C++17: an allocator beside the C library's, for selected containers; and regions, which keep memory apart.
 *
 *   std::vector<int, hakmem::allocator<int>> numbers;
 *   std::pmr::vector<int> others(hakmem::resource());
 *
 *   hakmem::region request({.name = "request", .hard_limit = 8 << 20}); // the names of the members: C++20
 *   std::pmr::vector<int> apart(&request);
 *
 * All call the hak_ functions of hakmem.h, pass them the size and alignment of each freed block, and may be used from
 * any thread. The first two add nothing to a program whose malloc and new already are hakmem's.
 * A failure is std::bad_alloc. Without exceptions (-fno-exceptions) it ends the process by std::abort(). */
#ifndef HAKMEM_HPP
#define HAKMEM_HPP

#include "hakmem.h"

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory_resource>
#include <new>
#include <utility>

namespace hakmem {

namespace detail {

/* The alignment of every block. */
inline constexpr std::size_t usual_alignment = 16;

template <typename E = std::bad_alloc> [[noreturn]] inline void fail() {
#ifdef __cpp_exceptions
  throw E();
#else
  std::abort();
#endif
}

[[nodiscard]] inline void *allocate(std::size_t bytes, std::size_t alignment) {
  void *block = alignment <= usual_alignment ? hak_malloc(bytes) : hak_aligned_alloc(alignment, bytes);
  if (block == nullptr) {
    fail();
  }
  return block;
}

[[nodiscard]] inline void *allocate_in(hak_region_t *region, std::size_t bytes, std::size_t alignment) {
  void *block = region != nullptr ? hak_region_aligned_alloc(region, alignment, bytes) : nullptr;
  if (block == nullptr) {
    fail();
  }
  return block;
}

template <typename T> [[nodiscard]] std::size_t bytes_of(std::size_t count) {
  if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
    fail<std::bad_array_new_length>();
  }
  return count * sizeof(T);
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
    return static_cast<T *>(detail::allocate(detail::bytes_of<T>(count), alignof(T)));
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

/* Owns a region: memory with a name, limits and exact counts, whose blocks all end with it. A container in it must not
 * be used afterwards, but needs no destruction.
 * A container keeps the address of its memory resource. So move a region before containers use it; region_allocator
 * follows the region itself. A region that was moved from allocates nothing more. */
class region final : public std::pmr::memory_resource {
public:
  /* The callable is called as on_limit is (hakmem.h), `bool(hak_region_t *, std::size_t, hak_region_limit_kind_t)`. It
   * must outlive the region, which copies nothing. If it throws, the process ends by std::terminate(). */
  template <typename F> region(hak_region_options_t options, F &on_limit) : region(with(options, on_limit)) {}
  explicit region(const hak_region_options_t &options) : handle_(hak_region_new(&options)) {
    if (handle_ == nullptr) {
      detail::fail();
    }
  }
  explicit region(const char *name = nullptr, std::size_t hard_limit = 0) : region(named(name, hard_limit)) {}
  region(region &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)), thrown_(other.thrown_) {}
  region &operator=(region &&other) noexcept {
    std::swap(handle_, other.handle_); /* the other one ends this one's region */
    return *this;
  }
  region(const region &) = delete;
  region &operator=(const region &) = delete;
  /* If an exception ends it, the exception itself may lie in the region, thrown inside a scope. The region then is
   * retired: it ends with its last block. */
  ~region() override {
    if (handle_ != nullptr) {
      (std::uncaught_exceptions() > thrown_ ? hak_region_retire : hak_region_destroy)(handle_);
    }
  }

  /* For the functions of hakmem.h, until the region ends. */
  [[nodiscard]] hak_region_t *get() const noexcept {
    return handle_;
  }
  [[nodiscard]] const char *name() const noexcept {
    return hak_region_name(handle_);
  }
  [[nodiscard]] hak_region_usage_t usage() const noexcept {
    hak_region_usage_t usage{};
    hak_region_usage(handle_, &usage);
    return usage;
  }
  void limit(std::size_t soft_limit, std::size_t hard_limit) noexcept {
    hak_region_limit(handle_, soft_limit, hard_limit);
  }
  void reset() noexcept {
    hak_region_reset(handle_);
  }
  /* Both give the region up: it is as if moved from. */
  void retire() noexcept {
    hak_region_retire(std::exchange(handle_, nullptr));
  }
  void release() noexcept {
    hak_region_release(std::exchange(handle_, nullptr));
  }

private:
  hak_region_t *handle_;
  int thrown_ = std::uncaught_exceptions();

  static hak_region_options_t named(const char *name, std::size_t hard_limit) noexcept {
    hak_region_options_t options{};
    options.name = name;
    options.hard_limit = hard_limit;
    return options;
  }
  template <typename F> static hak_region_options_t with(hak_region_options_t options, F &on_limit) noexcept {
    options.on_limit = [](hak_region_t *met, std::size_t bytes, hak_region_limit_kind_t limit,
                          void *user) noexcept -> bool { return (*static_cast<F *>(user))(met, bytes, limit); };
    options.user = &on_limit;
    return options;
  }
  void *do_allocate(std::size_t bytes, std::size_t alignment) override {
    return detail::allocate_in(handle_, bytes, alignment);
  }
  void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override {
    detail::deallocate(block, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
    return this == &other;
  }
};

/* For the containers of the standard library: blocks in one region. Two are equal if they name the same region. A copy
 * of a container stays in its region; what is assigned or swapped keeps its region as well. */
template <typename T> class region_allocator {
public:
  using value_type = T;

  region_allocator(const region &in) noexcept : handle_(in.get()) {} /* so that a container takes a region */
  explicit region_allocator(hak_region_t *handle) noexcept : handle_(handle) {}
  template <typename U> region_allocator(const region_allocator<U> &other) noexcept : handle_(other.get()) {}

  [[nodiscard]] T *allocate(std::size_t count) {
    return static_cast<T *>(detail::allocate_in(handle_, detail::bytes_of<T>(count), alignof(T)));
  }
  void deallocate(T *block, std::size_t count) noexcept {
    detail::deallocate(block, count * sizeof(T), alignof(T));
  }
  [[nodiscard]] hak_region_t *get() const noexcept {
    return handle_;
  }

private:
  hak_region_t *handle_;
};

template <typename T, typename U>
bool operator==(const region_allocator<T> &one, const region_allocator<U> &other) noexcept {
  return one.get() == other.get();
}
template <typename T, typename U>
bool operator!=(const region_allocator<T> &one, const region_allocator<U> &other) noexcept {
  return one.get() != other.get();
}

/* As long as it lives, its thread's requests (malloc, new, ...) go to the region: also those of exceptions, which must
 * be gone before the region is. Scopes of a thread nest, so a guard can neither be moved nor copied. */
class [[nodiscard]] region_scope {
public:
  explicit region_scope(const region &in) : region_scope(in.get()) {}
  explicit region_scope(hak_region_t *handle) : handle_(handle) {
    if (handle_ == nullptr || !hak_region_enter(handle_)) {
      detail::fail();
    }
  }
  region_scope(const region_scope &) = delete;
  region_scope &operator=(const region_scope &) = delete;
  ~region_scope() {
    hak_region_leave(handle_);
  }

private:
  hak_region_t *handle_;
};

} // namespace hakmem

#endif
