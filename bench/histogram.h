// A log-linear histogram of nanoseconds with HISTOGRAM_SUB equal steps to each doubling. Values below 128 ns are exact;
// larger ones are known to 1/128. One thread writes; others may read meanwhile (relaxed, so a reader may miss the
// latest values). The caller provides the histogram, zeroed, from bench_map.
#ifndef HAK_BENCH_HISTOGRAM_H
#define HAK_BENCH_HISTOGRAM_H

#include "bench.h"

#include <stdatomic.h>

enum {
  HISTOGRAM_SUB_BITS = 7,
  HISTOGRAM_SUB = 1 << HISTOGRAM_SUB_BITS,
  HISTOGRAM_DOUBLINGS = 35, // up to 2^41 ns (36 minutes); longer times count as that
  HISTOGRAM_BUCKETS = HISTOGRAM_SUB * HISTOGRAM_DOUBLINGS
};

typedef struct {
  atomic_uint_fast64_t counts[HISTOGRAM_BUCKETS];
  atomic_uint_fast64_t largest_ns;
} histogram_t;

// bucket = value below 128; else 128 * (doublings above 128, plus 1) + the 7 bits that follow the leading one
static inline uint32_t histogram_bucket(uint64_t ns) {
  if (ns < HISTOGRAM_SUB)
    return (uint32_t)ns;
  uint32_t shift = 63 - HISTOGRAM_SUB_BITS - (uint32_t)__builtin_clzll(ns);
  uint64_t bucket = ((uint64_t)shift << HISTOGRAM_SUB_BITS) + (ns >> shift);
  return bucket < HISTOGRAM_BUCKETS ? (uint32_t)bucket : HISTOGRAM_BUCKETS - 1;
}

// The largest value that falls into the bucket.
static inline uint64_t histogram_value_ns(uint32_t bucket) {
  if (bucket < 2 * HISTOGRAM_SUB)
    return bucket;
  uint32_t shift = (bucket >> HISTOGRAM_SUB_BITS) - 1;
  uint64_t lead = HISTOGRAM_SUB + bucket % HISTOGRAM_SUB;
  return ((lead + 1) << shift) - 1;
}

static inline void histogram_add(histogram_t *h, uint64_t ns) {
  atomic_uint_fast64_t *count = &h->counts[histogram_bucket(ns)];
  atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1, memory_order_relaxed);
  if (ns > atomic_load_explicit(&h->largest_ns, memory_order_relaxed))
    atomic_store_explicit(&h->largest_ns, ns, memory_order_relaxed);
}

// Value below or at which `share` of the values lie (0 to 1); 0 for an empty histogram.
static inline uint64_t histogram_quantile_ns(const uint64_t *counts, double share) {
  uint64_t total = 0, seen = 0;
  for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
    total += counts[i];
  double wanted = share * (double)total;
  for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
    seen += counts[i];
    if (counts[i] > 0 && (double)seen >= wanted)
      return histogram_value_ns(i);
  }
  return 0;
}

#endif
