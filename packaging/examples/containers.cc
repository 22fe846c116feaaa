// Two containers on hakmem's heap, whoever serves the rest of the program: by an allocator, and by a memory resource.
#include <hakmem.hpp>

#include <string>
#include <vector>

int main() {
  std::vector<int, hakmem::allocator<int>> numbers(1000, 1);
  std::pmr::vector<std::pmr::string> names(hakmem::resource());
  names.emplace_back("a name that is too long to lie in the string itself");
  return hak_malloc_usable_size(numbers.data()) >= 1000 * sizeof(int) && hak_malloc_usable_size(names[0].data()) > 0 ? 0 : 1;
}
