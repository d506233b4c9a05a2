// Memory of the emulated driver: allocation, limits, bounds, lifetime, pinned and registered
// memory, copies in every direction, memsets, pointer attributes.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <numeric>

#include "emulator_test.h"

namespace {

CUdeviceptr allocate(size_t bytes) {
  CUdeviceptr pointer = 0;
  OK(driver.cuMemAlloc(&pointer, bytes));
  return pointer;
}

std::vector<uint8_t> read(CUdeviceptr from, size_t bytes) {
  std::vector<uint8_t> result(bytes);
  OK(driver.cuMemcpyDtoH(result.data(), from, bytes));
  return result;
}

void memory_is_aligned_and_poisoned() {
  const Session session;
  const CUdeviceptr pointer = allocate(1000);
  EQUAL(uint64_t{0}, pointer % 256);
  CHECK(read(pointer, 1000) == std::vector<uint8_t>(1000, 0xA5));
  EQUAL(uint64_t{1}, driver.count("allocations"));
  EQUAL(uint64_t{1000}, driver.count("bytes"));
  OK(driver.cuMemFree(pointer));
  OK(driver.cuMemFree(0));
  CUdeviceptr none = 0;
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemAlloc(&none, 0));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemAlloc(nullptr, 4));
  GIVES(CUDA_ERROR_OUT_OF_MEMORY, driver.cuMemAlloc(&none, SIZE_MAX));
}

// Bytes of this process that are in memory.
uint64_t resident() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm").ignore(100, ' ') >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void a_large_block_takes_memory_only_where_it_is_written() {
  const Session session;
  constexpr uint64_t size = (uint64_t{6} << 30) + 1000;
  OK(driver.set("memory_limit", uint64_t{8} << 30));
  const CUdeviceptr pointer = allocate(size);
  const std::vector<uint8_t> ones(300, 1);
  const uint64_t before = resident();
  // Across the end of the first 4 GiB, and the last bytes.
  for (const uint64_t at : {uint64_t{0}, (uint64_t{4} << 30) - 100, size - 300}) {
    CHECK(read(pointer + at, 300) == std::vector<uint8_t>(300, 0xA5));
    OK(driver.cuMemcpyHtoD(pointer + at, ones.data(), 300));
    CHECK(read(pointer + at, 300) == ones);
  }
  CHECK(read(pointer + 300, 300) == std::vector<uint8_t>(300, 0xA5));
  CHECK(resident() < before + (uint64_t{64} << 20));
  std::vector<uint8_t> host(300);
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemcpyDtoH(host.data(), pointer + size - 299, 300));
  OK(driver.cuMemFree(pointer));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemcpyDtoH(host.data(), pointer, 300));
  const CUdeviceptr again = allocate(size);
  CHECK(read(again, 300) == std::vector<uint8_t>(300, 0xA5));
  OK(driver.cuMemFree(again));
}

void limits_hold() {
  const Session session;
  OK(driver.set("memory_limit", 1000));
  OK(driver.set("host_limit", 500));
  const CUdeviceptr pointer = allocate(600);
  size_t available = 0;
  size_t total = 0;
  OK(driver.cuMemGetInfo(&available, &total));
  EQUAL(size_t{400}, available);
  EQUAL(size_t{1000}, total);
  CUdeviceptr more = 0;
  GIVES(CUDA_ERROR_OUT_OF_MEMORY, driver.cuMemAlloc(&more, 401));
  OK(driver.cuMemAlloc(&more, 400));
  OK(driver.cuMemFree(more));
  OK(driver.set("memory_limit", 100));
  OK(driver.cuMemGetInfo(&available, &total));
  EQUAL(size_t{0}, available);
  void *host = nullptr;
  GIVES(CUDA_ERROR_OUT_OF_MEMORY, driver.cuMemHostAlloc(&host, 501, 0));
  OK(driver.cuMemHostAlloc(&host, 500, 0));
  EQUAL(uint64_t{500}, driver.count("pinned_bytes"));
  OK(driver.cuMemFreeHost(host));
  OK(driver.cuMemFree(pointer));
}

