# Tests of the sources themselves rather than of what they do. They run once, in the release preset, whatever
# is built: label "check".

find_package(Python3 COMPONENTS Interpreter REQUIRED)

function(hakmem_add_check name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS check TIMEOUT 300 SKIP_RETURN_CODE 77)
endfunction()

if(CMAKE_C_COMPILER_ID STREQUAL "GNU") # clang does not say who calls whom
  set(hakmem_calls --calls ${PROJECT_BINARY_DIR})
endif()
hakmem_add_check(layers ${Python3_EXECUTABLE} scripts/check_layers ${hakmem_calls} src)
hakmem_add_check(layers_selftest ${Python3_EXECUTABLE} scripts/check_layers --selftest)
hakmem_add_check(prefixes ${Python3_EXECUTABLE} scripts/check_prefixes src)
hakmem_add_check(prefixes_selftest ${Python3_EXECUTABLE} scripts/check_prefixes --selftest)
hakmem_add_check(lines scripts/check_lines)
hakmem_add_check(mutants ${Python3_EXECUTABLE} scripts/mutate --check)
hakmem_add_check(mutants_selftest ${Python3_EXECUTABLE} scripts/mutate --selftest)
hakmem_add_check(links scripts/check_links)
hakmem_add_check(manual scripts/check_manual)
hakmem_add_check(refusals scripts/check_refusals)
if(HAKMEM_OVERRIDE AND NOT CMAKE_CROSSCOMPILING)
  hakmem_add_check(install scripts/check_install ${PROJECT_BINARY_DIR})
  hakmem_add_check(selection scripts/test_targets --check ${PROJECT_BINARY_DIR})
  hakmem_add_check(rust scripts/check_rust)
  set_tests_properties(rust PROPERTIES LABELS "check;long" TIMEOUT 3000) # cargo builds the crate, and fetches what it names
  hakmem_add_check(shared_library scripts/check_shared_library $<TARGET_FILE:hakmem>)
endif()
