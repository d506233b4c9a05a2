# The Cython extensions of vyre_cuda._native: one module per .pyx, linked to libvyre_cuda.
if(NOT Python_Development.Module_FOUND)
  message(FATAL_ERROR "the Python headers are missing")
endif()
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import numpy; print(numpy.get_include(), end='')"
  OUTPUT_VARIABLE VYC_NUMPY_INCLUDE COMMAND_ERROR_IS_FATAL ANY)

set(VYC_NATIVE_SOURCE ${CMAKE_CURRENT_SOURCE_DIR}/src/vyre_cuda/_native)
file(GLOB VYC_NATIVE_PXD CONFIGURE_DEPENDS ${VYC_NATIVE_SOURCE}/*.pxd)

function(vyc_extension name)
  set(source ${VYC_NATIVE_SOURCE}/${name}.pyx)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/_native/${name}.c)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/_native
    COMMAND ${Python_EXECUTABLE} -m cython -3 -I ${CMAKE_CURRENT_SOURCE_DIR}/src
            --module-name vyre_cuda._native.${name} -o ${output} ${source}
    DEPENDS ${source} ${VYC_NATIVE_PXD}
    VERBATIM)
  python_add_library(native_${name} MODULE WITH_SOABI ${output})
  set_target_properties(native_${name} PROPERTIES
    OUTPUT_NAME ${name} INSTALL_RPATH "$ORIGIN/../lib" C_VISIBILITY_PRESET hidden)
  target_include_directories(native_${name} SYSTEM PRIVATE ${VYC_NUMPY_INCLUDE})
  target_include_directories(native_${name} PRIVATE ${VYC_NATIVE_SOURCE} ${CMAKE_CURRENT_SOURCE_DIR}/csrc)
  target_compile_definitions(native_${name} PRIVATE
    NPY_NO_DEPRECATED_API=NPY_2_0_API_VERSION NPY_TARGET_VERSION=NPY_2_0_API_VERSION)
  target_compile_options(native_${name} PRIVATE ${VYC_STACK_PROBES})
  target_link_libraries(native_${name} PRIVATE vyre_cuda)
  install(TARGETS native_${name} LIBRARY DESTINATION vyre_cuda/_native)
endfunction()

foreach(name status origin waiting context graph memory foreign dlpack module ticket plan loaded table frame dispatch bound record bundle)
  vyc_extension(${name})
endforeach()
