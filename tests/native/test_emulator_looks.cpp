// Threads of the emulator that wait for a word of memory: others run meanwhile.
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "emulator_test.h"

namespace {

std::atomic<uint32_t> yields{0};

constexpr char kKernels[] = R"(.version 7.8
.target sm_80
.address_size 64

// Each block counts itself and waits until all have.
.visible .entry meet(.param .u64 a_grid_barrier, .param .u32 blocks)
{
    .reg .pred %p;
    .reg .b32 %r<2>;
    .reg .b64 %rd0;
    ld.param.u64 %rd0, [a_grid_barrier];
    ld.param.u32 %r0, [blocks];
    atom.acq_rel.gpu.global.add.u32 %r1, [%rd0], 1;
LOOK:
    ld.acquire.gpu.global.u32 %r1, [%rd0];
    setp.lt.u32 %p, %r1, %r0;
    @%p bra LOOK;
    ret;
}

// The second thread waits for the first, which goes through shared memory.
.visible .entry handed(.param .u64 out)
{
    .reg .pred %p;
    .reg .b32 %r<3>;
    .reg .b64 %rd0;
    .shared .align 4 .b32 flag;
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p, %r0, 0;
    @%p bra LOOK;
    mov.u32 %r1, 7;
    st.volatile.shared.u32 [flag], %r1;
    ret;
LOOK:
    ld.volatile.shared.u32 %r1, [flag];
    setp.ne.u32 %p, %r1, 7;
    @%p bra LOOK;
    st.global.u32 [%rd0], %r1;
    ret;
}

// Every thread waits for two words, behind a look at a third.
.visible .entry words(.param .u64 at)
{
    .reg .pred %p;
    .reg .b32 %r<2>;
    .reg .b64 %rd0;
    ld.param.u64 %rd0, [at];
    ld.acquire.sys.global.u32 %r0, [%rd0+8];
LOOK:
    ld.relaxed.sys.global.u32 %r0, [%rd0];
    ld.relaxed.sys.global.u32 %r1, [%rd0+4];
    and.b32 %r0, %r0, %r1;
    setp.eq.u32 %p, %r0, 0;
    @%p bra LOOK;
    ret;
}

// Half of a warp looks, all of it decides; the other warps wait for it.
.visible .entry warp(.param .u64 at)
{
    .reg .pred %p, %q;
    .reg .b32 %r<2>;
    .reg .b64 %rd0;
    ld.param.u64 %rd0, [at];
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p, %r1, 32;
    @%p bra WAIT;
    setp.lt.u32 %q, %r1, 16;
    mov.u32 %r0, 0;
LOOK:
    @%q ld.relaxed.sys.global.u32 %r0, [%rd0];
    @!%q add.u32 %r1, %r1, 1;
    @!%q add.u32 %r1, %r1, 2;
    @!%q add.u32 %r1, %r1, 3;
    @!%q add.u32 %r1, %r1, 4;
    @!%q add.u32 %r1, %r1, 5;
    @!%q add.u32 %r1, %r1, 6;
    @!%q add.u32 %r1, %r1, 7;
    @!%q add.u32 %r1, %r1, 8;
    setp.ne.u32 %p, %r0, 0;
    vote.sync.any.pred %p, %p, 0xffffffff;
    @!%p bra LOOK;
WAIT:
    bar.sync 0;
    ret;
}
)";

struct Kernels {
  Kernels() {
    OK(driver.cuModuleLoadData(&module, kKernels));
    OK(driver.cuMemHostAlloc(reinterpret_cast<void **>(&words), 16, CU_MEMHOSTALLOC_DEVICEMAP));
    std::memset(words, 0, 16);
    OK(driver.cuMemHostGetDevicePointer(&at, words, 0));
  }
  ~Kernels() {
    OK(driver.cuMemFreeHost(words));
    OK(driver.cuModuleUnload(module));
  }
  CUfunction find(const char *name) const {
    CUfunction function = nullptr;
    OK(driver.cuModuleGetFunction(&function, module, name));
    return function;
  }
  CUmodule module = nullptr;
  uint32_t *words = nullptr;
  CUdeviceptr at = 0;
};

void blocks_that_wait_for_later_ones_give_their_turn() {
  const Session session;
  Kernels kernels;
  uint32_t blocks = 64;
  void *arguments[] = {&kernels.at, &blocks};
  const uint64_t before = driver.count("instructions");
  OK(driver.cuLaunchCooperativeKernel(kernels.find("meet"), blocks, 1, 1, 1, 1, 1, 0, nullptr,
                                      arguments));
  OK(driver.cuCtxSynchronize());
  EQUAL(blocks, kernels.words[0]);
  CHECK(driver.count("instructions") - before < 100 * blocks);
}

void a_thread_that_waits_for_a_later_one_gives_its_turn() {
  const Session session;
  Kernels kernels;
  void *arguments[] = {&kernels.at};
  const uint64_t before = driver.count("instructions");
  OK(driver.cuLaunchKernel(kernels.find("handed"), 1, 1, 1, 2, 1, 1, 0, nullptr, arguments,
                           nullptr));
  OK(driver.cuCtxSynchronize());
  EQUAL(7U, kernels.words[0]);
  CHECK(driver.count("instructions") - before < 100);
}

// 256 threads wait for the host, which waits until their core was given away a hundred times.
void threads_that_all_wait_for_the_host_let_others_run(const char *name) {
  using Clock = std::chrono::steady_clock;
  const Session session;
  Kernels kernels;
  void *arguments[] = {&kernels.at};
  yields = 0;
  OK(driver.cuLaunchKernel(kernels.find(name), 1, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr));
  const auto limit = Clock::now() + std::chrono::seconds(100);
  while (yields < 100 && Clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const uint32_t seen = yields;
  __atomic_store_n(kernels.words, 1U, __ATOMIC_RELEASE);
  __atomic_store_n(kernels.words + 1, 1U, __ATOMIC_RELEASE);
  OK(driver.cuCtxSynchronize());
  CHECK(seen >= 100);
}

} // namespace

// What the emulator calls to give its core away.
int sched_yield() noexcept {
  ++yields;
  return 0;
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  open_driver(argv[1]);
  blocks_that_wait_for_later_ones_give_their_turn();
  a_thread_that_waits_for_a_later_one_gives_its_turn();
  threads_that_all_wait_for_the_host_let_others_run("words");
  threads_that_all_wait_for_the_host_let_others_run("warp");
  return 0;
}
