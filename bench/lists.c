// lists CYCLES NODES [MIN MAX]: a short program. Builds lists of a hundred nodes, each with a string of MIN to MAX
// bytes, until there are NODES nodes; then walks and frees list by list. Does all this CYCLES times.
#include "bench.h"

enum { NODES_PER_LIST = 100 };

typedef struct node {
  struct node *next;
  char *text;
  uint64_t key, length;
} node_t;

static node_t *list_new(uint64_t *random, uint32_t min_bytes, uint32_t size_count) {
  node_t *first = NULL;
  for (uint32_t i = 0; i < NODES_PER_LIST; i++) {
    uint32_t length = min_bytes + bench_random(random, size_count);
    node_t *node = bench_malloc(sizeof *node);
    *node = (node_t){first, bench_malloc(length), i, length};
    memset(node->text, 'x', length);
    first = node;
  }
  return first;
}

static uint64_t list_free(node_t *list) {
  uint64_t sum = 0;
  for (node_t *next; list != NULL; list = next) {
    next = list->next;
    sum += list->key + (unsigned char)list->text[list->length - 1];
    free(list->text);
    free(list);
  }
  return sum;
}

int main(int argc, char **argv) {
  bench_expect_args(argc, argv, 4, "CYCLES NODES [MIN MAX]");
  uint64_t cycles = bench_arg(argc, argv, 1, "CYCLES", 5, 1, 1000000);
  uint64_t lists = bench_arg(argc, argv, 2, "NODES", 300000, NODES_PER_LIST, 1 << 30) / NODES_PER_LIST;
  uint32_t low = (uint32_t)bench_arg(argc, argv, 3, "MIN", 8, 1, 1 << 20);
  uint32_t high = (uint32_t)bench_arg(argc, argv, 4, "MAX", 208, 1, 1 << 20);
  bench_expect_order(argv, low, high);
  node_t **table = bench_map(lists * sizeof(node_t *));
  uint64_t random = bench_seed(2), sum = 0;

  double start = bench_seconds();
  for (uint64_t cycle = 0; cycle < cycles; cycle++) {
    for (uint64_t i = 0; i < lists; i++)
      table[i] = list_new(&random, low, high - low + 1);
    for (uint64_t i = 0; i < lists; i++)
      sum += list_free(table[i]);
  }
  double took = bench_seconds() - start;
  printf("lists = %.2f ns/pair [cycles=%llu nodes=%llu sum=%llu] time=%.3fs\n",
         took * 1e9 / (2 * (double)cycles * (double)lists * NODES_PER_LIST), (unsigned long long)cycles,
         (unsigned long long)lists * NODES_PER_LIST, (unsigned long long)sum, took);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  return 0;
}
