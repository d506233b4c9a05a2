// Graphs of the emulated driver: kernel, copy and memset nodes in order, updates that reach later
// launches only, launches of one graph in several streams, destruction with launches in flight.
#include <thread>

#include "emulator_test.h"

namespace {

// A graph of one saxpy node, instantiated.
struct OneNode {
  explicit OneNode(Saxpy &saxpy) {
    const CUDA_KERNEL_NODE_PARAMS parameters =
        kernel_node(saxpy.function, 1, saxpy.n, saxpy.arguments);
    OK(driver.cuGraphCreate(&graph, 0));
    OK(driver.cuGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
    OK(driver.cuGraphInstantiateWithFlags(&exec, graph, 0));
  }
  ~OneNode() {
    OK(driver.cuGraphExecDestroy(exec));
    OK(driver.cuGraphDestroy(graph));
  }
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
};

void updates_reach_later_launches_only() {
  for (const emulator::StreamMode mode : kModes) {
    const Session session(mode);
    Saxpy saxpy(64);
    const OneNode one(saxpy);
    CUstream stream = nullptr;
    OK(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(driver.set("delay_us", 300));
    const CUDA_KERNEL_NODE_PARAMS parameters =
        kernel_node(saxpy.function, 1, saxpy.n, saxpy.arguments);
    for (const float a : {2.0F, 10.0F, 100.0F}) {
      saxpy.a = a;
      OK(driver.cuGraphExecKernelNodeSetParams(one.exec, one.node, &parameters));
      OK(driver.cuGraphLaunch(one.exec, stream));
    }
    saxpy.a = 5000.0F;
    OK(driver.cuStreamSynchronize(stream));
    CHECK(saxpy.holds(112.0F));
    OK(driver.cuStreamDestroy(stream));
  }
}

void nodes_run_in_order_and_hold_what_they_were_given() {
  for (const emulator::StreamMode mode : kModes) {
    const Session session(mode);
    Saxpy saxpy(64);
    std::vector<float> answer(64);
    CUgraph graph = nullptr;
    CUgraphNode clear = nullptr;
    CUgraphNode kernel = nullptr;
    CUgraphNode copy = nullptr;
    CUgraphExec exec = nullptr;
    OK(driver.cuGraphCreate(&graph, 0));
    CUDA_MEMSET_NODE_PARAMS fill = memset_node(saxpy.y, 0, 4, 64);
    OK(driver.cuGraphAddMemsetNode(&clear, graph, nullptr, 0, &fill, nullptr));
    CUDA_KERNEL_NODE_PARAMS launch = kernel_node(saxpy.function, 1, 64, saxpy.arguments);
    OK(driver.cuGraphAddKernelNode(&kernel, graph, &clear, 1, &launch));
    CUDA_MEMCPY3D out = copy_to_host(answer.data(), saxpy.y, 256);
    OK(driver.cuGraphAddMemcpyNode(&copy, graph, &kernel, 1, &out, session.context));
    OK(driver.cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 2; ++i) {
      OK(driver.cuGraphLaunch(exec, nullptr));
      OK(driver.cuCtxSynchronize());
      EQUAL(126.0F, answer[63]);  // cleared each time, so not accumulated
    }
    fill.value = 0x3f800000;  // 1.0
    OK(driver.cuGraphExecMemsetNodeSetParams(exec, clear, &fill, nullptr));
    std::vector<float> second(64);
    out.dstHost = second.data();
    OK(driver.cuGraphExecMemcpyNodeSetParams(exec, copy, &out, session.context));
    OK(driver.cuGraphLaunch(exec, nullptr));
    OK(driver.cuCtxSynchronize());
    EQUAL(127.0F, second[63]);
    EQUAL(126.0F, answer[63]);
    OK(driver.cuGraphExecDestroy(exec));
    OK(driver.cuGraphDestroy(graph));
  }
}

// What is not ordered by an edge runs in the order that the caller expects least.
void nodes_that_no_edge_orders_run_late() {
  const Session session;
  CUdeviceptr memory = 0;
  OK(driver.cuMemAlloc(&memory, 4));
  for (const bool ordered : {false, true}) {
    CUgraph graph = nullptr;
    CUgraphNode first = nullptr, second = nullptr;
    CUgraphExec exec = nullptr;
    OK(driver.cuGraphCreate(&graph, 0));
    CUDA_MEMSET_NODE_PARAMS fill = memset_node(memory, 1, 4, 1);
    OK(driver.cuGraphAddMemsetNode(&first, graph, nullptr, 0, &fill, nullptr));
    fill.value = 2;
    OK(driver.cuGraphAddMemsetNode(&second, graph, &first, ordered ? 1 : 0, &fill, nullptr));
    OK(driver.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(driver.cuGraphLaunch(exec, nullptr));
    OK(driver.cuCtxSynchronize());
    uint32_t value = 0;
    OK(driver.cuMemcpyDtoH(&value, memory, 4));
    EQUAL(ordered ? 2U : 1U, value);
    OK(driver.cuGraphExecDestroy(exec));
    OK(driver.cuGraphDestroy(graph));
  }
  OK(driver.cuMemFree(memory));
}

void pitched_boxes_are_copied_and_filled() {
  const Session session(emulator::StreamMode::eager);
  CUdeviceptr memory = 0;
  OK(driver.cuMemAlloc(&memory, 64));
  OK(driver.cuMemsetD8Async(memory, 0, 64, nullptr));
  CUgraph graph = nullptr;
  CUgraphNode fill_node = nullptr;
  CUgraphNode copy_node = nullptr;
  CUgraphExec exec = nullptr;
  OK(driver.cuGraphCreate(&graph, 0));
  const CUDA_MEMSET_NODE_PARAMS fill =
      memset_node(memory + 4, 0xBEEF, 2, 2, 3, 16);  // 3 rows of 2 words
  OK(driver.cuGraphAddMemsetNode(&fill_node, graph, nullptr, 0, &fill, nullptr));
  uint16_t rows[3][2] = {};
  CUDA_MEMCPY3D copy = copy_to_host(rows, memory, 4);
  copy.srcXInBytes = 4;
  copy.srcPitch = 16;
  copy.dstPitch = 4;
  copy.Height = 3;
  OK(driver.cuGraphAddMemcpyNode(&copy_node, graph, &fill_node, 1, &copy, nullptr));
  OK(driver.cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(driver.cuGraphLaunch(exec, nullptr));
  for (const auto &row : rows) {
    EQUAL(0xBEEF, int{row[0]});
    EQUAL(0xBEEF, int{row[1]});
  }
  std::vector<uint8_t> bytes(64);
  OK(driver.cuMemcpyDtoH(bytes.data(), memory, 64));
  EQUAL(0, int{bytes[3]});
  EQUAL(0xEF, int{bytes[4]});
  EQUAL(0, int{bytes[8]});
  EQUAL(0xEF, int{bytes[36]});
  EQUAL(0, int{bytes[52]});
  OK(driver.cuGraphExecDestroy(exec));
  OK(driver.cuGraphDestroy(graph));
  OK(driver.cuMemFree(memory));
}

void launches_of_one_exec_follow_each_other_across_streams() {
  for (const emulator::StreamMode mode : kModes) {
    const Session session(mode);
    Saxpy saxpy(64);
    const OneNode one(saxpy);
    CUstream streams[2] = {nullptr, nullptr};
    for (CUstream &stream : streams) OK(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(driver.set("delay_us", 200));
    for (int i = 0; i < 10; ++i) OK(driver.cuGraphLaunch(one.exec, streams[i % 2]));
    OK(driver.cuStreamSynchronize(streams[1]));  // the last launch: all others came before it
    CHECK(saxpy.holds(20.0F));
    for (const CUstream stream : streams) OK(driver.cuStreamDestroy(stream));
  }
}

void destruction_does_not_reach_launches_in_flight() {
  for (const emulator::StreamMode mode : kModes) {
    const Session session(mode);
    Saxpy saxpy(64);
    {
      const OneNode one(saxpy);
      OK(driver.set("delay_us", 1000));
      OK(driver.cuGraphLaunch(one.exec, nullptr));
      OK(driver.cuGraphLaunch(one.exec, nullptr));
    }
    OK(driver.cuCtxSynchronize());
    CHECK(saxpy.holds(4.0F));
  }
}

void an_exec_is_a_copy_of_its_graph() {
  const Session session;
  Saxpy saxpy(64);
  const OneNode one(saxpy);
  CUgraphNode more = nullptr;
  const CUDA_KERNEL_NODE_PARAMS parameters = kernel_node(saxpy.function, 1, 64, saxpy.arguments);
  OK(driver.cuGraphAddKernelNode(&more, one.graph, &one.node, 1, &parameters));
  OK(driver.cuGraphLaunch(one.exec, nullptr));
  OK(driver.cuCtxSynchronize());
  CHECK(saxpy.holds(2.0F));
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuGraphExecKernelNodeSetParams(one.exec, more, &parameters));
}

void wrong_graphs_are_refused() {
  const Session session;
  Saxpy saxpy(64);
  const OneNode one(saxpy);
  const OneNode other(saxpy);
  CUgraphNode node = nullptr;
  CUDA_KERNEL_NODE_PARAMS parameters = kernel_node(saxpy.function, 1, 64, saxpy.arguments);
  const CUgraphNode twice[] = {one.node, one.node};
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuGraphAddKernelNode(&node, one.graph, twice, 2, &parameters));
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuGraphAddKernelNode(&node, one.graph, &other.node, 1, &parameters));
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuGraphAddKernelNode(&node, one.graph, nullptr, 1, &parameters));
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuGraphAddKernelNode(&node, one.graph, nullptr, 0, nullptr));
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuGraphExecKernelNodeSetParams(one.exec, other.node, &parameters));
  parameters.gridDimX = 0;
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuGraphExecKernelNodeSetParams(one.exec, one.node, &parameters));
  const CUDA_MEMSET_NODE_PARAMS outside = memset_node(saxpy.y, 0, 4, 65);
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuGraphAddMemsetNode(&node, one.graph, nullptr, 0, &outside, nullptr));
  const CUDA_MEMSET_NODE_PARAMS fill = memset_node(saxpy.y, 0, 4, 64);
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuGraphExecMemsetNodeSetParams(one.exec, one.node, &fill, nullptr));
  CUgraphExec exec = nullptr;
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuGraphInstantiateWithFlags(&exec, one.graph, 0x100));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuGraphInstantiateWithFlags(&exec, nullptr, 0));
  CUgraph graph = nullptr;
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuGraphCreate(&graph, 1));
  EQUAL(uint64_t{2}, driver.count("graphs"));
  EQUAL(uint64_t{2}, driver.count("execs"));
}

