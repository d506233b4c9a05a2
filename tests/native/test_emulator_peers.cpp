// Several emulated devices in one process: contexts, streams and memory of their own, access of one
// to the memory of another, copies between them.
#include <thread>

#include "emulator_test.h"

namespace {

using emulator::StreamMode;

constexpr int kDevices = 3;

// Contexts of all devices; that of device 0 is current.
class Devices {
 public:
  explicit Devices(StreamMode mode = StreamMode::threaded) {
    OK(driver.reset());
    OK(driver.set("stream_mode", static_cast<int64_t>(mode)));
    OK(driver.set("device_count", kDevices));
    OK(driver.cuInit(0));
    for (int i = 0; i < kDevices; ++i) OK(driver.cuDevicePrimaryCtxRetain(&contexts[i], i));
    enter(0);
  }
  ~Devices() {
    for (const char *kind : {"allocations", "pinned", "modules", "streams", "events", "graphs"})
      EQUAL(uint64_t{0}, driver.count(kind));
    OK(driver.reset());
    for (int i = 0; i < kDevices; ++i) OK(driver.cuDevicePrimaryCtxRelease(i));
    OK(driver.cuCtxSetCurrent(nullptr));
  }
  void enter(int device) const { OK(driver.cuCtxSetCurrent(contexts[device])); }
  CUcontext contexts[kDevices] = {};
};

CUdeviceptr word(uint32_t value) {
  CUdeviceptr address = 0;
  OK(driver.cuMemAlloc(&address, 4));
  OK(driver.cuMemcpyHtoD(address, &value, 4));
  return address;
}

uint32_t read(CUdeviceptr address) {
  uint32_t value = 0;
  OK(driver.cuMemcpyDtoH(&value, address, 4));
  return value;
}

CUstream make_stream() {
  CUstream stream = nullptr;
  OK(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

void devices_are_told_apart() {
  const Devices devices;
  int count = 0;
  OK(driver.cuDeviceGetCount(&count));
  EQUAL(kDevices, count);
  CUuuid uuids[kDevices];
  for (int i = 0; i < kDevices; ++i) {
    CUdevice device = -1;
    OK(driver.cuDeviceGet(&device, i));
    EQUAL(i, device);
    OK(driver.cuDeviceGetUuid(&uuids[i], i));
    devices.enter(i);
    OK(driver.cuCtxGetDevice(&device));
    EQUAL(i, device);
    for (int j = 0; j < i; ++j) {
      unsigned long long ids[2];
      OK(driver.cuCtxGetId(devices.contexts[i], &ids[0]));
      OK(driver.cuCtxGetId(devices.contexts[j], &ids[1]));
      CHECK(ids[0] != ids[1]);
      CHECK(std::memcmp(&uuids[i], &uuids[j], sizeof uuids[i]) != 0);
    }
  }
  CUdevice device = -1;
  GIVES(CUDA_ERROR_INVALID_DEVICE, driver.cuDeviceGet(&device, kDevices));
  CUcontext none = nullptr;
  GIVES(CUDA_ERROR_INVALID_DEVICE, driver.cuDevicePrimaryCtxRetain(&none, kDevices));
  CHECK(driver.set("device_count", 9) != 0);
}

void memory_belongs_to_a_device() {
  const Devices devices;
  size_t before = 0, available = 0, total = 0;
  devices.enter(1);
  OK(driver.cuMemGetInfo(&before, &total));
  devices.enter(0);
  const CUdeviceptr address = word(1);
  OK(driver.cuMemGetInfo(&available, &total));
  EQUAL(before - 4, available);
  devices.enter(1);
  OK(driver.cuMemGetInfo(&available, &total));
  EQUAL(before, available);
  int ordinal = -1;
  CUcontext owner = nullptr;
  OK(driver.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
  OK(driver.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address));
  EQUAL(0, ordinal);
  CHECK(owner == devices.contexts[0]);
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemsetD32Async(address, 7, 1, nullptr));
  uint32_t value = 0;
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemcpyDtoH(&value, address, 4));
  devices.enter(0);
  EQUAL(1u, read(address));
  OK(driver.cuMemFree(address));
}

// The last test: what leaks with a context stays counted.
void a_context_ends_alone() {
  OK(driver.set("device_count", 2));
  CUcontext first = nullptr, second = nullptr;
  OK(driver.cuDevicePrimaryCtxRetain(&first, 0));
  OK(driver.cuDevicePrimaryCtxRetain(&second, 1));
  OK(driver.cuCtxSetCurrent(first));
  const CUdeviceptr kept = word(5);
  OK(driver.cuCtxSetCurrent(second));
  CUstream stream = make_stream();
  const CUdeviceptr lost = word(7);
  OK(driver.cuCtxSetCurrent(first));
  OK(driver.cuDevicePrimaryCtxRelease(1));
  EQUAL(uint64_t{1}, driver.count("contexts"));
  GIVES(CUDA_ERROR_INVALID_HANDLE, driver.cuStreamSynchronize(stream));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemFree(lost));
  EQUAL(5u, read(kept));
  OK(driver.cuMemFree(kept));
  EQUAL(uint64_t{1}, driver.count("allocations"));
  EQUAL(uint64_t{1}, driver.count("streams"));
  OK(driver.cuDevicePrimaryCtxRelease(0));
}

