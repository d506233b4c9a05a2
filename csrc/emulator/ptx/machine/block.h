// One block of threads while it runs: which thread runs next, and which wait for which. A block
// runs on the thread that called execute(); its own threads take turns, so nothing in it needs a
// lock.
#pragma once

#include <string>
#include <vector>

#include "emulator/ptx/races/races.h"

namespace emulator {

struct Thread {
  enum class State : uint8_t { ready, barrier, collective, gather, exited };
  State state = State::ready;
  uint64_t *r = nullptr; // register file, held from the first instruction to the exit
  const Instruction *pc = nullptr;
  Arrival arrival; // while it waits at a barrier
  Collective collective = nullptr; // while it waits for its warp
  uint32_t mask = 0;
};

class ThreadBlock {
 public:
  // `index` is the place of the block in the grid.
  ThreadBlock(const Kernel &kernel, const Launch &launch, Machine &machine);
  void begin(std::array<uint32_t, 3> index);

  // Gives every thread that can run a time slice. False when a thread faulted.
  bool advance();
  bool done() const { return alive_ == 0; }
  bool progressed() const { return progressed_; }
  uint64_t instructions() const { return instructions_; }

  void describe_fault(Report *report) const;
  void describe_deadlock(Report *report) const;

 private:
  static constexpr uint32_t barriers = 16;
  static constexpr uint64_t slice = 10000; // instructions before the next thread has its turn
  struct Barrier {
    uint32_t arrived = 0;
    uint32_t threads = 0;
    std::vector<uint32_t> lanes; // who has arrived, by warp
    Arrival::Reduce reduce = Arrival::Reduce::none;
    uint32_t votes = 0;
  };

  bool run(uint32_t index);
  void prepare(uint32_t index);
  uint64_t *take_file();
  void leave(uint32_t index);
  bool arrive(uint32_t index);
  bool try_open(uint32_t id);
  bool is_complete(const Barrier &barrier) const;
  bool open(uint32_t id);
  bool meet(uint32_t index);
  void try_collective(uint32_t warp);
  bool waits(uint32_t warp, uint32_t members) const;
  void resolve_gathered();
  bool fail(uint32_t index, const Instruction *at, Outcome outcome, const char *what);
  std::string place(uint32_t index, const Instruction *i) const;

  // Among the blocks of the grid.
  uint32_t number() const {
    return index_[0] + launch_.grid[0] * (index_[1] + launch_.grid[1] * index_[2]);
  }

  const Kernel &kernel_;
  const Launch &launch_;
  Machine &machine_;
  std::array<uint32_t, 3> index_{};
  std::vector<Thread> threads_;
  std::vector<Looks> looks_; // by thread
  std::vector<uint32_t> active_; // lanes that have not exited, by warp
  std::vector<uint32_t> meeting_; // lanes at a warp-synchronous operation, by warp
  std::vector<uint8_t> shared_;
  std::vector<uint8_t> local_; // by thread
  Barrier barriers_[barriers];
  std::vector<std::unique_ptr<uint64_t[]>> files_;
  std::vector<uint64_t *> unused_files_;
  uint32_t alive_ = 0;
  uint32_t faulting_ = 0;
  bool progressed_ = false, gathering_ = false;
  uint64_t instructions_ = 0;
  BlockRaces races_; // used where races are looked for
};

} // namespace emulator
