# The three libraries, and the variant with everything optional compiled out.
#
#   hakmem_core             hak_ functions only                       static, for tests under sanitizers
#   hakmem                  hak_ functions, malloc, operator new      libhakmem.so
#   hakmem_static           the same                                  libhakmem.a
#   hakmem_minimal_static   the same, HAKMEM_MINIMAL=1                libhakmem_minimal.a, for the benchmark

include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckLinkerFlag)
include(CheckSymbolExists)

if(NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
  message(FATAL_ERROR "hakmem needs a 64-bit machine: ${CMAKE_C_COMPILER} ${CMAKE_C_FLAGS} builds for another")
endif()
check_c_source_compiles("_Atomic char c; int main(void) { return __atomic_exchange_n((char *)&c, 1, 2); }" HAKMEM_ATOMIC_BYTES)
check_c_compiler_flag(-momit-leaf-frame-pointer HAKMEM_LEAF_FRAMES) # not gcc 12 for RISC-V
check_symbol_exists(__GLIBC__ features.h HAKMEM_GLIBC)

file(GLOB core_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*/*.c)
list(FILTER core_sources EXCLUDE REGEX "/src/command/") # a program of its own
list(SORT core_sources COMPARE FILE_BASENAME) # the order of data in the library
set(override_sources override.c operators.c mallctl.c mallocx.c protection.c)
list(TRANSFORM override_sources PREPEND ${PROJECT_SOURCE_DIR}/src/malloc/)
list(APPEND override_sources ${PROJECT_SOURCE_DIR}/src/hardened/tokens.c ${PROJECT_SOURCE_DIR}/src/inspect/mallinfo.c)
# Wrappers of dlopen, dlsym and of musl's pthread_atfork: for libhakmem.so alone.
set(preload_sources deepbind.c symbols.c atfork.c)
list(TRANSFORM preload_sources PREPEND ${PROJECT_SOURCE_DIR}/src/malloc/)
list(REMOVE_ITEM core_sources ${override_sources} ${preload_sources})

# The compiler must not turn the bodies of these functions into calls of themselves.
set_source_files_properties(${override_sources} PROPERTIES COMPILE_OPTIONS -fno-builtin)

# Two neighbouring counters, read as one vector, would wait for the latest store of either.
set(region_sources ${core_sources})
list(FILTER region_sources INCLUDE REGEX "/src/regions/")
set_source_files_properties(${region_sources} PROPERTIES COMPILE_OPTIONS -fno-tree-slp-vectorize)

# The heap's own call of madvise is to go by the dynamic symbol, for another library may stand before it.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/malloc/protection.c PROPERTIES COMPILE_OPTIONS "-fno-builtin;-fno-lto")

# Control-flow enforcement: indirect branches land on endbr64 (IBT), returns match a second stack (SHSTK).
set(cet_compile_options)
set(cet_link_options)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  set(cet_compile_options -fcf-protection=full)
  # The C library's crti.o may lack the properties, and the library with it: what it adds is _init and _fini without an
  # endbr64, which do nothing here. Under a name that is not there, no one calls them, and the rest is as marked.
  check_linker_flag(C "-Wl,-z,ibt,-z,shstk" HAKMEM_LINKER_MARKS_CET)
  if(HAKMEM_LINKER_MARKS_CET)
    set(cet_link_options -Wl,-z,ibt,-z,shstk -Wl,-init=hak_no_init -Wl,-fini=hak_no_fini)
  endif()
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  # BTI, and signed return addresses. The linker says so of the library where all it is made of has them, which it is not
  # told to say of others: libgcc's choice of atomic instructions is called by a pointer, and may have no landing pad.
  set(cet_compile_options -mbranch-protection=standard)
endif()

set(THREADS_PREFER_PTHREAD_FLAG OFF)
find_package(Threads REQUIRED)

function(hakmem_add_library name kind)
  add_library(${name} ${kind} ${ARGN})
  add_library(hakmem::${name} ALIAS ${name})
  set_target_properties(${name} PROPERTIES C_EXTENSIONS OFF C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON
                                           ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
                                           LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
  target_compile_options(
    ${name}
    PRIVATE ${cet_compile_options}
            -ftls-model=initial-exec
            -fno-semantic-interposition
            -fno-builtin-malloc
            -fno-builtin-calloc
            -fno-builtin-realloc
            -fno-builtin-free
            # operator new is written in C, and the new-handler it calls may throw.
            -fexceptions
            -fasynchronous-unwind-tables
            # A profile's stacks begin in the library. malloc and free, which only jump on, stay as they are.
            -fno-omit-frame-pointer
            $<$<BOOL:${HAKMEM_LEAF_FRAMES}>:-momit-leaf-frame-pointer>)
  target_link_libraries(${name} PUBLIC Threads::Threads)
  if(NOT HAKMEM_ATOMIC_BYTES) # gcc 12 for RISC-V calls its library
    target_link_libraries(${name} PUBLIC -l:libatomic.a)
  endif()
endfunction()

# Meson takes objects from no other kind of library.
hakmem_add_library(hakmem_objects OBJECT ${core_sources})
hakmem_add_library(hakmem_core STATIC $<TARGET_OBJECTS:hakmem_objects>)

if(HAKMEM_OVERRIDE)
  hakmem_add_library(hakmem SHARED ${core_sources} ${override_sources} ${preload_sources})
  set_target_properties(hakmem PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                                          INTERPROCEDURAL_OPTIMIZATION ${HAKMEM_LTO})
  # nodelete: a thread may still hold a cache, or exit, after a dlclose().
  target_link_options(hakmem PRIVATE -Wl,-z,nodelete -Wl,-z,now -Wl,-z,relro -Wl,--no-undefined -Wl,--as-needed
                                     -Wl,--sort-section=name # HAK_LARGE_DATA
                                     -Wl,-z,separate-code # constants and tables of symbols cannot be executed
                                     ${cet_link_options})
  check_linker_flag(C "-Wl,-T,${PROJECT_SOURCE_DIR}/scripts/cmake/first.ld" HAKMEM_LINKER_INSERTS)
  if(HAKMEM_LINKER_INSERTS)
    target_compile_options(hakmem PRIVATE -ffunction-sections)
    target_link_options(hakmem PRIVATE -ffunction-sections -Wl,-T,${PROJECT_SOURCE_DIR}/scripts/cmake/first.ld)
    set_target_properties(hakmem PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/scripts/cmake/first.ld)
  endif()
  if(HAKMEM_PGO STREQUAL "generate")
    target_compile_options(hakmem PRIVATE -fprofile-generate -fprofile-update=atomic)
    target_link_options(hakmem PRIVATE -fprofile-generate)
  elseif(HAKMEM_PGO STREQUAL "use")
    # Sources the training never entered have no profile; counters of several threads need not add up.
    target_compile_options(hakmem PRIVATE -fprofile-use -fprofile-correction -Wno-missing-profile)
  endif()

  # Without LTO, so that any linker can use it. The objects of the core serve both: only operators.c knows that it is embedded.
  hakmem_add_library(hakmem_static STATIC $<TARGET_OBJECTS:hakmem_objects> ${override_sources})
  set_target_properties(hakmem_static PROPERTIES OUTPUT_NAME hakmem)
  target_compile_definitions(hakmem_static PRIVATE HAKMEM_EMBEDDED=1)

  hakmem_add_library(hakmem_minimal_static STATIC EXCLUDE_FROM_ALL ${core_sources} ${override_sources})
  set_target_properties(hakmem_minimal_static PROPERTIES OUTPUT_NAME hakmem_minimal)
  target_compile_definitions(hakmem_minimal_static PRIVATE HAKMEM_EMBEDDED=1 HAKMEM_MINIMAL=1)
endif()