void peers_are_enabled_one_way_and_end_with_the_context() {
  const Devices devices;
  int can = -1;
  OK(driver.cuDeviceCanAccessPeer(&can, 0, 1));
  EQUAL(1, can);
  OK(driver.cuDeviceCanAccessPeer(&can, 1, 1));
  EQUAL(0, can);
  GIVES(CUDA_ERROR_INVALID_DEVICE, driver.cuDeviceCanAccessPeer(&can, 0, kDevices));
  GIVES(CUDA_ERROR_INVALID_CONTEXT, driver.cuCtxEnablePeerAccess(devices.contexts[0], 0));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuCtxEnablePeerAccess(devices.contexts[1], 1));
  GIVES(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, driver.cuCtxDisablePeerAccess(devices.contexts[1]));
  OK(driver.cuCtxEnablePeerAccess(devices.contexts[1], 0));
  GIVES(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
        driver.cuCtxEnablePeerAccess(devices.contexts[1], 0));
  devices.enter(1);
  GIVES(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, driver.cuCtxDisablePeerAccess(devices.contexts[0]));
  devices.enter(0);
  OK(driver.cuCtxDisablePeerAccess(devices.contexts[1]));
  OK(driver.cuCtxEnablePeerAccess(devices.contexts[1], 0));
  OK(driver.cuDevicePrimaryCtxRelease(1));
  GIVES(CUDA_ERROR_INVALID_CONTEXT, driver.cuCtxEnablePeerAccess(devices.contexts[1], 0));
  CUcontext again = nullptr;
  OK(driver.cuDevicePrimaryCtxRetain(&again, 1));
  OK(driver.cuCtxEnablePeerAccess(again, 0));
  OK(driver.cuCtxDisablePeerAccess(again));
  OK(driver.set("peer_access", 0));
  OK(driver.cuDeviceCanAccessPeer(&can, 0, 1));
  EQUAL(0, can);
  GIVES(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, driver.cuCtxEnablePeerAccess(again, 0));
}

// A launch of saxpy on device 0 that reads x of another device.
CUresult launch_with(Saxpy &saxpy, CUdeviceptr x) {
  void *arguments[4] = {&x, &saxpy.y, &saxpy.a, &saxpy.n};
  OK(driver.cuLaunchKernel(saxpy.function, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
  return driver.cuCtxSynchronize();
}

CUdeviceptr floats(uint32_t n) {
  CUdeviceptr address = 0;
  OK(driver.cuMemAlloc(&address, n * sizeof(float)));
  std::vector<float> values(n);
  for (uint32_t i = 0; i < n; ++i) values[i] = static_cast<float>(i);
  OK(driver.cuMemcpyHtoD(address, values.data(), n * sizeof(float)));
  return address;
}

void a_kernel_needs_access_to_the_memory_of_another_device() {
  const Devices devices;
  devices.enter(1);
  const CUdeviceptr other = floats(64);
  devices.enter(0);
  {
    Saxpy saxpy(64);
    OK(driver.cuCtxEnablePeerAccess(devices.contexts[1], 0));
    OK(launch_with(saxpy, other));
    CHECK(saxpy.holds(2.0F));
    OK(driver.cuCtxDisablePeerAccess(devices.contexts[1]));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, launch_with(saxpy, other));
    char message[512];
    OK(driver.fault_message(message, sizeof message));
    CHECK(std::strstr(message, "in the memory of another device, without access to it") != nullptr);
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, driver.cuCtxSynchronize());
    devices.enter(1); // is well
    OK(driver.cuCtxSynchronize());
    OK(driver.cuMemFree(other));
    OK(driver.set("lost", 0));
    devices.enter(0);
  }
}

void handles_belong_to_a_device() {
  const Devices devices;
  Saxpy saxpy(64);
  CUevent event = nullptr;
  OK(driver.cuEventCreate(&event, 0));
  devices.enter(1);
  CUstream stream = make_stream();
  CUevent other = nullptr;
  OK(driver.cuEventCreate(&other, 0));
  OK(driver.cuEventRecord(other, stream));
  GIVES(CUDA_ERROR_INVALID_HANDLE, driver.cuEventRecord(event, stream));
  GIVES(CUDA_ERROR_INVALID_HANDLE, saxpy.launch(stream));
  devices.enter(0);
  GIVES(CUDA_ERROR_INVALID_HANDLE, saxpy.launch(stream));
  OK(driver.cuEventRecord(event, nullptr));
  OK(driver.cuEventSynchronize(event));
  OK(driver.cuStreamSynchronize(stream));
  float milliseconds = 0;
  GIVES(CUDA_ERROR_INVALID_HANDLE, driver.cuEventElapsedTime(&milliseconds, event, other));
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  OK(driver.cuGraphCreate(&graph, 0));
  OK(driver.cuGraphInstantiateWithFlags(&exec, graph, 0));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuGraphLaunch(exec, stream));
  OK(driver.cuGraphLaunch(exec, nullptr));
  OK(driver.cuCtxSynchronize());
  OK(driver.cuGraphExecDestroy(exec));
  OK(driver.cuGraphDestroy(graph));
  OK(driver.cuEventDestroy(event));
  OK(driver.cuEventDestroy(other));
  OK(driver.cuStreamDestroy(stream));
}

