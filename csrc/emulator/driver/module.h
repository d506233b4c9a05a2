// Modules and their functions, links, and the JIT options of both.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "call.h"
#include "emulator/ptx/ptx.h"

namespace emulator {

struct LoadedModule {
  int device = 0;
  std::unique_ptr<const Module> code;
  int binary_version = 0;  // compute capability * 10 that the text was compiled for
  std::vector<CUfunction> functions;
  bool unloaded = false;
};

// One kernel of a loaded module. Launches hold it, so its code outlives the module's handle.
struct Function {
  int device = 0;
  std::shared_ptr<LoadedModule> module;
  const Kernel *kernel = nullptr;
  uint32_t max_dynamic_shared_bytes = 0;
  int shared_carveout = -1;
};

// The options of one JIT call, and the caller's slots that it answers in.
class JitOptions {
 public:
  // INVALID_VALUE for options that do not exist or contradict each other.
  CUresult read(unsigned count, const CUjit_option *options, void **values);
  // Writes logs, cut to the caller's buffers, and their lengths.
  void write(const std::string &error_log, const std::string &info_log, float milliseconds);

  int target = kComputeCapability;
  bool verbose = false;

 private:
  struct Log {
    char *buffer = nullptr;
    size_t capacity = 0;
    void **length = nullptr;  // the slot of the size option receives the length
    void put(const std::string &text);
  };
  Log error_, info_;
  void **wall_time_ = nullptr;
};

struct Link {
  int device = 0;
  JitOptions options;
  std::string text;
  std::vector<uint8_t> image;  // empty until cuLinkComplete
};

// Parses PTX text and holds it to the device: INVALID_PTX, UNSUPPORTED_PTX_VERSION,
// NO_BINARY_FOR_GPU, with the reason in the caller's error log.
CUresult compile(std::string_view text, JitOptions &options, std::unique_ptr<Module> *module);

// What cuLinkComplete makes, see link.cpp. unpack() leaves *text empty when it is no such image.
std::vector<uint8_t> pack_image(const std::string &text, int target);
CUresult unpack_image(const void *image, std::string_view *text, int *target);

// Blocks of `threads` threads that one multiprocessor holds at a time, 0 when not even one fits.
int resident_blocks(const Kernel &kernel, uint32_t threads, uint64_t dynamic_shared_bytes);

// What one multiprocessor and one block have (modelled on an H200).
struct Limits {
  static constexpr uint32_t multiprocessors = 132;
  static constexpr uint32_t threads_per_block = 1024;
  static constexpr uint32_t threads = 2048;
  static constexpr uint32_t blocks = 32;
  static constexpr uint32_t registers = 65536;
  static constexpr uint32_t shared_bytes = 233472;
  static constexpr uint32_t shared_per_block = 49152;
  static constexpr uint32_t shared_per_block_optin = 232448;
  static constexpr uint32_t shared_reserved_per_block = 1024;
  static constexpr uint32_t warp = 32;
};

}  // namespace emulator
