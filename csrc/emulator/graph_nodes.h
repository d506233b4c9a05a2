// From the driver's node parameters to work, for building graphs and for updating instantiated
// ones.
#pragma once

#include "launch.h"

namespace emulator {

CUresult work_of(const CUDA_KERNEL_NODE_PARAMS *parameters, std::shared_ptr<const Work> *work);
CUresult work_of(const CUDA_MEMCPY3D *parameters, CUcontext context,
                 std::shared_ptr<const Work> *work);
CUresult work_of(const CUDA_MEMSET_NODE_PARAMS *parameters, CUcontext context,
                 std::shared_ptr<const Work> *work);

}  // namespace emulator