void a_graph_that_outlives_its_memory_loses_the_device() {
  const Session session;
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  OK(driver.cuMemAlloc(&memory, 64));
  OK(driver.cuGraphCreate(&graph, 0));
  const CUDA_MEMSET_NODE_PARAMS fill = memset_node(memory, 0, 1, 64);
  OK(driver.cuGraphAddMemsetNode(&node, graph, nullptr, 0, &fill, nullptr));
  OK(driver.cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(driver.cuMemFree(memory));
  OK(driver.cuGraphLaunch(exec, nullptr));
  GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, driver.cuCtxSynchronize());
  GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, driver.cuGraphExecDestroy(exec));
  GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, driver.cuGraphDestroy(graph));
}

void a_graph_whose_module_is_gone_is_refused() {
  const Session session;
  CUmodule module = nullptr;
  CUfunction spin = nullptr;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  OK(driver.cuModuleLoadData(&module, kSpin));
  OK(driver.cuModuleGetFunction(&spin, module, "spin"));
  OK(driver.cuGraphCreate(&graph, 0));
  const CUDA_KERNEL_NODE_PARAMS parameters = kernel_node(spin, 1, 1, nullptr);
  OK(driver.cuGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
  OK(driver.cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(driver.cuModuleUnload(module));
  GIVES(CUDA_ERROR_INVALID_HANDLE, driver.cuGraphLaunch(exec, nullptr));
  OK(driver.cuGraphExecDestroy(exec));
  OK(driver.cuGraphDestroy(graph));
}

void threads_update_and_launch_their_own_execs() {
  const Session session;
  Saxpy shared(64);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      OK(driver.cuCtxSetCurrent(session.context));
      Saxpy own(64);
      const OneNode one(own);
      CUstream stream = nullptr;
      OK(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      own.arguments[0] = &shared.x;
      const CUDA_KERNEL_NODE_PARAMS parameters = kernel_node(own.function, 1, 64, own.arguments);
      for (int i = 1; i <= 20; ++i) {
        own.a = static_cast<float>(i);
        OK(driver.cuGraphExecKernelNodeSetParams(one.exec, one.node, &parameters));
        OK(driver.cuGraphLaunch(one.exec, stream));
      }
      OK(driver.cuStreamSynchronize(stream));
      CHECK(own.holds(210.0F));
      OK(driver.cuStreamDestroy(stream));
    });
  }
  for (std::thread &thread : threads) thread.join();
}

