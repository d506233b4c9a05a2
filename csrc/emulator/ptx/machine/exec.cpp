// One launch, from the first block to the last, on the calling thread. Blocks run one after
// another; those of a cooperative launch are all resident and take turns. While all threads only
// wait, for what the host, another launch or another process writes, the core is given to others.
// Meanwhile the thread has the default floating-point environment; its own is then restored.
#include <cfenv>
#include <memory>
#include <thread>

#include "block.h"
#include "emulator/ptx/unwritten/unwritten.h"

namespace emulator {
namespace {

class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&saved_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment &) = delete;
  DefaultFloatEnvironment &operator=(const DefaultFloatEnvironment &) = delete;

 private:
  std::fenv_t saved_;
};

template <class F>
bool each_index(const std::array<uint32_t, 3> &grid, F f) {
  for (uint32_t z = 0; z < grid[2]; ++z)
    for (uint32_t y = 0; y < grid[1]; ++y)
      for (uint32_t x = 0; x < grid[0]; ++x)
        if (!f(std::array<uint32_t, 3>{x, y, z})) return false;
  return true;
}

// Instructions in vain until other threads of the host may have the core.
constexpr uint64_t turn = 8000;

// Runs blocks that are resident together until all are done.
bool run_resident(std::vector<std::unique_ptr<ThreadBlock>> &blocks, Machine &machine,
                  Report *report) {
  uint64_t in_vain = 0;
  for (bool busy = true; busy;) {
    busy = false;
    bool progressed = false;
    const uint64_t changes = machine.changes;
    uint64_t instructions = 0;
    machine.worked = false;
    for (const auto &block : blocks) {
      if (block->done()) continue;
      instructions -= block->instructions();
      if (!block->advance()) {
        block->describe_fault(report);
        return false;
      }
      instructions += block->instructions();
      progressed |= block->progressed();
      busy |= !block->done();
    }
    const bool waits = !machine.worked && machine.changes == changes && machine.waited == changes;
    in_vain = waits ? in_vain + instructions : 0;
    if (in_vain >= turn) {
      std::this_thread::yield();
      in_vain = 0;
    }
    if (!busy || progressed) continue;
    for (const auto &block : blocks) {
      if (block->done()) continue;
      block->describe_deadlock(report);
      return false;
    }
  }
  return true;
}

}  // namespace

Report execute(const Kernel &kernel, const Launch &launch, Memory &memory) {
  const DefaultFloatEnvironment environment;
  Report report;
  Machine machine;
  machine.memory = &memory;
  machine.parameters = launch.parameters;
  machine.conditionals = launch.conditionals;
  machine.printer = launch.printer;
  machine.code = kernel.code.get();
  std::unique_ptr<RaceCheck> races;
  if (kernel.code->races.site >= 0) races = std::make_unique<RaceCheck>(kernel, launch);
  machine.races = races.get();
  std::unique_ptr<UnwrittenCheck> unwritten;
  if (kernel.code->unwritten.site >= 0)
    unwritten = std::make_unique<UnwrittenCheck>(kernel, launch);
  else
    temporaries_given(kernel, launch);
  machine.unwritten = unwritten.get();
  std::vector<std::unique_ptr<ThreadBlock>> blocks;
  if (launch.cooperative) {
    each_index(launch.grid, [&](const std::array<uint32_t, 3> &index) {
      blocks.push_back(std::make_unique<ThreadBlock>(kernel, launch, machine));
      blocks.back()->begin(index);
      return true;
    });
    run_resident(blocks, machine, &report);
  } else {
    blocks.push_back(std::make_unique<ThreadBlock>(kernel, launch, machine));
    each_index(launch.grid, [&](const std::array<uint32_t, 3> &index) {
      blocks[0]->begin(index);
      return run_resident(blocks, machine, &report);
    });
  }
  if (races != nullptr) races->finish(memory);
  if (unwritten != nullptr && report.outcome == Outcome::ok) unwritten->finish(memory);
  for (const auto &block : blocks) report.instructions += block->instructions();
  return report;
}

}  // namespace emulator
