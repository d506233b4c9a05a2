// Cooperative kernel nodes of the emulator: the attribute, what it allows, what lacks it.
#include "emulator_test.h"

namespace {

// Every block counts itself and waits until all have: out[block] = their number.
constexpr char kMeet[] = R"(.version 7.8
.target sm_80
.address_size 64
.visible .entry meet(.param .u64 a_grid_barrier, .param .u64 out, .param .u32 blocks)
{
    .reg .pred %p;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd0, [a_grid_barrier];
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r0, [blocks];
    atom.acq_rel.gpu.global.add.u32 %r1, [%rd0], 1;
LOOK:
    ld.acquire.gpu.global.u32 %r2, [%rd0];
    setp.lt.u32 %p, %r2, %r0;
    @%p bra LOOK;
    mov.u32 %r3, %ctaid.x;
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r2;
    ret;
}
)";

// A graph that clears the state and lets `blocks` blocks meet, at most 64.
struct Meeting {
  explicit Meeting(uint32_t count) : blocks(count) {
    OK(driver.cuModuleLoadData(&module, kMeet));
    OK(driver.cuModuleGetFunction(&function, module, "meet"));
    OK(driver.cuMemAlloc(&state, 4));
    OK(driver.cuMemAlloc(&out, 256));
    OK(driver.cuGraphCreate(&graph, 0));
    const CUDA_MEMSET_NODE_PARAMS fill = memset_node(state, 0, 4, 1);
    const CUDA_KERNEL_NODE_PARAMS parameters = kernel_node(function, blocks, 1, arguments);
    OK(driver.cuGraphAddMemsetNode(&clear, graph, nullptr, 0, &fill, nullptr));
    OK(driver.cuGraphAddKernelNode(&node, graph, &clear, 1, &parameters));
  }
  CUresult set_cooperative(int value) {
    CUkernelNodeAttrValue attribute{};
    attribute.cooperative = value;
    return driver.cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &attribute);
  }
  CUresult run() {
    OK(driver.cuGraphLaunch(exec, nullptr));
    return driver.cuCtxSynchronize();
  }
  void destroy(CUresult expected) {
    GIVES(expected, driver.cuGraphExecDestroy(exec));
    GIVES(expected, driver.cuGraphDestroy(graph));
    GIVES(expected, driver.cuMemFree(state));
    GIVES(expected, driver.cuMemFree(out));
    GIVES(expected, driver.cuModuleUnload(module));
  }
  uint32_t blocks;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr state = 0, out = 0;
  CUgraph graph = nullptr;
  CUgraphNode clear = nullptr, node = nullptr;
  CUgraphExec exec = nullptr;
  void *arguments[3] = {&state, &out, &blocks};
};

void cooperative_kernels_have_the_attribute_also_after_updates() {
  const Session session;
  Meeting meeting(8);
  OK(meeting.set_cooperative(1));
  OK(driver.cuGraphInstantiateWithFlags(&meeting.exec, meeting.graph, 0));
  for (const uint32_t blocks : {8U, 64U, 3U}) {
    meeting.blocks = blocks;
    const CUDA_KERNEL_NODE_PARAMS parameters =
        kernel_node(meeting.function, blocks, 1, meeting.arguments);
    OK(driver.cuGraphExecKernelNodeSetParams(meeting.exec, meeting.node, &parameters));
    OK(meeting.run());
    uint32_t values[64];
    OK(driver.cuMemcpyDtoH(values, meeting.out, sizeof values));
    for (uint32_t i = 0; i < blocks; ++i) EQUAL(blocks, values[i]);
  }
  const CUDA_KERNEL_NODE_PARAMS many = kernel_node(meeting.function, 1 << 20, 1, meeting.arguments);
  GIVES(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
        driver.cuGraphExecKernelNodeSetParams(meeting.exec, meeting.node, &many));
  meeting.destroy(CUDA_SUCCESS);
}

void blocks_that_meet_without_the_attribute_lose_the_device() {
  const Session session;
  Meeting meeting(2);
  OK(meeting.set_cooperative(1));
  OK(meeting.set_cooperative(0));
  OK(driver.cuGraphInstantiateWithFlags(&meeting.exec, meeting.graph, 0));
  GIVES(CUDA_ERROR_LAUNCH_FAILED, meeting.run());
  char message[256];
  driver.fault_message(message, sizeof message);
  CHECK(std::strstr(message, "not cooperative") != nullptr);
  meeting.destroy(CUDA_ERROR_LAUNCH_FAILED);
}

void wrong_attributes_are_refused() {
  const Session session;
  Meeting meeting(2);
  CUkernelNodeAttrValue value{};
  value.cooperative = 1;
  const auto set = [&](CUgraphNode node, CUkernelNodeAttrID attribute) {
    return driver.cuGraphKernelNodeSetAttribute(node, attribute, &value);
  };
  GIVES(CUDA_ERROR_INVALID_VALUE, set(meeting.clear, CU_LAUNCH_ATTRIBUTE_COOPERATIVE));
  GIVES(CUDA_ERROR_INVALID_VALUE, set(nullptr, CU_LAUNCH_ATTRIBUTE_COOPERATIVE));
  GIVES(CUDA_ERROR_NOT_SUPPORTED, set(meeting.node, CU_LAUNCH_ATTRIBUTE_PRIORITY));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuGraphKernelNodeSetAttribute(
                                      meeting.node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, nullptr));
  CUgraphNode large = nullptr;
  const CUDA_KERNEL_NODE_PARAMS many = kernel_node(meeting.function, 1 << 20, 1, meeting.arguments);
  OK(driver.cuGraphAddKernelNode(&large, meeting.graph, nullptr, 0, &many));
  GIVES(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, set(large, CU_LAUNCH_ATTRIBUTE_COOPERATIVE));
  OK(driver.cuGraphInstantiateWithFlags(&meeting.exec, meeting.graph, 0));
  meeting.destroy(CUDA_SUCCESS);
}

}  // namespace

int main(int argc, char **argv) {
  CHECK(argc == 2);
  open_driver(argv[1]);
  cooperative_kernels_have_the_attribute_also_after_updates();
  wrong_attributes_are_refused();
  blocks_that_meet_without_the_attribute_lose_the_device();
  return 0;
}
