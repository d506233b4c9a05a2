// Instantiated graphs: a copy of the nodes, parameter updates for later launches, launching.
//
// A launch keeps the steps it began with, so updates and destruction never reach it. Launches of
// one exec run one after the other, whatever streams they go to.
#include "state.h"

namespace emulator {
namespace {

CUresult instantiate(CUgraphExec *handle, CUgraph graph, unsigned long long flags) {
  constexpr unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                       CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if (handle == nullptr || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
  State &s = state();
  Lock lock(s.mutex);
  const auto object = s.graphs.find(graph);
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto exec = std::make_shared<Exec>();
  auto steps = std::make_shared<Steps>();
  for (const auto &node : object->nodes) {
    exec->step_of.emplace(reinterpret_cast<uintptr_t>(node->handle), steps->size());
    steps->push_back(node->work);
  }
  exec->steps = std::move(steps);
  *handle = s.execs.add(std::move(exec));
  return CUDA_SUCCESS;
}

// The node must still be in the graph that the exec was made from, and keep its kind.
CUresult replace(CUgraphExec exec, CUgraphNode node, std::shared_ptr<const Work> work) {
  State &s = state();
  Lock lock(s.mutex);
  const auto object = s.execs.find(exec);
  if (object == nullptr || s.nodes.find(node) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto found = object->step_of.find(reinterpret_cast<uintptr_t>(node));
  if (found == object->step_of.end()) return CUDA_ERROR_INVALID_VALUE;
  auto steps = std::make_shared<Steps>(*object->steps);
  std::shared_ptr<const Work> &step = (*steps)[found->second];
  if (step->index() != work->index()) return CUDA_ERROR_INVALID_VALUE;
  step = std::move(work);
  object->steps = std::move(steps);
  return CUDA_SUCCESS;
}

bool all_loaded(const Steps &steps) {
  for (const auto &step : steps) {
    const auto *kernel = std::get_if<KernelWork>(step.get());
    if (kernel != nullptr && kernel->function->module->unloaded) return false;
  }
  return true;
}

void run_steps(const Steps &steps) {
  for (const auto &step : steps) {
    if (outcome() != CUDA_SUCCESS) return;
    run(*step);
  }
}

CUresult launch(CUgraphExec exec, CUstream stream) {
  State &s = state();
  Lock lock(s.mutex);
  const auto object = s.execs.find(exec);
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> where;
  if (const CUresult result = enter_stream_idle(s, stream, &where)) return result;
  if (!all_loaded(*object->steps)) return CUDA_ERROR_INVALID_HANDLE;
  Operations after;
  if (object->last != nullptr && !object->last->done) after.push_back(object->last);
  auto operation =
      s.engine.prepare(where, [steps = object->steps] { run_steps(*steps); }, std::move(after));
  object->last = operation;  // before it runs: another thread's launch comes after this one
  s.engine.submit(lock, operation);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                             unsigned long long flags) {
  return call(Call::cuGraphInstantiateWithFlags, Need::context,
              [&] { return instantiate(exec, graph, flags); });
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS *parameters) {
  return call(Call::cuGraphExecKernelNodeSetParams, Need::context, [&]() -> CUresult {
    std::shared_ptr<const Work> work;
    if (const CUresult result = work_of(parameters, &work)) return result;
    return replace(exec, node, std::move(work));
  });
}

CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_MEMCPY3D *parameters,
                                                CUcontext context) {
  return call(Call::cuGraphExecMemcpyNodeSetParams, Need::context, [&]() -> CUresult {
    std::shared_ptr<const Work> work;
    if (const CUresult result = work_of(parameters, context, &work)) return result;
    return replace(exec, node, std::move(work));
  });
}

CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_MEMSET_NODE_PARAMS *parameters,
                                                CUcontext context) {
  return call(Call::cuGraphExecMemsetNodeSetParams, Need::context, [&]() -> CUresult {
    std::shared_ptr<const Work> work;
    if (const CUresult result = work_of(parameters, context, &work)) return result;
    return replace(exec, node, std::move(work));
  });
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec) {
  return call(Call::cuGraphExecDestroy, Need::release, [&]() -> CUresult {
    State &s = state();
    Lock lock(s.mutex);
    return s.execs.remove(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return call(Call::cuGraphUpload, Need::context, [&]() -> CUresult {
    State &s = state();
    Lock lock(s.mutex);
    if (s.execs.find(exec) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Stream> where;
    if (const CUresult result = enter_stream_idle(s, stream, &where)) return result;
    s.engine.submit(lock, where, nullptr);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  // As seen with the driver: the stream says which context, none need be current.
  return call(Call::cuGraphLaunch, Need::device, [&] { return launch(exec, stream); });
}

}  // extern "C"
