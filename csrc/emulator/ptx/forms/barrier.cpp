// Block barriers (PTX ISA 9.7.12.1): a handler says which barrier the thread has come to; the
// scheduler in machine/block.cpp decides when it opens.
#include "forms.h"

namespace emulator {
namespace {

using Reduce = Arrival::Reduce;

const Instruction *arrive(const Instruction *i, Machine &m, const Arrival &arrival) {
  if (arrival.id > 15) return m.fault(i, Outcome::illegal_instruction, 0, "barrier id above 15");
  if (arrival.threads % 32 != 0)
    return m.fault(i, Outcome::illegal_instruction, 0,
                   "barrier thread count is not a multiple of 32");
  m.arrival = arrival;
  return m.halt(Stop::barrier, i);
}

// slots: id, threads (zero: all)
template <bool Wait, bool Aligned>
const Instruction *run_barrier(const Instruction *i, uint64_t *r, Machine &m) {
  Arrival arrival;
  arrival.id = static_cast<uint32_t>(r[i->slot[0]]);
  arrival.threads = static_cast<uint32_t>(r[i->slot[1]]);
  arrival.wait = Wait;
  arrival.aligned = Aligned;
  return arrive(i, m, arrival);
}

// slots: result, id, predicate; or with a thread count: result, id, threads, predicate
template <Reduce Op, bool Aligned, bool Counted>
const Instruction *run_reduction(const Instruction *i, uint64_t *r, Machine &m) {
  Arrival arrival;
  arrival.id = static_cast<uint32_t>(r[i->slot[1]]);
  arrival.threads = Counted ? static_cast<uint32_t>(r[i->slot[2]]) : 0;
  arrival.aligned = Aligned;
  arrival.reduce = Op;
  arrival.value = r[i->slot[Counted ? 3 : 2]] != 0;
  arrival.result_slot = i->slot[0];
  return arrive(i, m, arrival);
}

template <Reduce Op, bool Aligned>
void add_reduction(Forms &f, const std::string &name, const std::string &result) {
  f.add(name, result + " u32 !p", &run_reduction<Op, Aligned, false>);
  f.add(name, result + " u32 u32 !p", &run_reduction<Op, Aligned, true>);
}

// `name` with everything before and after the action.
template <bool Aligned>
void add_spelling(Forms &f, const std::string &name, const std::string &end) {
  f.add(name + ".sync" + end, "u32 ?u32", &run_barrier<true, Aligned>);
  f.add(name + ".arrive" + end, "u32 u32", &run_barrier<false, Aligned>);
  add_reduction<Reduce::popc, Aligned>(f, name + ".red.popc" + end + ".u32", "=u32");
  add_reduction<Reduce::all, Aligned>(f, name + ".red.and" + end + ".pred", "=p");
  add_reduction<Reduce::any, Aligned>(f, name + ".red.or" + end + ".pred", "=p");
}

}  // namespace

void add_barrier_forms(Forms &f) {
  add_spelling<true>(f, "bar", "");
  add_spelling<true>(f, "bar.cta", "");
  add_spelling<false>(f, "barrier", "");
  add_spelling<false>(f, "barrier.cta", "");
  add_spelling<true>(f, "barrier", ".aligned");
  add_spelling<true>(f, "barrier.cta", ".aligned");
}

}  // namespace emulator
