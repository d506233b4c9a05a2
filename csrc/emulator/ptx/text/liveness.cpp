// Register allocation: where each virtual register is live, which slot it takes, how many 32-bit
// registers are live at once. Liveness is exact on the flow graph and then widened to one interval
// of instructions; registers share a slot only when their intervals are disjoint. A guarded
// definition does not end the life of the value before it.
#include <algorithm>
#include <queue>

#include "kernel.h"

namespace emulator {
namespace {

struct Blocks {
  std::vector<uint32_t> of;                   // block of each draft
  std::vector<uint32_t> begin, end;           // drafts of each block
  std::vector<std::vector<uint32_t>> before;  // predecessors
};

bool falls_through(const Draft &draft) { return draft.flow == Flow::next || draft.guarded; }

Blocks find_blocks(const std::vector<Draft> &drafts) {
  const size_t count = drafts.size();
  std::vector<bool> leader(count + 1, false);
  leader[0] = true;
  for (size_t k = 0; k < count; ++k) {
    if (drafts[k].flow == Flow::next) continue;
    leader[k + 1] = true;
    if (drafts[k].flow == Flow::branch)
      leader[static_cast<size_t>(static_cast<int64_t>(k) + drafts[k].instruction.offset)] = true;
  }
  Blocks blocks;
  blocks.of.resize(count);
  for (uint32_t k = 0; k < count; ++k) {
    if (leader[k]) {
      blocks.begin.push_back(k);
      blocks.end.push_back(k);
    }
    blocks.end.back() = k;
    blocks.of[k] = static_cast<uint32_t>(blocks.begin.size() - 1);
  }
  blocks.before.resize(blocks.begin.size());
  for (uint32_t b = 0; b < blocks.begin.size(); ++b) {
    const uint32_t last = blocks.end[b];
    if (drafts[last].flow == Flow::branch) {
      const auto target = static_cast<size_t>(int64_t{last} + drafts[last].instruction.offset);
      blocks.before[blocks.of[target]].push_back(b);
    }
    if (falls_through(drafts[last]) && last + 1 < count) blocks.before[b + 1].push_back(b);
  }
  return blocks;
}

struct Occurrence {
  uint32_t at;
  bool use, kill;
};

struct Interval {
  uint32_t reg, begin, end;
};

std::vector<std::vector<Occurrence>> find_occurrences(std::vector<Draft> &drafts,
                                                      size_t registers) {
  std::vector<std::vector<Occurrence>> list(registers);
  for (uint32_t at = 0; at < drafts.size(); ++at) {
    Draft &draft = drafts[at];
    for (int k = 0; k < 6; ++k) {
      if (!((draft.uses | draft.definitions) >> k & 1)) continue;
      const uint32_t slot = draft.slot(k);
      if ((slot & slot_kind_mask) != register_kind) continue;
      std::vector<Occurrence> &own = list[slot & ~slot_kind_mask];
      if (own.empty() || own.back().at != at) own.push_back({at, false, false});
      if (draft.uses >> k & 1) own.back().use = true;
      if (draft.definitions >> k & 1 && !draft.guarded) own.back().kill = true;
      if (draft.definitions >> k & 1 && draft.guarded) own.back().use = true;
    }
  }
  return list;
}

// Marks the blocks where a register is live on entry, walking backward from its uses.
class Walker {
 public:
  explicit Walker(const Blocks &blocks)
      : blocks_(blocks), entered_(blocks.begin.size(), 0), kills_(blocks.begin.size(), 0) {}

  Interval interval(uint32_t reg, const std::vector<Occurrence> &own) {
    Interval result{reg, own.front().at, own.back().at};
    const uint32_t mark = ++mark_;
    std::vector<uint32_t> todo;
    const auto enter = [&](uint32_t block) {
      if (entered_[block] == mark) return;
      entered_[block] = mark;
      todo.push_back(block);
    };
    for (size_t k = 0; k < own.size(); ++k) {
      const uint32_t block = blocks_.of[own[k].at];
      const bool first = k == 0 || blocks_.of[own[k - 1].at] != block;
      if (first) killed_before_ = false;
      if (own[k].use && !killed_before_) enter(block);
      if (own[k].kill) kills_[block] = mark, killed_before_ = true;
    }
    while (!todo.empty()) {
      const uint32_t block = todo.back();
      todo.pop_back();
      result.begin = std::min(result.begin, blocks_.begin[block]);
      for (const uint32_t previous : blocks_.before[block]) {
        result.begin = std::min(result.begin, blocks_.end[previous]);
        result.end = std::max(result.end, blocks_.end[previous]);
        if (kills_[previous] != mark) enter(previous);
      }
    }
    return result;
  }

 private:
  const Blocks &blocks_;
  std::vector<uint32_t> entered_, kills_;
  uint32_t mark_ = 0;
  bool killed_before_ = false;
};

// The most 32-bit registers live at once; predicates have their own file.
uint32_t pressure(const std::vector<Interval> &intervals, const std::vector<Type> &types,
                  size_t drafts) {
  std::vector<int32_t> change(drafts + 2, 0);
  for (const Interval &interval : intervals) {
    const Type type = types[interval.reg];
    const int32_t weight = type.kind == 'p' ? 0 : type.bits == 64 ? 2 : 1;
    change[interval.begin] += weight;
    change[interval.end + 1] -= weight;
  }
  int32_t live = 0, most = 0;
  for (const int32_t step : change) most = std::max(most, live += step);
  return static_cast<uint32_t>(most);
}

}  // namespace

Allocation allocate(std::vector<Draft> &drafts, const std::vector<Type> &registers) {
  const Blocks blocks = find_blocks(drafts);
  const auto occurrences = find_occurrences(drafts, registers.size());
  Walker walker(blocks);
  std::vector<Interval> intervals;
  for (uint32_t reg = 0; reg < registers.size(); ++reg)
    if (!occurrences[reg].empty()) intervals.push_back(walker.interval(reg, occurrences[reg]));
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval &a, const Interval &b) { return a.begin < b.begin; });

  Allocation result;
  result.slot.resize(registers.size(), 0);
  std::vector<uint32_t> unused;
  using Ending = std::pair<uint32_t, uint32_t>;  // end, slot
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> live;
  for (const Interval &interval : intervals) {
    while (!live.empty() && live.top().first < interval.begin) {
      unused.push_back(live.top().second);
      live.pop();
    }
    if (unused.empty()) unused.push_back(result.slots++);
    result.slot[interval.reg] = unused.back();
    live.emplace(interval.end, unused.back());
    unused.pop_back();
  }
  // The machine itself needs a few: addresses, the stack pointer of an unspilled frame.
  result.registers =
      std::min<uint32_t>(255, std::max<uint32_t>(8, pressure(intervals, registers, drafts.size())));
  return result;
}

}  // namespace emulator
