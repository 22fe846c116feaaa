#include "access.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "explore.h"
#include "races.h"

/* The compilers prescribe the names and types. */
void __tsan_init(void);
void __tsan_func_entry(void *caller);
void __tsan_func_exit(void);
void __tsan_read_range(void *address, size_t bytes);
void __tsan_write_range(void *address, size_t bytes);
void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_thread_fence(int order);
void *__tsan_memset(void *to, int byte, size_t bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes);

void __tsan_init(void) {}
void __tsan_func_entry(void *caller) {
  (void)caller;
}
void __tsan_func_exit(void) {}

static bool is_on_stack(const void *address) {
  enum { NEAR_BYTES = 64 << 10 };
  const char *here = __builtin_frame_address(0);
  return (uintptr_t)here - (uintptr_t)address + NEAR_BYTES / 2 < NEAR_BYTES;
}

static void plain(const void *address, bool write) {
  if (!is_on_stack(address)) {
    access_seen(address, write);
    races_plain(address, write);
  }
}

static void plain_range(const char *address, size_t bytes, bool write) {
  for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
    plain(address + i, write);
  }
}

void __tsan_read_range(void *address, size_t bytes) {
  plain_range(address, bytes, false);
}
void __tsan_write_range(void *address, size_t bytes) {
  plain_range(address, bytes, true);
}
void *__tsan_memset(void *to, int byte, size_t bytes) {
  plain_range(to, bytes, true);
  return memset(to, byte, bytes);
}
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
  plain_range(from, bytes, false);
  plain_range(to, bytes, true);
  return memcpy(to, from, bytes);
}

#define PLAIN(bytes) \
  void __tsan_read##bytes(void *address); \
  void __tsan_write##bytes(void *address); \
  void __tsan_unaligned_read##bytes(void *address); \
  void __tsan_unaligned_write##bytes(void *address); \
  void __tsan_read##bytes(void *address) { \
    plain(address, false); \
  } \
  void __tsan_write##bytes(void *address) { \
    plain(address, true); \
  } \
  void __tsan_unaligned_read##bytes(void *address) { \
    plain(address, false); \
  } \
  void __tsan_unaligned_write##bytes(void *address) { \
    plain(address, true); \
  }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

static bool acquires(int order) {
  return order == __ATOMIC_CONSUME || order == __ATOMIC_ACQUIRE || order == __ATOMIC_ACQ_REL ||
         order == __ATOMIC_SEQ_CST;
}
static bool releases(int order) {
  return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static void before_load(const void *address, int order) {
  explore_point(STEP_READ, address);
  access_seen(address, false);
  if (acquires(order)) {
    races_acquire(address);
  }
  if (races_may_be_stale(address)) {
    access_stale(address);
  }
}

static void before_store(const void *address, int order) {
  explore_point(STEP_WRITE, address);
  access_seen(address, true);
  if (releases(order)) {
    races_release(address, false);
  } else {
    races_overwrite(address);
  }
  races_stored(address);
}

static void before_change(const void *address, int order) {
  explore_point(STEP_WRITE, address);
  access_seen(address, true);
  if (acquires(order)) {
    races_acquire(address);
  }
  if (releases(order)) {
    races_release(address, true);
  }
}

/* The allocator needs no fence between two threads. Within one thread, a fork may happen at a signal fence. */
void __tsan_atomic_signal_fence(int order) {
  static char fence;
  (void)order;
  explore_point(STEP_READ, &fence);
}
void __tsan_atomic_thread_fence(int order) {
  (void)order;
  explore_fail("a fence between threads, which the race detector does not know");
}

#define CHANGE(bits, name, expression) \
  uint##bits##_t __tsan_atomic##bits##_##name(volatile void *at, uint##bits##_t value, int order); \
  uint##bits##_t __tsan_atomic##bits##_##name(volatile void *at, uint##bits##_t value, int order) { \
    volatile uint##bits##_t *word = at; \
    before_change((const void *)word, order); \
    uint##bits##_t old = *word; \
    *word = (uint##bits##_t)(expression); \
    return old; \
  }
#define COMPARE(bits) \
  uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile void *at, uint##bits##_t expected, \
                                                            uint##bits##_t value, int order, int failed); \
  uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile void *at, uint##bits##_t expected, \
                                                            uint##bits##_t value, int order, int failed) { \
    volatile uint##bits##_t *word = at; \
    explore_point(STEP_WRITE, (const void *)word); \
    access_seen((const void *)word, true); \
    uint##bits##_t old = *word; \
    if (acquires(old == expected ? order : failed)) { \
      races_acquire((const void *)word); \
    } \
    if (old == expected) { \
      if (releases(order)) { \
        races_release((const void *)word, true); \
      } \
      *word = value; \
    } \
    return old; \
  }
#define COMPARE_BOOL(bits, strength) \
  bool __tsan_atomic##bits##_compare_exchange_##strength(volatile void *at, void *expected, uint##bits##_t value, \
                                                         int order, int failed); \
  bool __tsan_atomic##bits##_compare_exchange_##strength(volatile void *at, void *expected, uint##bits##_t value, \
                                                         int order, int failed) { \
    uint##bits##_t wanted = *(uint##bits##_t *)expected; \
    uint##bits##_t old = __tsan_atomic##bits##_compare_exchange_val(at, wanted, value, order, failed); \
    *(uint##bits##_t *)expected = old; \
    return old == wanted; \
  }
#define ATOMIC(bits) \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile void *at, int order); \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile void *at, int order) { \
    before_load((const void *)at, order); \
    return *(const volatile uint##bits##_t *)at; \
  } \
  void __tsan_atomic##bits##_store(volatile void *at, uint##bits##_t value, int order); \
  void __tsan_atomic##bits##_store(volatile void *at, uint##bits##_t value, int order) { \
    before_store((const void *)at, order); \
    *(volatile uint##bits##_t *)at = value; \
  } \
  CHANGE(bits, exchange, value) \
  CHANGE(bits, fetch_add, old + value) \
  CHANGE(bits, fetch_sub, old - value) \
  CHANGE(bits, fetch_and, old &value) \
  CHANGE(bits, fetch_or, old | value) \
  CHANGE(bits, fetch_xor, old ^ value) \
  COMPARE(bits) \
  COMPARE_BOOL(bits, strong) \
  COMPARE_BOOL(bits, weak)
ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)
