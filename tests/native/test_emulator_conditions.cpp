// Conditional nodes of the emulated driver: a WHILE node around a kernel that sets its condition,
// and the texts and graphs with conditions that are refused.
#include "emulator_test.h"

namespace {

// count[0] += 1; the condition becomes count[0] < limit.
constexpr char kCount[] = R"(.version 8.0
.target sm_80
.address_size 64

.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);

.visible .entry count(.param .u64 handle, .param .u64 counter, .param .u32 limit)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd0, [handle];
    ld.param.u64 %rd1, [counter];
    ld.param.u32 %r0, [limit];
    ld.global.u32 %r1, [%rd1];
    add.u32 %r1, %r1, 1;
    st.global.u32 [%rd1], %r1;
    setp.lt.u32 %p0, %r1, %r0;
    selp.u32 %r2, 1, 0, %p0;
    {
    .param .b64 argument0;
    st.param.b64 [argument0+0], %rd0;
    .param .b32 argument1;
    st.param.b32 [argument1+0], %r2;
    call.uni cudaGraphSetConditional, (argument0, argument1);
    }
    ret;
}
)";

// A graph with a WHILE node around one kernel that counts.
struct Loop {
  Loop() {
    OK(driver.cuModuleLoadDataEx(&module, kCount, 0, nullptr, nullptr));
    OK(driver.cuModuleGetFunction(&function, module, "count"));
    OK(driver.cuMemAlloc(&counter, 4));
    OK(driver.cuGraphCreate(&graph, 0));
  }
  ~Loop() {
    OK(driver.cuGraphDestroy(graph));
    OK(driver.cuMemFree(counter));
    OK(driver.cuModuleUnload(module));
  }
  CUgraph add(unsigned initial, unsigned flags) {
    OK(driver.cuGraphConditionalHandleCreate(&handle, graph, nullptr, initial, flags));
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
    params.conditional.size = 1;
    OK(driver.cuGraphAddNode(&node, graph, nullptr, 0, &params));
    return params.conditional.phGraph_out[0];
  }
  uint32_t counted() {
    uint32_t value = 0;
    OK(driver.cuMemcpyDtoH(&value, counter, 4));
    return value;
  }
  void clear() { OK(driver.cuMemsetD32Async(counter, 0, 1, nullptr)); }
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr counter = 0;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphNodeParams params{};
  CUgraphConditionalHandle handle = 0;
  uint32_t limit = 5;
  void *arguments[3] = {&handle, &counter, &limit};
};

void a_while_node_runs_its_body_until_the_condition_is_zero() {
  for (const emulator::StreamMode mode : kModes) {
    const Session session(mode);
    Loop loop;
    const CUgraph body = loop.add(1, CU_GRAPH_COND_ASSIGN_DEFAULT);
    CUgraphNode kernel = nullptr;
    CUgraphExec exec = nullptr;
    CUDA_KERNEL_NODE_PARAMS parameters = kernel_node(loop.function, 1, 1, loop.arguments);
    OK(driver.cuGraphAddKernelNode(&kernel, body, nullptr, 0, &parameters));
    OK(driver.cuGraphInstantiateWithFlags(&exec, loop.graph, 0));
    for (uint32_t limit : {5U, 9U}) {
      loop.clear();
      loop.limit = limit;
      OK(driver.cuGraphExecKernelNodeSetParams(exec, kernel, &parameters));
      OK(driver.cuGraphLaunch(exec, nullptr));
      EQUAL(limit, loop.counted());
    }
    OK(driver.cuGraphExecDestroy(exec));
  }
}

void a_condition_without_a_default_keeps_its_value() {
  const Session session;
  Loop loop;
  const CUgraph body = loop.add(1, 0);
  CUgraphNode kernel = nullptr;
  CUgraphExec exec = nullptr;
  const CUDA_KERNEL_NODE_PARAMS parameters = kernel_node(loop.function, 1, 1, loop.arguments);
  OK(driver.cuGraphAddKernelNode(&kernel, body, nullptr, 0, &parameters));
  OK(driver.cuGraphInstantiateWithFlags(&exec, loop.graph, 0));
  loop.clear();
  OK(driver.cuGraphLaunch(exec, nullptr));
  EQUAL(0U, loop.counted());
  OK(driver.cuGraphExecDestroy(exec));
}

void wrong_conditionals_are_refused() {
  const Session session;
  Loop loop;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  CUgraphConditionalHandle other = 0;
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuGraphConditionalHandleCreate(&other, loop.graph, nullptr, 0, 2));
  const CUgraph body = loop.add(1, CU_GRAPH_COND_ASSIGN_DEFAULT);
  GIVES(CUDA_ERROR_INVALID_VALUE,  // a handle is of one node
        driver.cuGraphAddNode(&node, loop.graph, nullptr, 0, &loop.params));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuGraphDestroy(body));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuGraphInstantiateWithFlags(&exec, body, 0));
  uint32_t pageable = 0;
  CUDA_MEMCPY3D copy = copy_to_host(&pageable, loop.counter, 4);
  OK(driver.cuGraphAddMemcpyNode(&node, body, nullptr, 0, &copy, nullptr));
  GIVES(CUDA_ERROR_NOT_SUPPORTED, driver.cuGraphInstantiateWithFlags(&exec, loop.graph, 0));
  CUgraph unused = nullptr;
  OK(driver.cuGraphCreate(&unused, 0));
  OK(driver.cuGraphConditionalHandleCreate(&other, unused, nullptr, 0, 0));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuGraphInstantiateWithFlags(&exec, unused, 0));
  OK(driver.cuGraphDestroy(unused));
}

void setting_a_condition_outside_of_its_graph_loses_the_device() {
  const Session session;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr counter = 0;
  uint64_t handle = 16;
  uint32_t limit = 1;
  void *arguments[] = {&handle, &counter, &limit};
  OK(driver.cuModuleLoadDataEx(&module, kCount, 0, nullptr, nullptr));
  OK(driver.cuModuleGetFunction(&function, module, "count"));
  OK(driver.cuMemAlloc(&counter, 4));
  OK(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, driver.cuCtxSynchronize());
  GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, driver.cuMemFree(counter));
  GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, driver.cuModuleUnload(module));
}

void texts_that_call_what_does_not_exist_are_refused() {
  const Session session;
  const std::string good(kCount);
  const auto refused = [&](const std::string &from, const std::string &to) {
    std::string text = good;
    const size_t at = text.rfind(from);
    text.replace(at, from.size(), to);
    CUmodule module = nullptr;
    GIVES(CUDA_ERROR_INVALID_PTX, driver.cuModuleLoadData(&module, text.c_str()));
  };
  refused("call.uni cudaGraphSetConditional", "call.uni malloc");
  refused("(argument0, argument1)", "(argument1, argument0)");
  refused("(argument0, argument1)", "(argument0)");
  refused("[argument0+0]", "[argument0+4]");
  refused("[argument0+0]", "[argument2+0]");
  refused(".func cudaGraphSetConditional(.param .b64", ".func cudaGraphSetConditional(.param .b32");
  refused(".func cudaGraphSetConditional", ".func vprintf");
  refused("st.global.u32 [%rd1], %r1", "mov.u64 %rd2, argument0");
}

}  // namespace

int main(int argc, char **argv) {
  CHECK(argc == 2);
  open_driver(argv[1]);
  a_while_node_runs_its_body_until_the_condition_is_zero();
  a_condition_without_a_default_keeps_its_value();
  wrong_conditionals_are_refused();
  texts_that_call_what_does_not_exist_are_refused();
  setting_a_condition_outside_of_its_graph_loses_the_device();
  return 0;
}
