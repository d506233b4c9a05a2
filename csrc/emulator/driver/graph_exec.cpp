// Instantiated graphs: a copy of the nodes, parameter updates for later launches, launching.
//
// A launch keeps the steps and user objects it began with, so updates and destruction never reach
// it. Launches of one exec run one after the other, whatever streams they go to.
#include "state.h"

namespace emulator {
namespace {

// The steps of a graph and of the bodies in it. A conditional without a node is an error; so is a
// body that copies from or to memory that is neither the device's nor page-locked.
CUresult copy_steps(Exec &exec, const Graph &graph, std::vector<size_t> *path,
                    std::shared_ptr<const Steps> *copied) {
  State &s = state();
  auto steps = std::make_shared<Steps>();
  for (const uint64_t handle : graph.conditionals) {
    const Conditional &conditional = s.conditionals.at(handle);
    if (!conditional.used) return CUDA_ERROR_INVALID_VALUE;
    exec.conditionals->values[handle] = {0, conditional.initial, conditional.assigned};
  }
  exec.user_objects.insert(exec.user_objects.end(), graph.user_objects.begin(),
                           graph.user_objects.end());
  for (const Node *node : run_order(graph)) {
    path->push_back(steps->size());
    exec.path_of.emplace(reinterpret_cast<uintptr_t>(node->handle), *path);
    Step step;
    step.work = node->work;
    step.condition = node->condition;
    const auto *copy = node->work == nullptr ? nullptr : std::get_if<CopyWork>(node->work.get());
    if (graph.is_body && copy != nullptr) {
      for (const CopySide &side : {copy->to, copy->from})
        if (s.heap.find(side.address, 1) == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (node->body != nullptr) {
      const auto body = s.graphs.find(node->body);
      if (const CUresult result = copy_steps(exec, *body, path, &step.body)) return result;
    }
    path->pop_back();
    steps->push_back(std::move(step));
  }
  *copied = std::move(steps);
  return CUDA_SUCCESS;
}

CUresult instantiate(CUgraphExec *handle, CUgraph graph, unsigned long long flags) {
  constexpr unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                       CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if (handle == nullptr || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
  State &s = state();
  Lock lock(s.mutex);
  const auto object = s.graphs.find(graph);
  if (object == nullptr || object->is_body) return CUDA_ERROR_INVALID_VALUE;
  auto exec = std::make_shared<Exec>();
  exec->device = object->device;
  exec->conditionals = std::make_shared<ExecConditionals>();
  std::vector<size_t> path;
  if (const CUresult result = copy_steps(*exec, *object, &path, &exec->steps)) return result;
  *handle = s.execs.add(std::move(exec));
  return CUDA_SUCCESS;
}

// Copies the lists of steps along the path, because launches keep theirs.
CUresult replace_at(const std::vector<size_t> &path, size_t depth, std::shared_ptr<const Work> work,
                    std::shared_ptr<const Steps> *steps) {
  auto copied = std::make_shared<Steps>(**steps);
  Step &step = (*copied)[path[depth]];
  if (depth + 1 < path.size()) {
    if (const CUresult result = replace_at(path, depth + 1, std::move(work), &step.body))
      return result;
  } else {
    if (step.work == nullptr || step.work->index() != work->index() ||
        is_cooperative(*step.work) != is_cooperative(*work))
      return CUDA_ERROR_INVALID_VALUE;
    step.work = std::move(work);
  }
  *steps = std::move(copied);
  return CUDA_SUCCESS;
}

// The node must still be in the graph that the exec was made from, and keep its kind.
CUresult replace(CUgraphExec exec, CUgraphNode node, std::shared_ptr<const Work> work) {
  State &s = state();
  Lock lock(s.mutex);
  const auto object = s.execs.find(exec);
  if (object == nullptr || s.nodes.find(node) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto found = object->path_of.find(reinterpret_cast<uintptr_t>(node));
  if (found == object->path_of.end()) return CUDA_ERROR_INVALID_VALUE;
  return replace_at(found->second, 0, std::move(work), &object->steps);
}

// What the node had when it was instantiated, its attributes with it.
std::shared_ptr<const Work> work_at(CUgraphExec exec, CUgraphNode node) {
  State &s = state();
  Lock lock(s.mutex);
  const auto object = s.execs.find(exec);
  if (object == nullptr) return nullptr;
  const auto found = object->path_of.find(reinterpret_cast<uintptr_t>(node));
  if (found == object->path_of.end()) return nullptr;
  const Steps *steps = object->steps.get();
  for (size_t depth = 0; depth + 1 < found->second.size(); ++depth)
    steps = (*steps)[found->second[depth]].body.get();
  return (*steps)[found->second.back()].work;
}

bool all_loaded(const Steps &steps) {
  for (const Step &step : steps) {
    if (step.body != nullptr && !all_loaded(*step.body)) return false;
    const auto *kernel = step.work == nullptr ? nullptr : std::get_if<KernelWork>(step.work.get());
    if (kernel != nullptr && kernel->function->module->unloaded) return false;
  }
  return true;
}

bool goes_on(int device) {
  return outcome(device) == CUDA_SUCCESS && !state().engine.cancel()->load();
}

void run_steps(int device, const Steps &steps, ExecConditionals &conditionals) {
  for (const Step &step : steps) {
    if (!goes_on(device)) return;
    if (step.work != nullptr) {
      run(*step.work, &conditionals);
      continue;
    }
    while (conditionals.values[step.condition].value != 0 && goes_on(device))
      run_steps(device, *step.body, conditionals);
  }
}

CUresult launch(CUgraphExec exec, CUstream stream) {
  State &s = state();
  Lock lock(s.mutex);
  const auto object = s.execs.find(exec);
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> where;
  if (const CUresult result = enter_stream_idle(s, stream, &where)) return result;
  if (where->device != object->device) return CUDA_ERROR_INVALID_VALUE;
  s.engine.make_room(lock, where);
  if (const CUresult result = outcome(where->device)) return result;
  if (!all_loaded(*object->steps)) return CUDA_ERROR_INVALID_HANDLE;
  Operations after;
  if (object->last != nullptr && !object->last->done) after.push_back(object->last);
  auto work = [device = object->device, steps = object->steps, conditionals = object->conditionals,
               held = object->user_objects] {
    conditionals->begin();
    run_steps(device, *steps, *conditionals);
  };
  auto operation = s.engine.prepare(where, std::move(work), std::move(after));
  object->last = operation;  // before it runs: another thread's launch comes after this one
  s.engine.submit(lock, operation);
  return CUDA_SUCCESS;
}

}  // namespace

bool ExecConditionals::set(uint64_t handle, uint32_t value) {
  const auto found = values.find(handle);
  if (found == values.end()) return false;
  found->second.value = value;
  return true;
}

void ExecConditionals::begin() {
  for (auto &[handle, value] : values)
    if (value.assigned) value.value = value.initial;
}

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
    const auto before = work_at(exec, node);
    if (before == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = work_of(parameters, is_cooperative(*before), &work)) return result;
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

CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  // As seen with the driver: the stream says which context, none need be current.
  return call(Call::cuGraphLaunch, Need::driver, [&] { return launch(exec, stream); });
}

}  // extern "C"
