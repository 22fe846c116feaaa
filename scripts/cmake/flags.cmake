# Flags of everything built here: library, tests and benchmarks.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_compile_options(-Wall -Wextra -Wundef -Wconversion -Wshadow)
if(HAKMEM_WERROR)
  add_compile_options(-Werror)
endif()
if(HAKMEM_NATIVE)
  add_compile_options(-march=native)
endif()

if(HAKMEM_SANITIZE)
  add_compile_options(-fsanitize=${HAKMEM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${HAKMEM_SANITIZE})
  # A sanitizer's library is large, and each test is linked to it: the usual linker takes a quarter of a second for each.
  include(CheckLinkerFlag)
  check_linker_flag(C -fuse-ld=lld HAKMEM_HAS_LLD)
  if(HAKMEM_HAS_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
endif()

if(HAKMEM_COVERAGE)
  # Relative paths in the reports would depend on the directory a test ran in.
  add_compile_options(--coverage -fprofile-abs-path -fprofile-update=atomic)
  add_link_options(--coverage)
endif()
