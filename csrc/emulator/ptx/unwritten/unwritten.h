// Elements of a result that no thread of its launch wrote, and that a thread reads or the run
// returns. For modules that ask for it, with a module-level `.pragma "vyre_initialized SITE
// REPORT"`: number of the site that it is reported as, offset of the parameter that points to the
// report. The results are those that vyre_emulator_unspecified named for this report. The same for
// reads of temporary arrays of graphs (temporary.h), which keep what was written from launch to
// launch.
//
// Never a false alarm: an element counts as written once any of its bytes is, and atomics on two
// bytes, by which those on one are done, count as writes alone. The first read of a launch ends
// its check, as does a failure that a thread reports.
#pragma once

#include <vector>

#include "emulator/ptx/machine.h"
#include "emulator/ptx/unwritten/temporary.h"

namespace emulator {

class UnwrittenCheck {
 public:
  UnwrittenCheck(const Kernel &kernel, const Launch &launch);

  // The thread that runs from now on.
  void enter(uint32_t block, uint32_t thread);
  // The access that an instruction is about to make.
  void access(size_t instruction, const uint64_t *r);
  // Keeps what was found, and says so in the report of the launch.
  void finish(Memory &memory);

 private:
  struct Watched {
    uint32_t binding;
    uint64_t begin;
    std::vector<bool> written; // bytes
  };

  Watched *watched(uint64_t address, uint64_t bytes);
  void watch_temporaries();
  void touch_temporary(uint64_t address, const AccessForm &form, size_t instruction);
  void found(uint32_t binding, uint64_t offset, size_t instruction);
  void touch(Watched &range, uint64_t offset, const AccessForm &form, size_t instruction);
  void look_at_results();

  const Kernel &kernel_;
  const Launch &launch_;
  uint64_t report_ = 0; // address
  // A pointer of the launch into a temporary array.
  struct Pointer {
    uint32_t parameter;
    uint64_t address;
    std::shared_ptr<Temporary> of;
  };

  std::vector<Watched> ranges_;
  std::vector<Pointer> pointers_;
  uint32_t block_ = 0, thread_ = 0;
  bool over_ = false;
  uint64_t found_ = 0; // number of the finding, 0: none
  uint64_t by_ = 0; // linear thread
};

} // namespace emulator
