// Building graphs: kernel, copy, memset and word-writing nodes and what they depend on.
#include "graph.h"

#include <algorithm>
#include <queue>
#include <set>

#include "state.h"

namespace emulator {
namespace {

// One side of a CUDA_MEMCPY3D as the driver addresses it.
struct Box {
  int64_t type;
  const void *host;
  CUdeviceptr device;
  uint64_t x, y, z, pitch, height;
};

CUresult side_of(const Box &box, const CUDA_MEMCPY3D &copy, CopySide *side) {
  const uint64_t pitch = box.pitch != 0 ? box.pitch : box.x + copy.WidthInBytes;
  const uint64_t height = box.height != 0 ? box.height : box.y + copy.Height;
  if (pitch < box.x + copy.WidthInBytes || height < box.y + copy.Height)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t base = box.device;
  side->device = true;
  switch (box.type) {
  case CU_MEMORYTYPE_HOST:
    base = reinterpret_cast<uint64_t>(box.host);
    side->device = false;
    break;
  case CU_MEMORYTYPE_DEVICE: break;
  case CU_MEMORYTYPE_UNIFIED:  // an address that is not ours is the host's
    side->device = state().heap.find(base, 1) != nullptr;
    break;
  case CU_MEMORYTYPE_ARRAY: return CUDA_ERROR_NOT_SUPPORTED;
  default: return CUDA_ERROR_INVALID_VALUE;
  }
  if (base == 0) return CUDA_ERROR_INVALID_VALUE;
  side->address = base + (box.z * height + box.y) * pitch + box.x;
  side->pitch = pitch;
  side->slice = pitch * height;
  return CUDA_SUCCESS;
}

// The device that a node with this context runs on, -1 if there is no such context.
int device_of_node(CUcontext context) {
  return context == nullptr ? current_device() : device_of(context);
}

CUresult check_dependencies(State &s, const Graph *graph, const CUgraphNode *dependencies,
                            size_t count) {
  if (count != 0 && dependencies == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::set<CUgraphNode> seen;
  for (size_t i = 0; i < count; ++i) {
    const auto node = s.nodes.find(dependencies[i]);
    if (node == nullptr || node->graph != graph) return CUDA_ERROR_INVALID_VALUE;
    if (!seen.insert(dependencies[i]).second) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult add_node(CUgraphNode *handle, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                  std::shared_ptr<const Work> work) {
  Lock lock(state().mutex);
  auto node = std::make_shared<Node>();
  node->work = std::move(work);
  return insert_node(handle, graph, dependencies, count, std::move(node));
}

// Of the attributes of kernel nodes, cooperative launches are emulated.
CUresult set_attribute(CUgraphNode handle, int64_t attribute, const CUkernelNodeAttrValue *value) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (attribute != CU_LAUNCH_ATTRIBUTE_COOPERATIVE) return CUDA_ERROR_NOT_SUPPORTED;
  State &s = state();
  Lock lock(s.mutex);
  const auto node = s.nodes.find(handle);
  const auto *kernel = node == nullptr || node->work == nullptr
                           ? nullptr
                           : std::get_if<KernelWork>(node->work.get());
  if (kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
  KernelWork changed = *kernel;
  changed.shape.cooperative = value->cooperative != 0;
  if (const CUresult result = check_resident(changed)) return result;
  node->work = std::make_shared<const Work>(std::move(changed));
  return CUDA_SUCCESS;
}

// The driver clones no graphs with conditional nodes either.
CUresult clone_graph(CUgraph *clone, CUgraph graph) {
  State &s = state();
  Lock lock(s.mutex);
  const auto from = s.graphs.find(graph);
  if (clone == nullptr || from == nullptr || from->is_body || from->is_captured)
    return CUDA_ERROR_INVALID_VALUE;
  if (!from->conditionals.empty()) return CUDA_ERROR_NOT_SUPPORTED;
  auto to = std::make_shared<Graph>();
  to->device = from->device;
  to->user_objects = from->user_objects;
  *clone = s.graphs.add(std::move(to));
  std::unordered_map<CUgraphNode, CUgraphNode> handle_of;
  for (const auto &old : from->nodes) {
    auto node = std::make_shared<Node>();
    node->work = old->work;
    std::vector<CUgraphNode> after;
    for (const CUgraphNode before : old->after) after.push_back(handle_of.at(before));
    CUgraphNode handle = nullptr;
    insert_node(&handle, *clone, after.data(), after.size(), std::move(node));
    handle_of.emplace(old->handle, handle);
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult insert_node(CUgraphNode *handle, CUgraph graph, const CUgraphNode *dependencies,
                     size_t count, std::shared_ptr<Node> node) {
  State &s = state();
  const auto object = s.graphs.find(graph);
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_dependencies(s, object.get(), dependencies, count))
    return result;
  node->device = object->device;
  node->graph = object.get();
  node->after.assign(dependencies, dependencies + count);
  node->handle = s.nodes.add(node);
  *handle = node->handle;
  object->nodes.push_back(std::move(node));
  return CUDA_SUCCESS;
}

void destroy_graph(CUgraph graph) {
  State &s = state();
  const auto object = s.graphs.remove(graph);
  if (object == nullptr) return;  // gone with its context
  if (object->is_body) --s.bodies;
  for (const uint64_t handle : object->conditionals) s.conditionals.erase(handle);
  for (const auto &node : object->nodes) {
    s.nodes.remove(node->handle);
    if (node->body != nullptr) destroy_graph(node->body);
  }
}

std::vector<const Node *> run_order(const Graph &graph) {
  std::unordered_map<CUgraphNode, size_t> places;
  std::vector<std::vector<size_t>> behind(graph.nodes.size());
  std::vector<size_t> waits(graph.nodes.size());
  std::priority_queue<size_t> ready;  // the latest first
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &node = *graph.nodes[i];
    places.emplace(node.handle, i);
    waits[i] = node.after.size();
    for (const CUgraphNode before : node.after) behind[places.at(before)].push_back(i);
    if (waits[i] == 0) ready.push(i);
  }
  std::vector<const Node *> order;
  while (!ready.empty()) {
    const size_t next = ready.top();
    ready.pop();
    order.push_back(graph.nodes[next].get());
    for (const size_t i : behind[next])
      if (--waits[i] == 0) ready.push(i);
  }
  return order;
}

bool is_cooperative(const Work &work) {
  const auto *kernel = std::get_if<KernelWork>(&work);
  return kernel != nullptr && kernel->shape.cooperative;
}

CUresult work_of(const CUDA_KERNEL_NODE_PARAMS *parameters, bool cooperative,
                 std::shared_ptr<const Work> *work) {
  if (parameters == nullptr || parameters->func == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS &p = *parameters;
  const LaunchRequest request{p.func,
                              {p.gridDimX, p.gridDimY, p.gridDimZ},
                              {p.blockDimX, p.blockDimY, p.blockDimZ},
                              p.sharedMemBytes,
                              p.kernelParams,
                              p.extra,
                              cooperative};
  KernelWork kernel;
  if (const CUresult result = prepare(request, &kernel)) return result;
  *work = std::make_shared<const Work>(std::move(kernel));
  return CUDA_SUCCESS;
}

CUresult work_of(const CUDA_MEMCPY3D *parameters, CUcontext context,
                 std::shared_ptr<const Work> *work) {
  const int device = device_of_node(context);
  if (parameters == nullptr || device < 0) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMCPY3D &p = *parameters;
  const Box to{number(p.dstMemoryType),
               p.dstHost,
               p.dstDevice,
               p.dstXInBytes,
               p.dstY,
               p.dstZ,
               p.dstPitch,
               p.dstHeight};
  const Box from{number(p.srcMemoryType),
                 p.srcHost,
                 p.srcDevice,
                 p.srcXInBytes,
                 p.srcY,
                 p.srcZ,
                 p.srcPitch,
                 p.srcHeight};
  if (p.dstLOD != 0 || p.srcLOD != 0) return CUDA_ERROR_INVALID_VALUE;
  if (p.WidthInBytes == 0 || p.Height == 0 || p.Depth == 0) return CUDA_ERROR_INVALID_VALUE;
  CopyWork copy;
  copy.device = device;
  copy.width = p.WidthInBytes;
  copy.height = p.Height;
  copy.depth = p.Depth;
  if (const CUresult result = side_of(to, p, &copy.to)) return result;
  if (const CUresult result = side_of(from, p, &copy.from)) return result;
  if (const CUresult result = check(copy)) return result;
  *work = std::make_shared<const Work>(std::move(copy));
  return CUDA_SUCCESS;
}

CUresult work_of(const CUDA_MEMSET_NODE_PARAMS *parameters, CUcontext context,
                 std::shared_ptr<const Work> *work) {
  const int device = device_of_node(context);
  if (parameters == nullptr || device < 0) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMSET_NODE_PARAMS &p = *parameters;
  if (p.width == 0 || p.height == 0) return CUDA_ERROR_INVALID_VALUE;
  const FillWork fill{
      device, p.dst, p.value, p.elementSize, p.width, p.height, p.height == 1 ? 0 : p.pitch};
  if (p.height > 1 && p.pitch < p.width * p.elementSize) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check(fill)) return result;
  *work = std::make_shared<const Work>(fill);
  return CUDA_SUCCESS;
}

CUresult work_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS *parameters,
                 std::shared_ptr<const Work> *work) {
  if (parameters == nullptr || parameters->flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const int device = device_of_node(parameters->ctx);
  if (device < 0) return CUDA_ERROR_INVALID_VALUE;
  if (parameters->count == 0 || parameters->paramArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUstreamBatchMemOpParams &op = parameters->paramArray[0];
  if (parameters->count != 1 || op.operation != CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
      op.writeValue.flags != CU_STREAM_WRITE_VALUE_DEFAULT)
    return CUDA_ERROR_NOT_SUPPORTED;
  const WriteWork write{device, op.writeValue.address, op.writeValue.value};
  if (const CUresult result = check(write)) return result;
  *work = std::make_shared<const Work>(write);
  return CUDA_SUCCESS;
}

}  // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuGraphCreate(CUgraph *graph, unsigned int flags) {
  return call(Call::cuGraphCreate, Need::context, [&]() -> CUresult {
    if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    State &s = state();
    Lock lock(s.mutex);
    auto object = std::make_shared<Graph>();
    object->device = current_device();
    *graph = s.graphs.add(std::move(object));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphClone(CUgraph *clone, CUgraph graph) {
  return call(Call::cuGraphClone, Need::context, [&] { return clone_graph(clone, graph); });
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
  return call(Call::cuGraphDestroy, Need::release, [&]() -> CUresult {
    State &s = state();
    Lock lock(s.mutex);
    const auto object = s.graphs.find(graph);
    if (object == nullptr || object->is_body || object->is_captured)
      return CUDA_ERROR_INVALID_VALUE;
    destroy_graph(graph);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph,
                                      const CUgraphNode *dependencies, size_t count,
                                      const CUDA_KERNEL_NODE_PARAMS *parameters) {
  return call(Call::cuGraphAddKernelNode, Need::context, [&]() -> CUresult {
    std::shared_ptr<const Work> work;
    if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = work_of(parameters, false, &work)) return result;
    return add_node(node, graph, dependencies, count, std::move(work));
  });
}

CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                               const CUkernelNodeAttrValue *value) {
  return call(Call::cuGraphKernelNodeSetAttribute, Need::context,
              [&] { return set_attribute(node, number(attribute), value); });
}

CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph,
                                      const CUgraphNode *dependencies, size_t count,
                                      const CUDA_MEMCPY3D *parameters, CUcontext context) {
  return call(Call::cuGraphAddMemcpyNode, Need::context, [&]() -> CUresult {
    std::shared_ptr<const Work> work;
    if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = work_of(parameters, context, &work)) return result;
    return add_node(node, graph, dependencies, count, std::move(work));
  });
}

CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph,
                                      const CUgraphNode *dependencies, size_t count,
                                      const CUDA_MEMSET_NODE_PARAMS *parameters,
                                      CUcontext context) {
  return call(Call::cuGraphAddMemsetNode, Need::context, [&]() -> CUresult {
    std::shared_ptr<const Work> work;
    if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = work_of(parameters, context, &work)) return result;
    return add_node(node, graph, dependencies, count, std::move(work));
  });
}

CUresult CUDAAPI cuGraphAddBatchMemOpNode(CUgraphNode *node, CUgraph graph,
                                          const CUgraphNode *dependencies, size_t count,
                                          const CUDA_BATCH_MEM_OP_NODE_PARAMS *parameters) {
  return call(Call::cuGraphAddBatchMemOpNode, Need::context, [&]() -> CUresult {
    std::shared_ptr<const Work> work;
    if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = work_of(parameters, &work)) return result;
    return add_node(node, graph, dependencies, count, std::move(work));
  });
}

}  // extern "C"
