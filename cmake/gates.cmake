# The research gates of src/gates.def that this build sets: HAKMEM_GATES="NAME=1;OTHER=0". Everything is compiled with
# them, the tests too, for a gate may change the layout of the objects. A gate at its default is not mentioned.

set(HAKMEM_GATES "" CACHE STRING "Research gates of src/gates.def to set, as NAME=0 or NAME=1, separated by ';'")

set(gate_table ${PROJECT_SOURCE_DIR}/src/gates.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${gate_table})
file(STRINGS ${gate_table} gate_rows REGEX "^HAK_GATE\\(")

function(hakmem_set_gate setting)
  if(NOT setting MATCHES "^([A-Z0-9_]+)=([01])$")
    message(FATAL_ERROR "HAKMEM_GATES: '${setting}' is not NAME=0 or NAME=1")
  endif()
  set(name ${CMAKE_MATCH_1})
  set(value ${CMAKE_MATCH_2})
  foreach(row IN LISTS gate_rows)
    if(row MATCHES "^HAK_GATE\\(${name}, ([01]),")
      if(NOT value EQUAL CMAKE_MATCH_1)
        add_compile_definitions(HAKMEM_GATE_${name}=${value})
      endif()
      return()
    endif()
  endforeach()
  list(TRANSFORM gate_rows REPLACE "^HAK_GATE\\(([A-Z0-9_]+),.*" "\\1" OUTPUT_VARIABLE names)
  list(JOIN names ", " names)
  message(FATAL_ERROR "HAKMEM_GATES: src/gates.def has no gate '${name}'; it has ${names}")
endfunction()

foreach(setting IN LISTS HAKMEM_GATES)
  hakmem_set_gate("${setting}")
endforeach()
