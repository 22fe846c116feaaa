// What the compiler is recorded with: a string of the standard library.
#include <string>

std::string joined(const std::string &first, const std::string &second) {
  return first + ", " + second;
}
