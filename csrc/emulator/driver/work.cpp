// Running kernel launches, copies, fills and writes, and holding all but launches to live memory.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <thread>

#include "state.h"

namespace emulator {
namespace {

// Bytes from the first to past the last of a pitched box; false when that overflows.
bool extent(uint64_t width, uint64_t height, uint64_t depth, uint64_t pitch, uint64_t slice,
            uint64_t *bytes) {
  uint64_t rows = 0;
  uint64_t slices = 0;
  if (__builtin_mul_overflow(height - 1, pitch, &rows)) return false;
  if (__builtin_mul_overflow(depth - 1, slice, &slices)) return false;
  return !__builtin_add_overflow(rows, slices, bytes) &&
         !__builtin_add_overflow(*bytes, width, bytes);
}

// The live block that holds the bytes, if the device reaches it.
std::shared_ptr<Block> reached(int device, uint64_t address, uint64_t bytes) {
  auto block = state().heap.find(address, bytes);
  return block != nullptr && reaches(device, *block) ? block : nullptr;
}

// The block that holds a device side, so that it stays allocated; nullptr when there is none.
std::shared_ptr<Block> hold(const CopyWork &work, const CopySide &side) {
  uint64_t bytes = 0;
  if (!extent(work.width, work.height, work.depth, side.pitch, side.slice, &bytes)) return nullptr;
  const auto block = state().heap.find(side.address, bytes);
  if (block == nullptr) return nullptr;
  if (side.owner >= 0 ? block->kind == Kind::device && block->device != side.owner
                      : !reaches(work.device, *block))
    return nullptr;
  return block;
}

std::shared_ptr<Block> hold(const FillWork &work) {
  uint64_t row = 0;
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(work.width, uint64_t{work.element_bytes}, &row)) return nullptr;
  if (!extent(row, work.height, 1, work.pitch, 0, &bytes)) return nullptr;
  return reached(work.device, work.address, bytes);
}

bool empty(const CopyWork &work) { return work.width == 0 || work.height == 0 || work.depth == 0; }
bool empty(const FillWork &work) { return work.width == 0 || work.height == 0; }

void lose_to_freed_memory(int device, const char *what, uint64_t address) {
  char message[128];
  std::snprintf(message, sizeof message, "%s: 0x%" PRIx64 " is no longer in live memory", what,
                address);
  lose_device(device, CUDA_ERROR_ILLEGAL_ADDRESS, message);
}

CUresult code_of(Outcome outcome) {
  switch (outcome) {
  case Outcome::illegal_address: return CUDA_ERROR_ILLEGAL_ADDRESS;
  case Outcome::misaligned_address: return CUDA_ERROR_MISALIGNED_ADDRESS;
  case Outcome::illegal_instruction: return CUDA_ERROR_ILLEGAL_INSTRUCTION;
  case Outcome::barrier_mismatch:
  case Outcome::trap: return CUDA_ERROR_LAUNCH_FAILED;
  case Outcome::ok:
  case Outcome::cancelled: break;
  }
  return CUDA_SUCCESS;
}

// Blocks of a launch that is not cooperative run one after the other here, so the first would wait
// for the others forever; on a device it may.
bool would_hang(const KernelWork &work) {
  const auto &grid = work.shape.grid;
  return work.function->kernel->meets && !work.shape.cooperative &&
         (grid[0] > 1 || grid[1] > 1 || grid[2] > 1);
}

void run_one(const KernelWork &work, Conditionals *conditionals) {
  if (would_hang(work)) {
    const std::string message =
        "kernel " + work.function->kernel->name +
        ": its blocks wait for each other, and the launch is not cooperative";
    return lose_device(work.function->device, CUDA_ERROR_LAUNCH_FAILED, message.c_str());
  }
  const int device = work.function->device;
  LaunchMemory memory(state().heap, device);
  Launch launch = work.shape;
  launch.conditionals = conditionals;
  launch.printer = &state().contexts[device].prints;
  launch.parameters = work.parameters.data();
  launch.cancel = state().engine.cancel();
  ++process().launches;
  const Report report = execute(*work.function->kernel, launch, memory);
  process().instructions += report.instructions;
  const CUresult code = code_of(report.outcome);
  if (code == CUDA_SUCCESS) return;
  const std::string message = "kernel " + work.function->kernel->name + ", PTX line " +
                              std::to_string(report.line) + ": " + report.message;
  lose_device(device, code, message.c_str());
}

void run_one(const CopyWork &work, Conditionals *) {
  if (empty(work)) return;
  const auto to = work.to.device ? hold(work, work.to) : nullptr;
  const auto from = work.from.device ? hold(work, work.from) : nullptr;
  if (work.to.device && to == nullptr)
    return lose_to_freed_memory(work.device, "copy to device memory", work.to.address);
  if (work.from.device && from == nullptr)
    return lose_to_freed_memory(work.device, "copy from device memory", work.from.address);
  for (uint64_t z = 0; z < work.depth; ++z) {
    for (uint64_t y = 0; y < work.height; ++y) {
      std::memmove(
          reinterpret_cast<void *>(work.to.address + z * work.to.slice + y * work.to.pitch),
          reinterpret_cast<const void *>(work.from.address + z * work.from.slice +
                                         y * work.from.pitch),
          work.width);
      temporary_written(work.to.address + z * work.to.slice + y * work.to.pitch, work.width);
    }
  }
}

template <class Element>
void fill_row(uint64_t address, uint32_t value, uint64_t count) {
  auto *const row = reinterpret_cast<Element *>(address);
  for (uint64_t i = 0; i < count; ++i) row[i] = static_cast<Element>(value);
}

void run_one(const FillWork &work, Conditionals *) {
  if (empty(work)) return;
  const auto block = hold(work);
  if (block == nullptr) return lose_to_freed_memory(work.device, "memset", work.address);
  for (uint64_t y = 0; y < work.height; ++y) {
    const uint64_t row = work.address + y * work.pitch;
    if (work.element_bytes == 1) fill_row<uint8_t>(row, work.value, work.width);
    if (work.element_bytes == 2) fill_row<uint16_t>(row, work.value, work.width);
    if (work.element_bytes == 4) fill_row<uint32_t>(row, work.value, work.width);
    temporary_filled(row, work.width * work.element_bytes, work.value);
  }
}

void run_one(const WriteWork &work, Conditionals *) {
  const auto block = reached(work.device, work.address, sizeof work.value);
  if (block == nullptr) return lose_to_freed_memory(work.device, "write of a word", work.address);
  __atomic_store_n(static_cast<uint32_t *>(block->at(work.address)), work.value, __ATOMIC_RELEASE);
}

void run_one(const HostWork &work, Conditionals *) { work.function(work.argument); }

}  // namespace

