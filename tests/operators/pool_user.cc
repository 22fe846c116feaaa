// Deletes what the pool made, by the forms that it left to the C++ runtime.
#include "pool.h"

#include <algorithm>
#include <vector>

int main() {
  delete pool_string();
  delete[] pool_array();
  std::vector<int> numbers(1000);
  numbers.front() = 1;
  std::stable_sort(numbers.begin(), numbers.end());
  delete new std::string(200, 'y');
  return numbers.back() != 1;
}
