include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hakmem)
# pkg-config resolves the prefix from where the file lies, so `cmake --install --prefix` may choose it late.
file(RELATIVE_PATH prefix_from_pkgconfig /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig "${prefix_from_pkgconfig}")
configure_file(scripts/cmake/hakmem.pc.in hakmem.pc @ONLY)
configure_package_config_file(scripts/cmake/hakmem-config.cmake.in hakmem-config.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file(hakmem-config-version.cmake COMPATIBILITY SameMinorVersion)

set_target_properties(hakmem_static PROPERTIES EXPORT_NAME hakmem_static)
install(TARGETS hakmem hakmem_static EXPORT hakmem-targets)
install(EXPORT hakmem-targets NAMESPACE hakmem:: DESTINATION ${package_dir})
install(FILES include/hakmem.h include/hakmem.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_BINARY_DIR}/hakmem-config.cmake ${PROJECT_BINARY_DIR}/hakmem-config-version.cmake
        DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/hakmem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(TARGETS hakmem_command)
install(FILES docs/man/hakmem.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES docs/man/hakmem.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The dynamic linker finds a new library in its own folders only once its cache was renewed; not for a package's
# staging folder, whose maintainer scripts do it. A component, so that it can be asked for alone.
install(CODE [[
  if("$ENV{DESTDIR}" STREQUAL "" AND CMAKE_INSTALL_PREFIX MATCHES "^/(usr(/local)?/?)?$")
    message("Now run ldconfig as root: programs find libhakmem.so from then on.")
  endif()
]] COMPONENT ldconfig_line)