void ranges_outside_live_memory_are_refused() {
  const Session session;
  std::vector<uint8_t> host(64);
  const CUdeviceptr pointer = allocate(64);
  const CUdeviceptr other = allocate(64);
  OK(driver.cuMemcpyHtoD(pointer, host.data(), 64));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemcpyHtoD(pointer + 1, host.data(), 64));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemcpyHtoD(pointer - 1, host.data(), 2));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemcpyDtoH(host.data(), pointer + 65, 1));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemcpyDtoH(nullptr, pointer, 1));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemcpyDtoDAsync(other, pointer + 32, 33, nullptr));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemsetD8Async(pointer + 60, 0, 5, nullptr));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemsetD32Async(pointer + 2, 0, 1, nullptr));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemsetD32Async(pointer, 0, 17, nullptr));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemsetD32Async(pointer, 0, SIZE_MAX / 2, nullptr));
  OK(driver.cuMemcpyHtoD(pointer + 64, host.data(), 0));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemFree(pointer + 8));
  OK(driver.cuMemFree(pointer));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemFree(pointer));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemcpyDtoH(host.data(), pointer, 1));
  OK(driver.cuMemFree(other));
}

void a_freed_address_is_not_given_out_again_at_once() {
  const Session session;
  const CUdeviceptr first = allocate(4096);
  OK(driver.cuMemFree(first));
  const CUdeviceptr second = allocate(4096);
  CHECK(first != second);
  OK(driver.cuMemFree(second));
}

// Bytes that malloc has given out; 0 under the sanitizers, which have a malloc of their own.
size_t malloc_bytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

void freed_memory_goes_back_at_once_where_nothing_is_kept_aside() {
  const Session session;
  constexpr size_t kBytes = 1 << 20;
  CUdeviceptr block = 0;
  OK(driver.set("quarantine_bytes", 0));
  OK(driver.cuMemAlloc(&block, kBytes));
  OK(driver.cuMemFree(block)); // with what was kept aside before
  const size_t before = malloc_bytes();
  for (int i = 0; i < 8; i++) {
    OK(driver.cuMemAlloc(&block, kBytes));
    OK(driver.cuMemFree(block));
  }
  CHECK(malloc_bytes() < before + kBytes);
  OK(driver.reset());
  for (int i = 0; i < 8; i++) {
    OK(driver.cuMemAlloc(&block, kBytes));
    OK(driver.cuMemFree(block));
  }
  CHECK(before == 0 || malloc_bytes() >= before + 8 * kBytes);
  EQUAL(-1, driver.set("quarantine_bytes", -1));
}

void copies_and_memsets_move_bytes() {
  const Session session;
  std::vector<uint8_t> source(300);
  std::iota(source.begin(), source.end(), uint8_t{0});
  const CUdeviceptr a = allocate(300);
  const CUdeviceptr b = allocate(300);
  OK(driver.cuMemcpyHtoDAsync(a, source.data(), 300, nullptr));
  OK(driver.cuMemcpyDtoDAsync(b, a, 300, nullptr));
  CHECK(read(b, 300) == source);
  OK(driver.cuMemsetD8Async(b + 3, 0x7E, 5, nullptr));
  OK(driver.cuMemsetD32Async(b + 8, 0x01020304, 2, nullptr));
  std::vector<uint8_t> expected = source;
  std::fill_n(expected.begin() + 3, 5, uint8_t{0x7E});
  for (size_t i = 8; i < 16; ++i) expected[i] = static_cast<uint8_t>(4 - i % 4);
  CHECK(read(b, 300) == expected);
  OK(driver.cuMemFree(a));
  OK(driver.cuMemFree(b));
}

void pageable_memory_is_taken_at_the_call_and_pinned_memory_when_the_copy_runs() {
  const Session session(emulator::StreamMode::lazy);
  CUstream stream = nullptr;
  OK(driver.cuStreamCreate(&stream, 0));
  const CUdeviceptr pointer = allocate(8);
  uint32_t pageable = 1;
  void *memory = nullptr;
  OK(driver.cuMemHostAlloc(&memory, 8, CU_MEMHOSTALLOC_DEVICEMAP));
  auto *const pinned = static_cast<uint32_t *>(memory);
  pinned[0] = 1;
  OK(driver.cuMemcpyHtoDAsync(pointer, &pageable, 4, stream));
  OK(driver.cuMemcpyHtoDAsync(pointer + 4, pinned, 4, stream));
  pageable = 2;
  pinned[0] = 2;
  OK(driver.cuStreamSynchronize(stream));
  OK(driver.cuMemcpyDtoHAsync(pinned, pointer, 8, stream));
  EQUAL(2U, pinned[0]);  // not copied yet
  uint32_t answer[2] = {0, 0};
  OK(driver.cuMemcpyDtoHAsync(answer, pointer, 8, stream));  // pageable: complete on return
  EQUAL(1U, answer[0]);
  EQUAL(2U, answer[1]);
  EQUAL(1U, pinned[0]);
  OK(driver.cuMemFree(pointer));
  OK(driver.cuMemFreeHost(memory));
  OK(driver.cuStreamDestroy(stream));
}

