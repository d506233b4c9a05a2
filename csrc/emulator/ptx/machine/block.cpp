// A block of threads: time slices, barriers (PTX ISA 9.7.12.1) and warp-synchronous groups.
#include "block.h"

#include "emulator/ptx/unwritten/unwritten.h"

#include <algorithm>
#include <cstring>

namespace emulator {
namespace {

constexpr uint32_t warp_size = Group::lanes;
constexpr uint64_t poison =
    0xa5a5a5a5a5a5a5a5u;  // what a register or shared byte holds before it is written

std::string triple(uint32_t x, uint32_t y, uint32_t z) {
  return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
}

}  // namespace

ThreadBlock::ThreadBlock(const Kernel &kernel, const Launch &launch, Machine &machine)
    : kernel_(kernel), launch_(launch), machine_(machine) {
  const uint32_t count = launch.block[0] * launch.block[1] * launch.block[2];
  threads_.resize(count);
  looks_.resize(count);
  active_.resize((count + warp_size - 1) / warp_size);
  meeting_.resize(active_.size());
  shared_.resize(size_t{kernel.static_shared_bytes} + launch.dynamic_shared_bytes);
  local_.resize(size_t{kernel.code->local_bytes} * count);
}

void ThreadBlock::begin(std::array<uint32_t, 3> index) {
  index_ = index;
  alive_ = static_cast<uint32_t>(threads_.size());
  std::fill(threads_.begin(), threads_.end(), Thread{});
  for (size_t warp = 0; warp < active_.size(); ++warp) {
    const size_t lanes = std::min<size_t>(warp_size, threads_.size() - warp * warp_size);
    active_[warp] = lanes == warp_size ? ~0u : (1u << lanes) - 1;
    meeting_[warp] = 0;
  }
  std::fill(shared_.begin(), shared_.end(), static_cast<uint8_t>(poison));
  std::fill(local_.begin(), local_.end(), static_cast<uint8_t>(poison));
  for (Barrier &barrier : barriers_) barrier = Barrier{};
  if (machine_.races == nullptr) return;
  races_.begin(number(), active_.size());
}

// A register file with the constants and what all threads of the launch share.
uint64_t *ThreadBlock::take_file() {
  if (!unused_files_.empty()) {
    uint64_t *file = unused_files_.back();
    unused_files_.pop_back();
    return file;
  }
  const Code &code = *kernel_.code;
  files_.push_back(std::make_unique<uint64_t[]>(code.slots));
  uint64_t *file = files_.back().get();
  std::fill(file, file + code.slots, poison);
  std::copy(code.constants.begin(), code.constants.end(), file + slot_fixed_count);
  for (size_t axis = 0; axis < 3; ++axis) {
    file[slot_ntid + axis] = launch_.block[axis];
    file[slot_nctaid + axis] = launch_.grid[axis];
  }
  file[slot_nwarpid] = 64;
  file[slot_smid] = 0;
  file[slot_nsmid] = 1;
  file[slot_dynamic_shared] = launch_.dynamic_shared_bytes;
  file[slot_total_shared] = shared_.size();
  return file;
}

void ThreadBlock::prepare(uint32_t index) {
  Thread &thread = threads_[index];
  thread.r = take_file();
  thread.pc = kernel_.code->instructions.data();
  uint64_t *r = thread.r;
  r[slot_carry] = 0;
  r[slot_tid] = index % launch_.block[0];
  r[slot_tid + 1] = index / launch_.block[0] % launch_.block[1];
  r[slot_tid + 2] = index / launch_.block[0] / launch_.block[1];
  for (size_t axis = 0; axis < 3; ++axis) r[slot_ctaid + axis] = index_[axis];
  const uint32_t lane = index % warp_size, own = 1u << lane;
  r[slot_laneid] = lane;
  r[slot_warpid] = index / warp_size;
  r[slot_lanemask_eq] = own;
  r[slot_lanemask_lt] = own - 1;
  r[slot_lanemask_le] = own | (own - 1);
  r[slot_lanemask_gt] = ~(own | (own - 1));
  r[slot_lanemask_ge] = ~(own - 1);
}

bool ThreadBlock::advance() {
  machine_.shared = shared_.data();
  machine_.looks = looks_.data();
  machine_.shared_bytes = shared_.size();
  progressed_ = false;
  for (uint32_t index = 0; index < threads_.size(); ++index) {
    if (threads_[index].state != Thread::State::ready) continue;
    if (launch_.cancel != nullptr && launch_.cancel->load(std::memory_order_relaxed))
      return fail(index, threads_[index].pc, Outcome::cancelled, "launch cancelled");
    progressed_ = true;
    if (!run(index)) return false;
  }
  if (gathering_) resolve_gathered();
  return true;
}

// Runs a thread until it waits, exits, faults or has used its slice.
bool ThreadBlock::run(uint32_t index) {
  Thread &thread = threads_[index];
  if (thread.r == nullptr) prepare(index);
  uint64_t *r = thread.r;
  const Instruction *i = thread.pc;
  machine_.local_bytes = kernel_.code->local_bytes;
  machine_.local = local_.data() + size_t{index} * machine_.local_bytes;
  if (machine_.races != nullptr) machine_.races->enter(races_, index);
  if (machine_.unwritten != nullptr) machine_.unwritten->enter(number(), index);
  uint64_t left = slice;
  do {
    i = i->run(i, r, machine_);
  } while (i != nullptr && --left != 0);
  if (i != nullptr) {
    instructions_ += slice;
    machine_.worked = true;
    thread.pc = i;
    return true;
  }
  instructions_ += slice - left + 1;
  switch (machine_.stop) {
  case Stop::yield: thread.pc = machine_.at; return true;
  case Stop::exited: leave(index); return machine_.stop != Stop::fault;
  case Stop::barrier: return arrive(index);
  case Stop::collective:
    thread.pc = machine_.at + 1;
    thread.state = Thread::State::collective;
    thread.collective = machine_.collective;
    thread.mask = machine_.mask;
    return meet(index);
  case Stop::gather:
    thread.pc = machine_.at;
    thread.state = Thread::State::gather;
    gathering_ = true;
    return true;
  case Stop::fault: faulting_ = index; return false;
  }
  return false;
}

// An exit may complete barriers and groups that waited for the thread.
void ThreadBlock::leave(uint32_t index) {
  Thread &thread = threads_[index];
  ++machine_.changes;
  thread.state = Thread::State::exited;
  unused_files_.push_back(thread.r);
  thread.r = nullptr;
  --alive_;
  active_[index / warp_size] &= ~(1u << index % warp_size);
  for (uint32_t id = 0; id < barriers; ++id)
    if (barriers_[id].arrived != 0 && !try_open(id)) return;
  if (active_[index / warp_size] != 0) try_collective(index / warp_size);
}

bool ThreadBlock::fail(uint32_t index, const Instruction *at, Outcome outcome, const char *what) {
  machine_.fault(at != nullptr ? at : kernel_.code->instructions.data(), outcome, 0, what);
  faulting_ = index;
  return false;
}

bool ThreadBlock::arrive(uint32_t index) {
  Thread &thread = threads_[index];
  thread.pc = machine_.at + 1;
  thread.arrival = machine_.arrival;
  ++machine_.changes;
  const Arrival &arrival = thread.arrival;
  Barrier &barrier = barriers_[arrival.id];
  if (barrier.lanes.empty()) barrier.lanes.resize(active_.size());
  uint32_t &lanes = barrier.lanes[index / warp_size];
  const uint32_t own = 1u << index % warp_size;
  if (lanes & own)
    return fail(index, machine_.at, Outcome::barrier_mismatch,
                "thread arrives twice at a barrier that is still closed");
  if (barrier.arrived == 0) {
    barrier.threads = arrival.threads;
    barrier.reduce = arrival.reduce;
    barrier.votes = 0;
  } else if (barrier.threads != arrival.threads || barrier.reduce != arrival.reduce) {
    return fail(index, machine_.at, Outcome::barrier_mismatch,
                "threads came to one barrier with different counts or operations");
  }
  lanes |= own;
  ++barrier.arrived;
  barrier.votes += arrival.value ? 1 : 0;
  if (arrival.wait) thread.state = Thread::State::barrier;
  return try_open(arrival.id);
}

// Without a count: all threads that have not exited. With one: warps count whole, as on the device.
bool ThreadBlock::is_complete(const Barrier &barrier) const {
  if (barrier.threads == 0) return barrier.arrived >= alive_;
  uint32_t total = 0;
  for (size_t warp = 0; warp < active_.size(); ++warp) {
    const uint32_t lanes = barrier.lanes[warp];
    const bool whole = lanes != 0 && (active_[warp] & ~lanes) == 0;
    total += whole ? warp_size : static_cast<uint32_t>(__builtin_popcount(lanes));
  }
  return total >= barrier.threads;
}

bool ThreadBlock::try_open(uint32_t id) { return !is_complete(barriers_[id]) || open(id); }

// Lets all threads continue that wait at the barrier. The lanes of a warp must have reached the
// same aligned instruction.
bool ThreadBlock::open(uint32_t id) {
  Barrier &barrier = barriers_[id];
  const uint64_t result = barrier.reduce == Arrival::Reduce::popc ? barrier.votes
                          : barrier.reduce == Arrival::Reduce::all
                              ? barrier.votes == barrier.arrived
                              : barrier.votes != 0;
  const Instruction *expected = nullptr;
  for (uint32_t index = 0; index < threads_.size(); ++index) {
    if (index % warp_size == 0) expected = nullptr;
    Thread &thread = threads_[index];
    if (thread.state != Thread::State::barrier || thread.arrival.id != id) continue;
    if (thread.arrival.aligned) {
      if (expected != nullptr && expected != thread.pc)
        return fail(index, thread.pc - 1, Outcome::barrier_mismatch,
                    "threads of one warp came to different barrier instructions");
      expected = thread.pc;
    }
    if (barrier.reduce != Arrival::Reduce::none) thread.r[thread.arrival.result_slot] = result;
    thread.state = Thread::State::ready;
  }
  ++races_.barriers;
  barrier.arrived = 0;
  std::fill(barrier.lanes.begin(), barrier.lanes.end(), 0);
  return true;
}

// A thread came to a warp-synchronous operation: the last of its group runs it.
bool ThreadBlock::meet(uint32_t index) {
  const uint32_t warp = index / warp_size;
  meeting_[warp] |= 1u << index % warp_size;
  if ((threads_[index].mask & active_[warp] & ~meeting_[warp]) == 0) try_collective(warp);
  return true;
}

// Runs each group of the warp whose members have all come: same operation, same mask.
void ThreadBlock::try_collective(uint32_t warp) {
  Thread *lanes = &threads_[size_t{warp} * warp_size];
  uint32_t seen = 0;
  for (uint32_t lane = 0; lane < warp_size; ++lane) {
    if (!(active_[warp] >> lane & 1) || (seen >> lane & 1)) continue;
    const Thread &first = lanes[lane];
    if (first.state != Thread::State::collective) continue;
    Group group;
    for (uint32_t other = lane; other < warp_size; ++other) {
      if (!(active_[warp] >> other & 1)) continue;
      const Thread &thread = lanes[other];
      if (thread.state != Thread::State::collective || thread.collective != first.collective ||
          thread.mask != first.mask)
        continue;
      group.members |= 1u << other;
      group.instruction[other] = thread.pc - 1;
      group.r[other] = thread.r;
    }
    seen |= group.members;
    if (group.members != (first.mask & active_[warp])) continue;
    first.collective(group);
    if (!waits(warp, group.members)) machine_.worked = true;
    if (machine_.races != nullptr) ++races_.warp_steps[warp];
    meeting_[warp] &= ~group.members;
    for (uint32_t other = 0; other < warp_size; ++other)
      if (group.members >> other & 1) lanes[other].state = Thread::State::ready;
  }
}

// Whether one of these lanes waits for what it loads: the others of the group are held up by it.
bool ThreadBlock::waits(uint32_t warp, uint32_t members) const {
  if (machine_.waited != machine_.changes) return false;
  for (uint32_t lane = 0; lane < warp_size; ++lane)
    if (members >> lane & 1 && looks_[size_t{warp} * warp_size + lane].waits(machine_.changes))
      return true;
  return false;
}

// activemask: its lanes of one warp that stand at the same instruction receive their mask.
void ThreadBlock::resolve_gathered() {
  gathering_ = false;
  for (uint32_t index = 0; index < threads_.size(); ++index) {
    if (threads_[index].state != Thread::State::gather) continue;
    const Instruction *at = threads_[index].pc;
    const uint32_t first = index / warp_size * warp_size;
    const auto end = std::min<uint32_t>(first + warp_size, static_cast<uint32_t>(threads_.size()));
    uint32_t mask = 0;
    const auto gathered = [&](const Thread &thread) {
      return thread.state == Thread::State::gather && thread.pc == at;
    };
    for (uint32_t other = index; other < end; ++other)
      if (gathered(threads_[other])) mask |= 1u << (other - first);
    for (uint32_t other = index; other < end; ++other) {
      Thread &thread = threads_[other];
      if (!gathered(thread)) continue;
      thread.r[at->slot[0]] = mask;
      thread.pc = at + 1;
      thread.state = Thread::State::ready;
    }
  }
}

std::string ThreadBlock::place(uint32_t index, const Instruction *i) const {
  const Code &code = *kernel_.code;
  const Location &where = code.locations[static_cast<size_t>(i - code.instructions.data())];
  const uint32_t x = launch_.block[0], y = launch_.block[1];
  return "kernel " + kernel_.name + ", block " + triple(index_[0], index_[1], index_[2]) +
         ", thread " + triple(index % x, index / x % y, index / x / y) + ", line " +
         std::to_string(where.line) + ": " +
         code.text->substr(where.begin, where.end - where.begin);
}

void ThreadBlock::describe_fault(Report *report) const {
  const Code &code = *kernel_.code;
  report->outcome = machine_.outcome;
  report->address = machine_.address;
  report->line = static_cast<int>(
      code.locations[static_cast<size_t>(machine_.at - code.instructions.data())].line);
  char address[32] = "";
  if (machine_.outcome == Outcome::illegal_address ||
      machine_.outcome == Outcome::misaligned_address)
    std::snprintf(address, sizeof address, " 0x%llx",
                  static_cast<unsigned long long>(machine_.address));
  report->message = machine_.what + std::string(address) + " in " + place(faulting_, machine_.at);
}

void ThreadBlock::describe_deadlock(Report *report) const {
  report->outcome = Outcome::barrier_mismatch;
  uint32_t at_barrier = 0, in_warp = 0;
  const Instruction *first = nullptr;
  uint32_t who = 0;
  for (uint32_t index = 0; index < threads_.size(); ++index) {
    const Thread &thread = threads_[index];
    at_barrier += thread.state == Thread::State::barrier;
    in_warp += thread.state == Thread::State::collective;
    if (first != nullptr || thread.state == Thread::State::exited) continue;
    first = thread.pc - 1;
    who = index;
  }
  if (first == nullptr) return;
  report->line = static_cast<int>(
      kernel_.code->locations[static_cast<size_t>(first - kernel_.code->instructions.data())].line);
  report->message = "no thread can go on: " + std::to_string(at_barrier) + " at barriers, " +
                    std::to_string(in_warp) + " waiting for other lanes of their warp, " +
                    std::to_string(threads_.size() - alive_) + " exited; the first that waits is " +
                    place(who, first);
}

}  // namespace emulator
