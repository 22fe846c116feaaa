/* The libFuzzer target: fuzz_api CORPUS_DIRECTORY */
#include "operations.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  run_operations(data, size);
  return 0;
}