CUresult add_write(CUgraph graph, CUgraphNode after, CUdeviceptr address, unsigned value,
                   unsigned operation = CU_STREAM_MEM_OP_WRITE_VALUE_32) {
  CUstreamBatchMemOpParams write{};
  write.writeValue.operation = static_cast<CUstreamBatchMemOpType>(operation);
  write.writeValue.address = address;
  write.writeValue.value = value;
  CUDA_BATCH_MEM_OP_NODE_PARAMS batch{};
  batch.count = 1;
  batch.paramArray = &write;
  CUgraphNode node = nullptr;
  return driver.cuGraphAddBatchMemOpNode(&node, graph, &after, 1, &batch);
}

void a_write_node_tells_that_the_kernel_before_it_has_run() {
  for (const emulator::StreamMode mode : kModes) {
    const Session session(mode);
    Saxpy saxpy(64);
    const CUDA_KERNEL_NODE_PARAMS parameters =
        kernel_node(saxpy.function, 1, saxpy.n, saxpy.arguments);
    void *page = nullptr;
    OK(driver.cuMemHostAlloc(&page, 64, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    auto *const word = static_cast<uint32_t *>(page);
    *word = 0;
    const auto address = reinterpret_cast<CUdeviceptr>(page);
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    CUgraphExec exec = nullptr;
    CUstream stream = nullptr;
    OK(driver.cuGraphCreate(&graph, 0));
    OK(driver.cuGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
    GIVES(CUDA_ERROR_INVALID_VALUE, add_write(graph, node, address + 2, 1));
    GIVES(CUDA_ERROR_INVALID_VALUE, add_write(graph, node, 64, 1));
    GIVES(CUDA_ERROR_NOT_SUPPORTED,
          add_write(graph, node, address, 1, CU_STREAM_MEM_OP_WAIT_VALUE_32));
    OK(add_write(graph, node, address, 7));
    OK(driver.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(driver.cuGraphLaunch(exec, stream));
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0) driver.cuStreamQuery(stream);
    CHECK(*word == 7);
    CHECK(saxpy.holds(2.0F));
    OK(driver.cuStreamDestroy(stream));
    OK(driver.cuGraphExecDestroy(exec));
    OK(driver.cuGraphDestroy(graph));
    OK(driver.cuMemFreeHost(page));
  }
}

}  // namespace

int main(int argc, char **argv) {
  CHECK(argc == 2);
  open_driver(argv[1]);
  updates_reach_later_launches_only();
  nodes_run_in_order_and_hold_what_they_were_given();
  nodes_that_no_edge_orders_run_late();
  pitched_boxes_are_copied_and_filled();
  launches_of_one_exec_follow_each_other_across_streams();
  destruction_does_not_reach_launches_in_flight();
  an_exec_is_a_copy_of_its_graph();
  wrong_graphs_are_refused();
  a_graph_that_outlives_its_memory_loses_the_device();
  a_graph_whose_module_is_gone_is_refused();
  threads_update_and_launch_their_own_execs();
  a_write_node_tells_that_the_kernel_before_it_has_run();
  return 0;
}
