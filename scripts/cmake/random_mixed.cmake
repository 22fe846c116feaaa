# One benchmark program, four allocators. bench/random_mixed.c calls plain malloc and free.

function(hakmem_add_random_mixed suffix)
  set(name bench_random_mixed_${suffix})
  add_executable(${name} ${PROJECT_SOURCE_DIR}/bench/random_mixed.c)
  # The compiler may otherwise drop pairs of malloc and free.
  target_compile_options(${name} PRIVATE -fno-builtin)
  # A library that is only there for its malloc must stay, even where nothing else of it is used.
  target_link_options(${name} PRIVATE -Wl,--no-as-needed)
  target_link_libraries(${name} PRIVATE ${ARGN})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${HAKMEM_BENCH_DIR})
endfunction()

hakmem_add_random_mixed(system)
if(HAKMEM_OVERRIDE)
  hakmem_add_random_mixed(hakmem hakmem)
  hakmem_add_random_mixed(hakmem_minimal hakmem_minimal_static)
endif()

find_library(HAKMEM_MIMALLOC_LIBRARY mimalloc DOC "Debian's mimalloc, for comparison")
if(HAKMEM_MIMALLOC_LIBRARY)
  hakmem_add_random_mixed(mi ${HAKMEM_MIMALLOC_LIBRARY})
else()
  message(STATUS "libmimalloc-dev is not installed: bench_random_mixed_mi is left out")
endif()
