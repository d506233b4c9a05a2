# The Cython extensions of vyre_cuda._native: one module per .pyx, linked to libvyre_cuda.
if(NOT Python_Development.Module_FOUND)
  message(FATAL_ERROR "VYC_PYTHON needs the headers of Python, and they were not found")
endif()
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import numpy; print(numpy.get_include(), end='')"
  OUTPUT_VARIABLE VYC_NUMPY_INCLUDE COMMAND_ERROR_IS_FATAL ANY)

set(VYC_NATIVE_SOURCE ${CMAKE_CURRENT_SOURCE_DIR}/src/vyre_cuda/_native)
# Cython reports the declarations that a module includes. A .pxd that is new or gone may change what an include finds, so
# the list of all of them is a dependency, too.
file(GLOB_RECURSE VYC_NATIVE_PXD CONFIGURE_DEPENDS ${VYC_NATIVE_SOURCE}/*.pxd)
set(VYC_NATIVE_DECLARED ${CMAKE_CURRENT_BINARY_DIR}/_native/declared.txt)
file(CONFIGURE OUTPUT ${VYC_NATIVE_DECLARED} CONTENT "${VYC_NATIVE_PXD}")

# `path`: the .pyx as ROOM/NAME, relative to _native and without its suffix.
function(vyc_extension path)
  set(source ${VYC_NATIVE_SOURCE}/${path}.pyx)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/_native/${path}.c)
  get_filename_component(name ${path} NAME)
  get_filename_component(folder _native/${path} DIRECTORY)
  string(REPLACE "/" "." module ${path})
  string(REPLACE "/" "_" target native_${path})
  string(REGEX REPLACE "[^/]+" ".." up ${folder}) # from the module's folder to the package
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/${folder}
    COMMAND ${Python_EXECUTABLE} -m cython -3 --depfile -I ${CMAKE_CURRENT_SOURCE_DIR}/src
            --module-name vyre_cuda._native.${module} -o ${output} ${source}
    DEPENDS ${source} ${VYC_NATIVE_DECLARED}
    DEPFILE ${output}.dep
    VERBATIM)
  python_add_library(${target} MODULE WITH_SOABI ${output})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${folder} INSTALL_RPATH "$ORIGIN/${up}/lib" C_VISIBILITY_PRESET hidden)
  target_include_directories(${target} SYSTEM PRIVATE ${VYC_NUMPY_INCLUDE})
  target_include_directories(${target} PRIVATE ${VYC_NATIVE_SOURCE} ${CMAKE_CURRENT_SOURCE_DIR}/csrc)
  target_compile_definitions(${target} PRIVATE
    NPY_NO_DEPRECATED_API=NPY_2_0_API_VERSION NPY_TARGET_VERSION=NPY_2_0_API_VERSION)
  target_compile_options(${target} PRIVATE ${VYC_STACK_PROBES})
  target_link_libraries(${target} PRIVATE vyre_cuda)
  install(TARGETS ${target} LIBRARY DESTINATION vyre_cuda/${folder})
endfunction()

file(GLOB_RECURSE VYC_NATIVE_PYX CONFIGURE_DEPENDS RELATIVE ${VYC_NATIVE_SOURCE} ${VYC_NATIVE_SOURCE}/*.pyx)
foreach(source ${VYC_NATIVE_PYX})
  string(REGEX REPLACE "[.]pyx$" "" path ${source})
  vyc_extension(${path})
endforeach()