CUresult check(const CopyWork &work) {
  if (empty(work)) return CUDA_SUCCESS;
  for (const CopySide &side : {work.to, work.from}) {
    if (side.address == 0) return CUDA_ERROR_INVALID_VALUE;
    // The driver knows host memory only if it is pinned; then the range may not extend past its
    // end.
    const bool known = side.device || state().heap.find(side.address, 1) != nullptr;
    if (known && hold(work, side) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult check(const FillWork &work) {
  const uint32_t bytes = work.element_bytes;
  if (bytes != 1 && bytes != 2 && bytes != 4) return CUDA_ERROR_INVALID_VALUE;
  if (work.address % bytes != 0 || (work.height > 1 && work.pitch % bytes != 0))
    return CUDA_ERROR_INVALID_VALUE;
  if (empty(work)) return CUDA_SUCCESS;
  return hold(work) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult check(const WriteWork &work) {
  if (work.address % sizeof work.value != 0) return CUDA_ERROR_INVALID_VALUE;
  return reached(work.device, work.address, sizeof work.value) == nullptr ? CUDA_ERROR_INVALID_VALUE
                                                                          : CUDA_SUCCESS;
}

CUresult check(const AwaitWork &work) {
  return check(WriteWork{work.device, work.address, work.value});
}

void run(const AwaitWork &work) {
  const auto block = reached(work.device, work.address, sizeof work.value);
  if (block == nullptr) return lose_to_freed_memory(work.device, "wait for a word", work.address);
  const auto *const word = static_cast<const uint32_t *>(block->at(work.address));
  const auto is_there = [&] {
    return static_cast<int32_t>(__atomic_load_n(word, __ATOMIC_ACQUIRE) - work.value) >= 0;
  };
  while (!is_there() && !state().engine.cancel()->load() && outcome(work.device) == CUDA_SUCCESS)
    std::this_thread::yield();
}

void run(const Work &work, Conditionals *conditionals) {
  std::visit([&](const auto &one) { run_one(one, conditionals); }, work);
}

}  // namespace emulator
