// The tasks of bench_algorithms.py with CUB: "task elements ms", medians between two events; for
// few elements also "task to completion", what the host waits for, beside an empty launch.
//
//   nvcc -O3 -std=c++17 -arch=sm_90 -o cub cub.cu && ./cub 1024 65536 268435456
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cub/cub.cuh>
#include <functional>
#include <vector>

namespace {

constexpr int rounds = 15, warm = 3, waits = 3000;
// With so many elements at most, what the host waits for is measured too.
constexpr size_t few = 1024;

void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(status));
  std::exit(1);
}

template <class T>
T *allocated(size_t count) {
  T *memory = nullptr;
  check(cudaMalloc(&memory, count * sizeof(T)));
  return memory;
}

// What CUB asks of its caller: called once for the size of its memory, then with it.
using Task = std::function<cudaError_t(void *, size_t &)>;

// What the host waits from a call to its end.
void measure_waits(const char *name, size_t elements, const std::function<void()> &run) {
  using clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int round = 0; round < waits; ++round) {
    const auto begin = clock::now();
    run();
    check(cudaDeviceSynchronize());
    times.push_back(std::chrono::duration<double, std::milli>(clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  std::printf("%s to completion\t%zu\t%.6f\n", name, elements, times[times.size() / 2]);
  std::fflush(stdout);
}

void measure(const char *name, size_t elements, const Task &task) {
  size_t bytes = 0;
  check(task(nullptr, bytes));
  void *memory = allocated<char>(std::max<size_t>(bytes, 1));
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  std::vector<float> times;
  for (int round = 0; round < warm + rounds; ++round) {
    check(cudaEventRecord(begin));
    check(task(memory, bytes));
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end));
    if (round >= warm) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  std::printf("%s\t%zu\t%.6f\n", name, elements, times[times.size() / 2]);
  std::fflush(stdout);
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  if (elements <= few) measure_waits(name, elements, [&] { check(task(memory, bytes)); });
  check(cudaFree(memory));
}

__global__ void nothing() {}

__global__ void scatter(uint32_t *words, size_t count) {
  const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  if (i >= count) return;
  uint32_t value = static_cast<uint32_t>(i) * 0x9E3779B1u;
  value = (value ^ value >> 16) * 0x85EBCA6Bu;
  words[i] = value ^ value >> 13;
}

__global__ void fractions(float *values, const uint32_t *words, size_t count) {
  const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  if (i < count) values[i] = static_cast<float>(words[i] >> 8) * 0x1p-24f;
}

__global__ void halves(uint8_t *flags, const uint32_t *words, size_t count) {
  const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  if (i < count) flags[i] = words[i] >> 7 & 1;
}

struct IsOdd {
  __host__ __device__ bool operator()(uint32_t value) const { return value & 1; }
};

} // namespace

int main(int count, char **values) {
  for (int k = 1; k < count; ++k) {
    const size_t n = std::strtoull(values[k], nullptr, 10);
    const int items = static_cast<int>(n);
    const unsigned blocks = static_cast<unsigned>((n + 255) / 256);
    auto *words = allocated<uint32_t>(n), *sorted = allocated<uint32_t>(n);
    auto *moved = allocated<uint32_t>(n), *moved_out = allocated<uint32_t>(n);
    auto *x = allocated<float>(n), *out = allocated<float>(n);
    auto *total = allocated<float>(1);
    auto *counts = allocated<int>(256);
    auto *flags = allocated<uint8_t>(n);
    scatter<<<blocks, 256>>>(words, n);
    halves<<<blocks, 256>>>(flags, words, n);
    scatter<<<blocks, 256>>>(moved, n);
    fractions<<<blocks, 256>>>(x, words, n);
    check(cudaDeviceSynchronize());
    if (n <= few) measure_waits("empty", n, [] { nothing<<<1, 32>>>(); });
    measure("sum f32", n, [&](void *memory, size_t &bytes) {
      return cub::DeviceReduce::Sum(memory, bytes, x, total, items);
    });
    measure("cumsum f32", n, [&](void *memory, size_t &bytes) {
      return cub::DeviceScan::InclusiveSum(memory, bytes, x, out, items);
    });
    measure("cumsum u32", n, [&](void *memory, size_t &bytes) {
      return cub::DeviceScan::InclusiveSum(memory, bytes, words, sorted, items);
    });
    measure("sort u32", n, [&](void *memory, size_t &bytes) {
      return cub::DeviceRadixSort::SortKeys(memory, bytes, words, sorted, items);
    });
    measure("sort u32 with u32", n, [&](void *memory, size_t &bytes) {
      return cub::DeviceRadixSort::SortPairs(memory, bytes, words, sorted, moved, moved_out, items);
    });
    measure("bincount u8", n, [&](void *memory, size_t &bytes) {
      return cub::DeviceHistogram::HistogramEven(memory, bytes, reinterpret_cast<uint8_t *>(words),
                                                 counts, 257, 0, 256, items);
    });
    measure("compress u32", n, [&](void *memory, size_t &bytes) {
      return cub::DeviceSelect::If(memory, bytes, words, sorted, counts, items, IsOdd{});
    });
    measure("compress u32 by flags", n, [&](void *memory, size_t &bytes) {
      return cub::DeviceSelect::Flagged(memory, bytes, words, flags, sorted, counts, items);
    });
    if (n >= 2) {
      const size_t half = n / 2;
      auto *wide = reinterpret_cast<uint64_t *>(words),
           *wide_out = reinterpret_cast<uint64_t *>(sorted);
      measure("sort u64 with u32", half, [&](void *memory, size_t &bytes) {
        return cub::DeviceRadixSort::SortPairs(memory, bytes, wide, wide_out, moved, moved_out,
                                               static_cast<int>(half));
      });
    }
    for (void *memory : {(void *)words, (void *)sorted, (void *)moved, (void *)moved_out, (void *)x,
                         (void *)out, (void *)total, (void *)counts, (void *)flags})
      check(cudaFree(memory));
  }
  return 0;
}
