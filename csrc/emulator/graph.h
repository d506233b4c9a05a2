// Graphs, their nodes, and instantiated graphs.
//
// A node can only depend on nodes that are already there, so the order of adding is a topological
// order, and running the nodes in it honors every dependency.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "launch.h"
#include "stream.h"

namespace emulator {

struct Graph;

struct Node {
  CUgraphNode handle = nullptr;
  const Graph *graph = nullptr;
  std::shared_ptr<const Work> work;
};

struct Graph {
  std::vector<std::shared_ptr<Node>> nodes;
};

using Steps = std::vector<std::shared_ptr<const Work>>;

struct Exec {
  std::unordered_map<uintptr_t, size_t> step_of;  // node handle -> index in steps
  std::shared_ptr<const Steps> steps;             // replaced, never changed: launches keep theirs
  std::shared_ptr<Operation> last;                // the latest launch; the next one runs after it
};

// From the driver's node parameters to work, checked.
CUresult work_of(const CUDA_KERNEL_NODE_PARAMS *parameters, std::shared_ptr<const Work> *work);
CUresult work_of(const CUDA_MEMCPY3D *parameters, CUcontext context,
                 std::shared_ptr<const Work> *work);
CUresult work_of(const CUDA_MEMSET_NODE_PARAMS *parameters, CUcontext context,
                 std::shared_ptr<const Work> *work);
// One write of 32 bits; other batches are not supported.
CUresult work_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS *parameters,
                 std::shared_ptr<const Work> *work);

}  // namespace emulator
