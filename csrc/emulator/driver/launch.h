// The kinds of work: a kernel launch, a copy, a fill, a write of one word. A stream operation runs
// one of them, a graph keeps many. All hold what they need by value, so the caller's arguments may
// change at once.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "module.h"

namespace emulator {

struct KernelWork {
  std::shared_ptr<Function> function;
  Launch shape; // `parameters` is set when it runs
  std::vector<uint8_t> parameters;
};

// One side of a copy: rows of `width` bytes, `pitch` apart, in slices `slice` bytes apart.
struct CopySide {
  uint64_t address = 0;
  bool device = false; // must be in live memory when it runs
  int owner = -1; // the device that it is memory of; -1: of any that is reached
  uint64_t pitch = 0;
  uint64_t slice = 0;
};

struct CopyWork {
  int device = 0; // that must reach both sides
  CopySide to, from;
  uint64_t width = 0, height = 1, depth = 1; // bytes, rows, slices
  std::shared_ptr<std::vector<uint8_t>> staged; // keeps a snapshot of pageable memory alive
};

struct FillWork {
  int device = 0;
  uint64_t address = 0;
  uint32_t value = 0;
  uint32_t element_bytes = 1;
  uint64_t width = 0, height = 1; // elements, rows
  uint64_t pitch = 0; // bytes
};

// A word of memory that the host may be looking at: written whole, after everything before it.
struct WriteWork {
  int device = 0;
  uint64_t address = 0;
  uint32_t value = 0;
};

// A wait until a word of memory is at least `value`, modulo 2^32: not a step of a graph here.
struct AwaitWork {
  int device = 0;
  uint64_t address = 0;
  uint32_t value = 0;
};

// A function of the host, which may wait for others but may not call the driver.
struct HostWork {
  CUhostFn function = nullptr;
  void *argument = nullptr;
};

using Work = std::variant<KernelWork, CopyWork, FillWork, WriteWork, HostWork>;

// Geometry and arguments of one launch, checked and copied. Takes State::mutex.
struct LaunchRequest {
  CUfunction function;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void **parameters;
  void **extra;
  bool cooperative;
};
CUresult prepare(const LaunchRequest &request, KernelWork *work);
// Whether all blocks of a cooperative launch can be resident at once.
CUresult check_resident(const KernelWork &work);

// INVALID_VALUE when a device side, or a side that begins in pinned memory, is not wholly in live
// memory.
CUresult check(const CopyWork &work);
CUresult check(const FillWork &work);
CUresult check(const WriteWork &work);
CUresult check(const AwaitWork &work);
// Until then, or until the device is lost or the library shuts down.
void run(const AwaitWork &work);

// Runs on a stream's behalf, outside State::mutex; a fault loses the device. `conditionals`: of the
// graph that it is a node of.
void run(const Work &work, Conditionals *conditionals = nullptr);

} // namespace emulator
