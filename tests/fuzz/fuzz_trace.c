/* The libFuzzer target for traces: fuzz_trace CORPUS_DIRECTORY */
#include "trace_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  run_plan(data, size);
  return 0;
}
