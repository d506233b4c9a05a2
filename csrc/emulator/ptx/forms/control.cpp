// Control flow (PTX ISA 9.7.13), guards and memory fences (9.7.12.3).
#include <atomic>

#include "forms.h"

namespace emulator {
namespace {

const Instruction *run_branch(const Instruction *i, uint64_t *, Machine &) { return i + i->offset; }

const Instruction *run_trap(const Instruction *i, uint64_t *, Machine &m) {
  return m.fault(i, Outcome::trap, 0, "trap");
}

// Gives the rest of the thread's time slice to the others.
const Instruction *run_nanosleep(const Instruction *i, uint64_t *, Machine &m) {
  m.waited = m.changes;
  return m.halt(Stop::yield, i + 1);
}

#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer does not know fences; a read-modify-write of one word orders as much on x86.
void fence(std::memory_order order) {
  static std::atomic<int> word;
  word.fetch_add(0, order == std::memory_order_acquire ? std::memory_order_acq_rel : order);
}
#else
void fence(std::memory_order order) { std::atomic_thread_fence(order); }
#endif

const Instruction *run_fence(const Instruction *i, uint64_t *, Machine &) {
  fence(std::memory_order_seq_cst);
  return i + 1;
}

}  // namespace

// Stands before a load with an order, at the same address.
const Instruction *run_look(const Instruction *i, uint64_t *r, Machine &m) {
  const uint64_t address = r[i->slot[0]] + static_cast<uint64_t>(int64_t{i->offset});
  if (!m.looks[r[slot_warpid] * Group::lanes + r[slot_laneid]].add(address, m.changes))
    return i + 1;
  m.waited = m.changes;
  return m.halt(Stop::yield, i + 1);
}

const Instruction *run_fence_acquire(const Instruction *i, uint64_t *, Machine &) {
  fence(std::memory_order_acquire);
  return i + 1;
}

const Instruction *run_fence_release(const Instruction *i, uint64_t *, Machine &) {
  fence(std::memory_order_release);
  return i + 1;
}

const Instruction *run_exit(const Instruction *i, uint64_t *, Machine &m) {
  return m.halt(Stop::exited, i);
}

// A guard stands before the instructions of one guarded statement: it runs the first of them
// itself, so that both count as one, or jumps over all of them.
const Instruction *run_guard_true(const Instruction *i, uint64_t *r, Machine &m) {
  return r[i->slot[0]] ? (i + 1)->run(i + 1, r, m) : i + i->offset;
}

const Instruction *run_guard_false(const Instruction *i, uint64_t *r, Machine &m) {
  return r[i->slot[0]] ? i + i->offset : (i + 1)->run(i + 1, r, m);
}

const Instruction *run_branch_if(const Instruction *i, uint64_t *r, Machine &) {
  return r[i->slot[0]] ? i + i->offset : i + 1;
}

const Instruction *run_branch_unless(const Instruction *i, uint64_t *r, Machine &) {
  return r[i->slot[0]] ? i + 1 : i + i->offset;
}

void add_control_forms(Forms &f) {
  f.add("bra", "label", &run_branch).flow = Flow::branch;
  f.add("bra.uni", "label", &run_branch).flow = Flow::branch;
  f.add("ret", "", &run_exit).flow = Flow::end;
  f.add("ret.uni", "", &run_exit).flow = Flow::end;
  f.add("exit", "", &run_exit).flow = Flow::end;
  f.add("trap", "", &run_trap).flow = Flow::end;
  f.add("nanosleep.u32", "u32", &run_nanosleep);
  for (const char *scope : {".cta", ".gl", ".sys"})
    f.add(std::string("membar") + scope, "", &run_fence);
  for (const char *scope : {".cta", ".gpu", ".sys"})
    for (const char *order : {"", ".sc", ".acq_rel"})
      f.add(std::string("fence") + order + scope, "", &run_fence);
}

}  // namespace emulator
