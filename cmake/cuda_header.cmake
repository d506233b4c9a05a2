# Sets VYC_CUDA_INCLUDE to a directory that holds cuda.h: a toolkit's, else the wheel's.
find_path(VYC_CUDA_INCLUDE cuda.h
  HINTS ENV CUDA_HOME ENV CUDA_PATH
  PATHS /usr/local/cuda
  PATH_SUFFIXES include)
if(NOT VYC_CUDA_INCLUDE)
  if(Python_Interpreter_FOUND)
    execute_process(
      COMMAND ${Python_EXECUTABLE} -c
        "import nvidia, pathlib; print(next((str(h.parent) for p in nvidia.__path__ for h in sorted(pathlib.Path(p).glob('*/include/cuda.h'))), ''), end='')"
      OUTPUT_VARIABLE VYC_CUDA_WHEEL_INCLUDE ERROR_QUIET)
  endif()
  if(NOT VYC_CUDA_WHEEL_INCLUDE)
    message(FATAL_ERROR "cuda.h not found: install the wheel nvidia-cuda-runtime, or set CUDA_HOME")
  endif()
  set(VYC_CUDA_INCLUDE ${VYC_CUDA_WHEEL_INCLUDE} CACHE PATH "directory of cuda.h" FORCE)
endif()
message(STATUS "cuda.h: ${VYC_CUDA_INCLUDE}")
