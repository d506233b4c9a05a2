// Conditional handles, and WHILE nodes with their bodies: the only kind of conditional node here.
#include "state.h"

namespace emulator {
namespace {

// Above every handle of the registries, so that no kernel takes one for the other.
constexpr uint64_t kFirstConditional = uint64_t{9} << 48;

CUresult create_handle(CUgraphConditionalHandle *handle, CUgraph graph, CUcontext context,
                       unsigned int initial, unsigned int flags) {
  if (handle == nullptr || (flags & ~unsigned{CU_GRAPH_COND_ASSIGN_DEFAULT}) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  State &s = state();
  Lock lock(s.mutex);
  const auto object = s.graphs.find(graph);
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (context != nullptr && context != primary_context(object->device))
    return CUDA_ERROR_INVALID_CONTEXT;
  Conditional conditional;
  conditional.device = object->device;
  conditional.graph = object.get();
  conditional.initial = initial;
  conditional.assigned = flags != 0;
  s.next_conditional += 16;
  *handle = kFirstConditional + s.next_conditional;
  s.conditionals.emplace(*handle, conditional);
  object->conditionals.push_back(*handle);
  return CUDA_SUCCESS;
}

CUresult add_while(CUgraphNode *handle, CUgraph graph, const CUgraphNode *dependencies,
                   size_t count, CUDA_CONDITIONAL_NODE_PARAMS *parameters) {
  State &s = state();
  Lock lock(s.mutex);
  const auto object = s.graphs.find(graph);
  const auto found = s.conditionals.find(parameters->handle);
  if (object == nullptr || found == s.conditionals.end() || parameters->size != 1)
    return CUDA_ERROR_INVALID_VALUE;
  if (found->second.graph != object.get() || found->second.used) return CUDA_ERROR_INVALID_VALUE;
  auto body = std::make_shared<Graph>();
  body->is_body = true;
  body->device = object->device;
  auto node = std::make_shared<Node>();
  node->condition = parameters->handle;
  if (const CUresult result = insert_node(handle, graph, dependencies, count, node)) return result;
  node->body = s.graphs.add(std::move(body));
  found->second.used = true;
  ++s.bodies;
  parameters->phGraph_out = &node->body;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult CUDAAPI graph_add_node(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                size_t count, CUgraphNodeParams *parameters) {
  return call(Call::cuGraphAddNode, Need::context, [&]() -> CUresult {
    if (node == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (number(parameters->type) != CU_GRAPH_NODE_TYPE_CONDITIONAL) return CUDA_ERROR_NOT_SUPPORTED;
    if (number(parameters->conditional.type) != CU_GRAPH_COND_TYPE_WHILE)
      return CUDA_ERROR_NOT_SUPPORTED;
    return add_while(node, graph, dependencies, count, &parameters->conditional);
  });
}

}  // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph graph,
                                                CUcontext context, unsigned int initial,
                                                unsigned int flags) {
  return call(Call::cuGraphConditionalHandleCreate, Need::context,
              [&] { return create_handle(handle, graph, context, initial, flags); });
}

}  // extern "C"