void pinned_memory_is_mapped() {
  const Session session;
  void *host = nullptr;
  OK(driver.cuMemHostAlloc(&host, 100, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  EQUAL(uint64_t{0}, reinterpret_cast<uint64_t>(host) % 4096);
  CUdeviceptr device = 0;
  OK(driver.cuMemHostGetDevicePointer(&device, host, 0));
  OK(driver.cuMemsetD8Async(device, 9, 100, nullptr));
  OK(driver.cuCtxSynchronize());
  EQUAL(9, static_cast<uint8_t *>(host)[99]);
  const CUdeviceptr target = allocate(200);
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemcpyHtoDAsync(target, host, 101, nullptr));
  OK(driver.cuMemFree(target));
  int local = 0;
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemHostGetDevicePointer(&device, &local, 0));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemHostAlloc(&host, 16, 0x80));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemFree(reinterpret_cast<CUdeviceptr>(host)));
  OK(driver.cuMemFreeHost(host));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuMemFreeHost(host));
}

void registered_memory_is_pinned_until_unregistered() {
  const Session session;
  const auto memory = std::make_unique<uint8_t[]>(256);
  OK(driver.cuMemHostRegister(memory.get(), 256, 0));
  EQUAL(uint64_t{256}, driver.count("pinned_bytes"));
  GIVES(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        driver.cuMemHostRegister(memory.get() + 100, 256, 0));
  CUdeviceptr device = 0;
  OK(driver.cuMemHostGetDevicePointer(&device, memory.get() + 10, 0));
  EQUAL(reinterpret_cast<uint64_t>(memory.get()) + 10, device);
  GIVES(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, driver.cuMemHostUnregister(memory.get() + 10));
  OK(driver.cuMemHostUnregister(memory.get()));
  GIVES(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, driver.cuMemHostUnregister(memory.get()));
}

void pointer_attributes_tell_the_kinds_apart() {
  const Session session;
  const CUdeviceptr device = allocate(64);
  void *host = nullptr;
  OK(driver.cuMemHostAlloc(&host, 32, 0));
  unsigned type = 0;
  OK(driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 5));
  EQUAL(unsigned{CU_MEMORYTYPE_DEVICE}, type);
  OK(driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  reinterpret_cast<CUdeviceptr>(host)));
  EQUAL(unsigned{CU_MEMORYTYPE_HOST}, type);
  int local = 0;
  const auto unknown = reinterpret_cast<CUdeviceptr>(&local);
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, unknown));
  CUdeviceptr start = 0;
  size_t bytes = 0;
  CUpointer_attribute keys[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
  void *data[] = {&start, &bytes, &type};
  OK(driver.cuPointerGetAttributes(3, keys, data, device + 63));
  EQUAL(device, start);
  EQUAL(size_t{64}, bytes);
  OK(driver.cuPointerGetAttributes(3, keys, data, unknown));
  EQUAL(0U, type);
  OK(driver.cuMemFree(device));
  OK(driver.cuMemFreeHost(host));
}

void free_waits_for_queued_work() {
  for (const emulator::StreamMode mode : kModes) {
    const Session session(mode);
    Saxpy saxpy(256);
    CUstream stream = nullptr;
    OK(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const CUdeviceptr copy = allocate(1024);
    void *host = nullptr;
    OK(driver.cuMemHostAlloc(&host, 1024, 0));
    OK(driver.set("delay_us", 1000));
    OK(saxpy.launch(stream));
    OK(driver.cuMemcpyDtoDAsync(copy, saxpy.y, 1024, stream));
    OK(driver.cuMemcpyDtoHAsync(host, copy, 1024, stream));
    OK(driver.cuMemFree(copy));
    EQUAL(2.0F * 255 + 1, static_cast<float *>(host)[255]);
    OK(driver.cuMemFreeHost(host));
    OK(driver.cuStreamDestroy(stream));
  }
}

}  // namespace

int main(int argc, char **argv) {
  CHECK(argc == 2);
  open_driver(argv[1]);
  memory_is_aligned_and_poisoned();
  a_large_block_takes_memory_only_where_it_is_written();
  limits_hold();
  ranges_outside_live_memory_are_refused();
  a_freed_address_is_not_given_out_again_at_once();
  freed_memory_goes_back_at_once_where_nothing_is_kept_aside();
  copies_and_memsets_move_bytes();
  pageable_memory_is_taken_at_the_call_and_pinned_memory_when_the_copy_runs();
  pinned_memory_is_mapped();
  registered_memory_is_pinned_until_unregistered();
  pointer_attributes_tell_the_kinds_apart();
  free_waits_for_queued_work();
  return 0;
}
