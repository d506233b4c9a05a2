// Graphs, their nodes, and instantiated graphs.
//
// A launch runs the nodes one after the other, in an order that honors their dependencies and has
// late what was added early: what an edge that is missing would do shows.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "launch.h"
#include "stream.h"
#include "user_object.h"

namespace emulator {

struct Graph;

// A node has work, or is a WHILE node and has a condition and a body.
struct Node {
  int device = 0;  // of its graph
  CUgraphNode handle = nullptr;
  const Graph *graph = nullptr;
  std::vector<CUgraphNode> after;
  std::shared_ptr<const Work> work;
  uint64_t condition = 0;
  CUgraph body = nullptr;  // what the driver's caller sees of it is the address of this field
};

struct Conditional {
  int device = 0;
  const Graph *graph = nullptr;
  uint32_t initial = 0;
  bool assigned = false;  // `initial` is set at each launch
  bool used = false;      // by a node
};

struct Graph {
  int device = 0;
  std::vector<std::shared_ptr<Node>> nodes;
  std::vector<uint64_t> conditionals;
  UserObjects user_objects;
  bool is_body = false;  // belongs to its node
  bool is_captured = false;  // belongs to a capture in progress
};

struct Step;
using Steps = std::vector<Step>;
struct Step {
  std::shared_ptr<const Work> work;
  uint64_t condition = 0;
  std::shared_ptr<const Steps> body;
};

// Values of an exec's conditional handles. Launches of one exec never overlap.
class ExecConditionals final : public Conditionals {
 public:
  struct Value {
    uint32_t value, initial;
    bool assigned;
  };
  bool set(uint64_t handle, uint32_t value) override;
  void begin();  // of a launch
  std::unordered_map<uint64_t, Value> values;
};

struct Exec {
  int device = 0;
  std::unordered_map<uintptr_t, std::vector<size_t>> path_of;  // node handle -> indices of steps
  std::shared_ptr<const Steps> steps;  // replaced, never changed: launches keep theirs
  std::shared_ptr<ExecConditionals> conditionals;
  UserObjects user_objects;            // of the graph and of the bodies in it
  std::shared_ptr<Operation> last;     // the latest launch; the next one runs after it
};

// Puts a node into a graph, after nodes of the same graph. The caller holds State::mutex.
CUresult insert_node(CUgraphNode *handle, CUgraph graph, const CUgraphNode *dependencies,
                     size_t count, std::shared_ptr<Node> node);
// With everything that its nodes have; the caller holds State::mutex.
void destroy_graph(CUgraph graph);
// The ABI of CUDA 12.2, of which only conditional nodes exist here.
CUresult CUDAAPI graph_add_node(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                                size_t count, CUgraphNodeParams *parameters);
// Nodes of a graph in the order in which launches run them.
std::vector<const Node *> run_order(const Graph &graph);

// From the driver's node parameters to work, checked. A cooperative launch is an attribute of its
// node and no parameter.
CUresult work_of(const CUDA_KERNEL_NODE_PARAMS *parameters, bool cooperative,
                 std::shared_ptr<const Work> *work);
bool is_cooperative(const Work &work);
CUresult work_of(const CUDA_MEMCPY3D *parameters, CUcontext context,
                 std::shared_ptr<const Work> *work);
CUresult work_of(const CUDA_MEMSET_NODE_PARAMS *parameters, CUcontext context,
                 std::shared_ptr<const Work> *work);
// One write of 32 bits; other batches are not supported.
CUresult work_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS *parameters,
                 std::shared_ptr<const Work> *work);

}  // namespace emulator