// In each mode: a copy behind what the source's stream does, and ahead of what it does later.
void events_order_streams_of_two_devices() {
  for (const StreamMode mode : kModes) {
    const Devices devices(mode);
    const CUdeviceptr from = word(1);
    CUstream source = make_stream();
    CUevent written = nullptr;
    OK(driver.cuEventCreate(&written, CU_EVENT_DISABLE_TIMING));
    OK(driver.cuMemsetD32Async(from, 41, 1, source));
    OK(driver.cuEventRecord(written, source));
    devices.enter(1);
    const CUdeviceptr to = word(2);
    CUstream target = make_stream();
    CUevent copied = nullptr;
    OK(driver.cuEventCreate(&copied, CU_EVENT_DISABLE_TIMING));
    OK(driver.cuStreamWaitEvent(target, written, 0));
    OK(driver.cuMemcpyPeerAsync(to, devices.contexts[1], from, devices.contexts[0], 4, target));
    OK(driver.cuEventRecord(copied, target));
    devices.enter(0);
    OK(driver.cuStreamWaitEvent(source, copied, 0));
    OK(driver.cuMemsetD32Async(from, 43, 1, source));
    OK(driver.cuStreamSynchronize(source));
    EQUAL(43u, read(from));
    OK(driver.cuMemFree(from));
    OK(driver.cuStreamDestroy(source));
    OK(driver.cuEventDestroy(written));
    devices.enter(1);
    EQUAL(41u, read(to));
    OK(driver.cuMemFree(to));
    OK(driver.cuStreamDestroy(target));
    OK(driver.cuEventDestroy(copied));
  }
}

void peer_copies_are_checked_and_can_fail() {
  const Devices devices;
  const CUdeviceptr here = word(1);
  devices.enter(1);
  const CUdeviceptr there = word(2);
  CUcontext *const contexts = const_cast<CUcontext *>(devices.contexts);
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemcpyDtoDAsync(there, here, 4, nullptr));
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuMemcpyPeerAsync(there, contexts[0], here, contexts[1], 4, nullptr));
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuMemcpyPeerAsync(there, contexts[1], here, contexts[0], 5, nullptr));
  GIVES(CUDA_ERROR_INVALID_CONTEXT,
        driver.cuMemcpyPeerAsync(there, nullptr, here, contexts[0], 4, nullptr));
  driver.fail_call("cuMemcpyPeerAsync", 1, CUDA_ERROR_UNKNOWN, 0);
  GIVES(CUDA_ERROR_UNKNOWN,
        driver.cuMemcpyPeerAsync(there, contexts[1], here, contexts[0], 4, nullptr));
  EQUAL(2u, read(there));
  OK(driver.set("peer_access", 0)); // the driver goes by way of the host
  OK(driver.cuMemcpyPeerAsync(there, contexts[1], here, contexts[0], 4, nullptr));
  EQUAL(1u, read(there));
  OK(driver.set("peer_access", 1));
  OK(driver.cuCtxEnablePeerAccess(contexts[0], 0));
  OK(driver.cuMemsetD32Async(here, 9, 1, nullptr));
  OK(driver.cuMemcpyDtoDAsync(there, here, 4, nullptr));
  EQUAL(9u, read(there));
  OK(driver.cuMemFree(here));
  OK(driver.cuMemFree(there));
}

void threads_use_their_devices_side_by_side() {
  const Devices devices;
  std::vector<std::thread> threads;
  for (int device = 0; device < kDevices; ++device) {
    threads.emplace_back([&devices, device] {
      devices.enter(device);
      for (int round = 0; round < 20; ++round) {
        Saxpy saxpy(64);
        CUstream stream = make_stream();
        OK(saxpy.launch(stream));
        OK(driver.cuStreamSynchronize(stream));
        CHECK(saxpy.holds(2.0F));
        OK(driver.cuStreamDestroy(stream));
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
}

} // namespace

int main(int argc, char **argv) {
  CHECK(argc == 2);
  open_driver(argv[1]);
  devices_are_told_apart();
  memory_belongs_to_a_device();
  peers_are_enabled_one_way_and_end_with_the_context();
  a_kernel_needs_access_to_the_memory_of_another_device();
  handles_belong_to_a_device();
  events_order_streams_of_two_devices();
  peer_copies_are_checked_and_can_fail();
  threads_use_their_devices_side_by_side();
  a_context_ends_alone();
  return 0;
}
