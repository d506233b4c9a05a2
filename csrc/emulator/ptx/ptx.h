// The boundary inside the emulator between the driver API (driver/) and the PTX machine
// (text/parse, machine/exec).
//
// parse() turns text into a Module or says in the log, with line numbers, what it does not know.
// execute() runs one launch of one kernel to its end on the calling thread. Both are thread-safe on
// distinct arguments; a Module is immutable after parse.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace emulator {

struct Parameter {
  uint32_t offset; // bytes from the start of the parameter block, natural alignment
  uint32_t size; // bytes
};

struct Code; // the decoded instructions: private to the PTX machine

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t registers =
      0; // an honest estimate: the most 32-bit registers live in one thread, at most 255
  std::array<uint32_t, 3> required_block{}; // .reqntid, zeros when absent
  uint32_t max_threads = 1024; // .maxntid product, else 1024
  bool meets = false; // all blocks wait for each other: a parameter is named *_grid_barrier
  std::shared_ptr<const Code> code;
};

struct Module {
  int version = 0; // PTX version * 10, e.g. 80
  int target = 0; // sm number, e.g. 90
  std::vector<Kernel> kernels;
};

// nullptr on error; the log then names line, column and what was not understood, as ptxas words
// it ("ptxas application ptx input, line 12; error : ..."). `max_version` is the newest PTX version
// * 10 that this driver takes; a newer text is an unsupported version, *too_new is set.
std::unique_ptr<Module> parse(std::string_view text, int max_version, std::string *log,
                              bool *too_new);

// What the machine sees of memory. resolve() gives a host pointer that is good for `size` bytes at
// `address`, or nullptr when the range is not wholly inside one live allocation.
// [begin, end) receives the whole allocation, so that the caller may cache it for the launch.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual void *resolve(uint64_t address, uint64_t size, uint64_t *begin, uint64_t *end) = 0;
  // Why resolve() gave nothing.
  virtual const char *refusal(uint64_t) const { return "address outside every live allocation"; }
};

// The conditional values of one launch of a graph.
class Conditionals {
 public:
  virtual ~Conditionals() = default;
  // False when the launch has no such handle.
  virtual bool set(uint64_t handle, uint32_t value) = 0;
};

// Where threads print.
class Printer {
 public:
  virtual ~Printer() = default;
  virtual void print(std::string text) = 0;
};

struct Launch {
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::array<uint32_t, 3> block{1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
  const uint8_t *parameters = nullptr; // Kernel::parameter_bytes long
  bool cooperative = false; // all blocks advance together
  Conditionals *conditionals = nullptr; // of the graph that launches, if it has any
  Printer *printer = nullptr; // nullptr: what is printed is lost
  const std::atomic<bool> *cancel = nullptr; // set by another thread: stop at the next opportunity
};

enum class Outcome {
  ok,
  illegal_address,
  misaligned_address,
  illegal_instruction,
  barrier_mismatch,
  cancelled,
  trap
};

struct Report {
  Outcome outcome = Outcome::ok;
  uint64_t address = 0;
  int line = 0; // line in the PTX text
  std::string message; // thread, block, instruction text, address
  uint64_t instructions = 0;
};

Report execute(const Kernel &kernel, const Launch &launch, Memory &memory);

// A copy or a fill writes these bytes, which may be of a temporary array: see
// unwritten/temporary.h.
void temporary_written(uint64_t address, uint64_t bytes);
void temporary_filled(uint64_t address, uint64_t bytes, uint32_t value);

} // namespace emulator
