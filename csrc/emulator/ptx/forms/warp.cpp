// Warp-synchronous instructions (PTX ISA 9.7.9.6 shfl.sync, 9.7.12.9 vote, match, redux,
// activemask, bar.warp.sync). A handler stops the lane; once all lanes of the mask that have not
// exited have come to the same operation, its collective runs for all of them.
#include <algorithm>

#include "forms.h"

namespace emulator {
namespace {

uint32_t operand_slot(const Instruction *i, int k) {
  return k < 5 ? i->slot[k] : static_cast<uint32_t>(i->offset);
}

// `Mask` is the index of the operand with the member mask.
template <Collective F, int Mask>
const Instruction *run_collective(const Instruction *i, uint64_t *r, Machine &m) {
  const auto mask = static_cast<uint32_t>(r[operand_slot(i, Mask)]);
  if (!(mask >> r[slot_laneid] & 1))
    return m.fault(i, Outcome::illegal_instruction, 0, "member mask lacks the thread itself");
  m.mask = mask;
  m.collective = F;
  return m.halt(Stop::collective, i);
}

template <class F>
void each_member(const Group &g, F f) {
  for (uint32_t lane = 0; lane < Group::lanes; ++lane)
    if (g.members >> lane & 1) f(lane);
}

uint64_t operand(const Group &g, uint32_t lane, int k) {
  return g.r[lane][operand_slot(g.instruction[lane], k)];
}

void set(Group &g, uint32_t lane, int k, uint64_t value) {
  g.r[lane][operand_slot(g.instruction[lane], k)] = value;
}

void synchronize(Group &) {}

enum class Shuffle { idx, up, down, bfly };

// shfl d|p, a, b, c, mask. A source lane outside the group gives the lane's own value.
template <Shuffle Mode>
void shuffle(Group &g) {
  uint64_t given[Group::lanes] = {};
  each_member(g, [&](uint32_t lane) { given[lane] = operand(g, lane, 2); });
  each_member(g, [&](uint32_t lane) {
    const auto b = static_cast<int32_t>(operand(g, lane, 3) & 31);
    const uint64_t c = operand(g, lane, 4);
    const auto clamp = static_cast<int32_t>(c & 31), segment = static_cast<int32_t>(c >> 8 & 31);
    const auto own = static_cast<int32_t>(lane);
    const int32_t last = (own & segment) | (clamp & ~segment & 31), first = own & segment;
    int32_t from = own;
    bool inside = false;
    switch (Mode) {
    case Shuffle::idx: from = first | (b & ~segment & 31), inside = from <= last; break;
    case Shuffle::up: from = own - b, inside = from >= last; break;
    case Shuffle::down: from = own + b, inside = from <= last; break;
    case Shuffle::bfly: from = own ^ b, inside = from <= last; break;
    }
    if (!inside || !(g.members >> from & 1)) from = own;
    set(g, lane, 1, inside);
    set(g, lane, 0, given[from]);
  });
}

uint32_t ballot(const Group &g) {
  uint32_t votes = 0;
  each_member(g, [&](uint32_t lane) { votes |= uint32_t(operand(g, lane, 1) != 0) << lane; });
  return votes;
}

void vote_ballot(Group &g) {
  const uint32_t votes = ballot(g);
  each_member(g, [&](uint32_t lane) { set(g, lane, 0, votes); });
}
void vote_all(Group &g) {
  const bool all = ballot(g) == g.members;
  each_member(g, [&](uint32_t lane) { set(g, lane, 0, all); });
}
void vote_any(Group &g) {
  const bool any = ballot(g) != 0;
  each_member(g, [&](uint32_t lane) { set(g, lane, 0, any); });
}
void vote_uni(Group &g) {
  const uint32_t votes = ballot(g);
  each_member(g, [&](uint32_t lane) { set(g, lane, 0, votes == 0 || votes == g.members); });
}

// Lanes whose operand k equals that of `lane`.
uint32_t equal_lanes(const Group &g, uint32_t lane, int k) {
  uint32_t equal = 0;
  each_member(g, [&](uint32_t other) {
    equal |= uint32_t(operand(g, other, k) == operand(g, lane, k)) << other;
  });
  return equal;
}

// Each value is compared with the others once, and its lanes then get the same mask.
void match_any(Group &g) {
  uint64_t given[Group::lanes] = {};
  each_member(g, [&](uint32_t lane) { given[lane] = operand(g, lane, 1); });
  for (uint32_t rest = g.members; rest != 0;) {
    const uint64_t value = given[__builtin_ctz(rest)];
    uint32_t equal = 0;
    for (uint32_t other = 0; other < Group::lanes; ++other)
      equal |= uint32_t(given[other] == value) << other;
    equal &= g.members;
    for (uint32_t left = equal; left != 0; left &= left - 1)
      set(g, static_cast<uint32_t>(__builtin_ctz(left)), 0, equal);
    rest &= ~equal;
  }
}
void match_all(Group &g) {
  const uint32_t lane0 = static_cast<uint32_t>(__builtin_ctz(g.members));
  const bool all = equal_lanes(g, lane0, 2) == g.members;
  each_member(g, [&](uint32_t lane) {
    set(g, lane, 1, all);
    set(g, lane, 0, all ? g.members : 0);
  });
}

template <class T>
struct Sum {
  static T apply(T a, T b) { return static_cast<T>(uint32_t(a) + uint32_t(b)); }
};
template <class T>
struct Min {
  static T apply(T a, T b) { return std::min(a, b); }
};
template <class T>
struct Max {
  static T apply(T a, T b) { return std::max(a, b); }
};
template <class T>
struct And {
  static T apply(T a, T b) { return a & b; }
};
template <class T>
struct Or {
  static T apply(T a, T b) { return a | b; }
};
template <class T>
struct Xor {
  static T apply(T a, T b) { return a ^ b; }
};

template <template <class> class Op, class T>
void reduce(Group &g) {
  T total{};
  bool first = true;
  each_member(g, [&](uint32_t lane) {
    const T value = get<T>(operand(g, lane, 1));
    total = first ? value : Op<T>::apply(total, value);
    first = false;
  });
  each_member(g, [&](uint32_t lane) { set(g, lane, 0, put<T>(total)); });
}

template <template <class> class Op, class T>
void add_reduction(Forms &f, const std::string &op, char kind = 0) {
  const std::string t = type_name<T>(kind);
  Form &form = f.add("redux.sync." + op + "." + t, "=" + t + " " + t + " u32",
                     &run_collective<&reduce<Op, T>, 2>);
  form.min_target = 80;
  form.min_version = 70;
}

// Which lanes of a warp run together after they have parted is the hardware's choice; here it is
// all that come to the instruction in one turn. A warp that never parted is whole.
const Instruction *run_activemask(const Instruction *i, uint64_t *, Machine &m) {
  return m.halt(Stop::gather, i);
}

}  // namespace

void add_warp_forms(Forms &f) {
  f.add("bar.warp.sync", "u32", &run_collective<&synchronize, 0>);
  f.add("activemask.b32", "=b32", &run_activemask);
  const char *shape = "=b32|p b32 u32 u32 u32";
  f.add("shfl.sync.idx.b32", shape, &run_collective<&shuffle<Shuffle::idx>, 5>);
  f.add("shfl.sync.up.b32", shape, &run_collective<&shuffle<Shuffle::up>, 5>);
  f.add("shfl.sync.down.b32", shape, &run_collective<&shuffle<Shuffle::down>, 5>);
  f.add("shfl.sync.bfly.b32", shape, &run_collective<&shuffle<Shuffle::bfly>, 5>);
  f.add("vote.sync.all.pred", "=p !p u32", &run_collective<&vote_all, 2>);
  f.add("vote.sync.any.pred", "=p !p u32", &run_collective<&vote_any, 2>);
  f.add("vote.sync.uni.pred", "=p !p u32", &run_collective<&vote_uni, 2>);
  f.add("vote.sync.ballot.b32", "=b32 !p u32", &run_collective<&vote_ballot, 2>);
  for (const char *t : {"b32", "b64"}) {
    const std::string type = t;
    f.add("match.any.sync." + type, "=b32 " + type + " u32", &run_collective<&match_any, 2>);
    f.add("match.all.sync." + type, "=b32|p " + type + " u32", &run_collective<&match_all, 3>);
  }
  add_reduction<Sum, uint32_t>(f, "add");
  add_reduction<Sum, int32_t>(f, "add");
  add_reduction<Min, uint32_t>(f, "min");
  add_reduction<Min, int32_t>(f, "min");
  add_reduction<Max, uint32_t>(f, "max");
  add_reduction<Max, int32_t>(f, "max");
  add_reduction<And, uint32_t>(f, "and", 'b');
  add_reduction<Or, uint32_t>(f, "or", 'b');
  add_reduction<Xor, uint32_t>(f, "xor", 'b');
}

}  // namespace emulator
