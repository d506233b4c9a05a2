# What is installed for C and C++ hosts: libraries, headers, a CMake package and a pkg-config file.
#
# The installation may be moved as a whole. The build tree has the package and the pkg-config file, too, under cmake/ and
# pkgconfig/, so that a host can be built against it. CONTRIBUTING.md says when the SONAME changes.
include(CMakePackageConfigHelpers)

if(SKBUILD)
  set(VYC_LIBRARY_DIR vyre_cuda/lib)
  set(VYC_INCLUDE_DIR vyre_cuda/include)
  set(VYC_PREFIX vyre_cuda)
else()
  include(GNUInstallDirs)
  set(VYC_LIBRARY_DIR ${CMAKE_INSTALL_LIBDIR})
  set(VYC_INCLUDE_DIR ${CMAKE_INSTALL_INCLUDEDIR})
  set(VYC_PREFIX .)
endif()
# Wheels cannot contain links: there the library is the one file that its SONAME names, and libvyre_cuda.so, with which
# hosts are linked, is a linker script.
if(SKBUILD)
  set_target_properties(vyre_cuda PROPERTIES VERSION ${VYC_SOVERSION} SOVERSION ${VYC_SOVERSION})
  set(VYC_NAMELINK NAMELINK_SKIP)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/installed/libvyre_cuda.so
    CONTENT "INPUT(libvyre_cuda.so.${VYC_SOVERSION})\n")
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/installed/libvyre_cuda.so DESTINATION ${VYC_LIBRARY_DIR})
else()
  set_target_properties(vyre_cuda PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${VYC_SOVERSION})
  set(VYC_NAMELINK "")
endif()
set(VYC_PACKAGE_DIR ${VYC_LIBRARY_DIR}/cmake/vyre_cuda)

set(VYC_LIBRARIES vyre_cuda)
set(VYC_PC_EMULATOR "")
if(VYC_EMULATOR)
  # A host passes the emulator's path to vyc_driver_open: $<TARGET_FILE:vyre_cuda::emulator>, or pkg-config's variable.
  set_target_properties(vyre_cuda_emulator PROPERTIES EXPORT_NAME emulator)
  list(APPEND VYC_LIBRARIES vyre_cuda_emulator)
  set(VYC_PC_EMULATOR "emulator=\${libdir}/libvyre_cuda_emulator.so\n")
endif()
if(VYC_STATIC)
  set_target_properties(vyre_cuda_static PROPERTIES EXPORT_NAME static)
  list(APPEND VYC_LIBRARIES vyre_cuda_static)
endif()
install(TARGETS ${VYC_LIBRARIES} EXPORT vyre_cudaTargets
  ARCHIVE DESTINATION ${VYC_LIBRARY_DIR} LIBRARY DESTINATION ${VYC_LIBRARY_DIR} ${VYC_NAMELINK} INCLUDES DESTINATION ${VYC_INCLUDE_DIR})
install(DIRECTORY csrc/include/ DESTINATION ${VYC_INCLUDE_DIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

install(EXPORT vyre_cudaTargets NAMESPACE vyre_cuda:: DESTINATION ${VYC_PACKAGE_DIR})
set(VYC_BUILT_PACKAGE ${CMAKE_CURRENT_BINARY_DIR}/cmake/vyre_cuda)
export(EXPORT vyre_cudaTargets NAMESPACE vyre_cuda:: FILE ${VYC_BUILT_PACKAGE}/vyre_cudaTargets.cmake)
configure_package_config_file(cmake/vyre_cudaConfig.cmake.in ${VYC_BUILT_PACKAGE}/vyre_cudaConfig.cmake
  INSTALL_DESTINATION ${VYC_PACKAGE_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${VYC_BUILT_PACKAGE}/vyre_cudaConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY ${VYC_COMPATIBILITY})
install(FILES ${VYC_BUILT_PACKAGE}/vyre_cudaConfig.cmake ${VYC_BUILT_PACKAGE}/vyre_cudaConfigVersion.cmake
  DESTINATION ${VYC_PACKAGE_DIR})

# How the pkg-config file names a directory of the installation: relative to the prefix, unless the builder chose an
# absolute path.
function(vyc_pkgconfig_path result directory)
  if(IS_ABSOLUTE ${directory})
    set(${result} ${directory} PARENT_SCOPE)
  else()
    file(RELATIVE_PATH path /${VYC_PREFIX} /${directory})
    set(${result} "\${prefix}/${path}" PARENT_SCOPE)
  endif()
endfunction()

set(VYC_PC_PREFIX ${CMAKE_CURRENT_BINARY_DIR})
set(VYC_PC_LIBRARY_DIR "\${prefix}")
set(VYC_PC_INCLUDE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/csrc/include)
configure_file(cmake/vyre_cuda.pc.in pkgconfig/vyre_cuda.pc @ONLY)

if(IS_ABSOLUTE ${VYC_LIBRARY_DIR})
  set(VYC_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH VYC_PC_PREFIX /${VYC_LIBRARY_DIR}/pkgconfig /${VYC_PREFIX})
  string(REGEX REPLACE "/$" "" VYC_PC_PREFIX "\${pcfiledir}/${VYC_PC_PREFIX}")
endif()
vyc_pkgconfig_path(VYC_PC_LIBRARY_DIR ${VYC_LIBRARY_DIR})
vyc_pkgconfig_path(VYC_PC_INCLUDE_DIR ${VYC_INCLUDE_DIR})
configure_file(cmake/vyre_cuda.pc.in installed/vyre_cuda.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/installed/vyre_cuda.pc DESTINATION ${VYC_LIBRARY_DIR}/pkgconfig)
