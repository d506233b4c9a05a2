// See races/races.h. What of earlier accesses must be kept follows from the order being transitive:
// whatever an access does not conflict with is ordered before it, or atomic like it.
#include "races.h"

#include <cstring>

#include "emulator/ptx/unwritten/unwritten.h"
#include "race_log.h"

namespace emulator {
namespace {

constexpr uint32_t warp_size = Group::lanes;
constexpr uint64_t report_bytes = 32, barrier_bytes = 8;
constexpr uint64_t several = ~uint64_t{0}; // threads
constexpr uint64_t site_mask = 0xfffff; // of the key in a report: thread << 20 | site

bool same_warp(const Access &a, const Access &b) {
  return a.thread / warp_size == b.thread / warp_size;
}

bool conflict_of(const Access &before, const Access &now) {
  if (!before.known || before.orders != now.orders) return false;
  const bool same_block = before.block == now.block;
  if (same_block) {
    if (before.thread == now.thread || before.barriers != now.barriers) return false;
    if (same_warp(before, now) && before.warp_steps != now.warp_steps) return false;
  }
  const bool within = same_block || !(before.block_scope || now.block_scope);
  return !(before.atomic && now.atomic && within);
}

uint64_t parameter(const Launch &launch, int64_t offset) {
  uint64_t value = 0;
  if (offset >= 0) std::memcpy(&value, launch.parameters + offset, sizeof value);
  return value;
}

std::array<uint32_t, 3> place_of(uint32_t linear, const std::array<uint32_t, 3> &extent) {
  return {linear % extent[0], linear / extent[0] % extent[1], linear / extent[0] / extent[1]};
}

} // namespace

const Access *Accesses::conflicting(const Access &access) const {
  for (const Access *before : {&a, &b, &other})
    if (conflict_of(*before, access)) return before;
  return nullptr;
}

void Accesses::add(const Access &access) {
  if (!a.known || a.orders != access.orders) {
    *this = Accesses{access, {}, {}};
  } else if (a.block != access.block) {
    *this = Accesses{access, {}, a};
  } else if (a.barriers != access.barriers) {
    *this = Accesses{access, {}, other};
  } else if (a.thread == access.thread) {
    if (a.atomic || !access.atomic) a = access;
  } else if (!b.known || b.thread == access.thread) {
    if (!b.known || b.atomic || !access.atomic) b = access;
  } else if (same_warp(a, b) && !same_warp(a, access)) {
    b = access;
  } else {
    for (Access *before : {&a, &b}) {
      if (!same_warp(*before, access)) continue;
      if (before->warp_steps == access.warp_steps && (!before->atomic || access.atomic)) continue;
      *before = access;
      return;
    }
  }
}

void BlockRaces::begin(uint32_t block_index, size_t warps) {
  index = block_index;
  barriers = 0;
  grid_barriers = 0;
  warp_steps.assign(warps, 0);
  shared.clear();
}

RaceCheck::RaceCheck(const Kernel &kernel, const Launch &launch)
    : kernel_(kernel), launch_(launch), report_(parameter(launch, kernel.code->races.report)),
      barrier_(parameter(launch, kernel.code->races.barrier)) {}

void RaceCheck::enter(BlockRaces &block, uint32_t thread) {
  block_ = &block;
  thread_ = thread;
}

// Records of the host: no business of the program. A leader's update of the barrier is an arrival.
bool RaceCheck::is_hidden(uint64_t address, const AccessForm &form) {
  if (report_ != 0 && address - report_ < report_bytes) {
    over_ |= form.kind != AccessForm::Kind::load;
    return true;
  }
  if (barrier_ == 0 || address - barrier_ >= barrier_bytes) return false;
  if (form.kind == AccessForm::Kind::update) ++block_->grid_barriers;
  return true;
}

// What this thread released itself orders no other thread.
void RaceCheck::acquire(uint64_t place) {
  const auto found = releases_.find(place);
  if (found == releases_.end() || found->second == (uint64_t{block_->index} << 32 | thread_))
    return;
  ++orders_;
  releases_.clear();
}

void RaceCheck::release(uint64_t place) {
  const uint64_t who = uint64_t{block_->index} << 32 | thread_;
  uint64_t &known = releases_.emplace(place, who).first->second;
  if (known != who) known = several;
}

void RaceCheck::access(size_t instruction, const uint64_t *r) {
  if (over_) return;
  const Code &code = *kernel_.code;
  const AccessForm &form = code.accesses[instruction];
  const Instruction &i = code.instructions[instruction];
  uint64_t address = r[i.slot[form.address_slot]] + static_cast<uint64_t>(int64_t{i.offset});
  const bool shared = form.space == AccessForm::Space::shared ||
                      (form.space == AccessForm::Space::generic && in_shared_window(address));
  if (shared)
    address = static_cast<uint32_t>(address - (in_shared_window(address) ? shared_window : 0));
  if (!shared && is_hidden(address, form)) return;
  const uint64_t place =
      shared ? uint64_t{1} << 63 | uint64_t{block_->index} << 32 | address : address;
  if (form.acquire) acquire(place);
  Access now;
  now.block = block_->index;
  now.thread = thread_;
  now.instruction = static_cast<uint32_t>(instruction);
  now.barriers = block_->barriers;
  now.warp_steps = block_->warp_steps[thread_ / warp_size];
  now.orders = block_->grid_barriers + orders_;
  now.known = true;
  now.atomic = form.atomic;
  now.block_scope = form.block_scope;
  for (uint32_t k = 0; k < form.count && !over_; ++k) {
    const uint64_t value = form.kind == AccessForm::Kind::store ? r[i.slot[k + 1]] : 0;
    touch(shared ? block_->shared : global_, address + uint64_t{k} * form.bytes, form.bytes, form,
          value, now);
    if (over_ && found_ != nullptr) found_->shared = shared;
  }
  if (form.kind == AccessForm::Kind::update && form.bytes == 2)
    touch_swapped_byte(shared, address, form, r[i.slot[2]] ^ r[i.slot[3]], now);
  if (form.release) release(place);
}

// An atomic on one byte is a compare-and-swap of 16 bits, the narrowest that PTX has: the byte is
// the one that it changes.
void RaceCheck::touch_swapped_byte(bool shared, uint64_t address, const AccessForm &form,
                                   uint64_t changed, const Access &now) {
  for (uint32_t k = 0; k < 2 && !over_; ++k) {
    if ((changed >> 8 * k & 0xff) == 0) continue;
    touch(shared ? block_->shared : global_, address + k, 1, form, 0, now);
    if (over_ && found_ != nullptr) found_->shared = shared;
  }
}

void RaceCheck::touch(Shadow &shadow, uint64_t address, uint32_t bytes, const AccessForm &form,
                      uint64_t value, Access now) {
  const uint32_t width = bytes < 4 ? bytes : 4;
  for (uint32_t done = 0; done < bytes; done += width) {
    Cell &cell = shadow[(address + done) << 2 | (width >> 1)];
    const uint64_t mask = (uint64_t{1} << 8 * width) - 1;
    const auto part = static_cast<uint32_t>(value >> 8 * done & mask);
    if (const Access *before = conflict(cell, form, part, now)) {
      found_ = std::make_unique<Found>(Found{*before, now, address, bytes, false});
      over_ = true;
      return;
    }
    keep(cell, form, part, now);
  }
}

const Access *RaceCheck::conflict(Cell &cell, const AccessForm &form, uint32_t value,
                                  const Access &now) {
  const bool load = form.kind == AccessForm::Kind::load;
  const bool plain_store = form.kind == AccessForm::Kind::store && !form.atomic;
  if (const Access *before = cell.updates.conflicting(now)) return before;
  if (!plain_store || value != cell.value)
    if (const Access *before = cell.stores.conflicting(now)) return before;
  return load ? nullptr : cell.loads.conflicting(now);
}

void RaceCheck::keep(Cell &cell, const AccessForm &form, uint32_t value, const Access &now) {
  if (form.kind == AccessForm::Kind::load) return cell.loads.add(now);
  if (form.atomic) return cell.updates.add(now);
  if (value != cell.value) cell.stores = Accesses{};
  cell.value = value;
  cell.stores.add(now);
  cell.loads = Accesses{};
  cell.updates = Accesses{};
}

void RaceCheck::finish(Memory &memory) const {
  if (found_ == nullptr) return;
  const Code &code = *kernel_.code;
  Race race;
  race.address = found_->address;
  race.bytes = found_->bytes;
  race.shared = found_->shared;
  const Access *both[2] = {&found_->first, &found_->second};
  for (size_t k = 0; k < 2; ++k) {
    const Access &access = *both[k];
    race.line[k] = code.locations[access.instruction].line;
    race.block[k] = place_of(access.block, launch_.grid);
    race.thread[k] = place_of(access.thread, launch_.block);
  }
  if (race.shared)
    for (const SharedPlace &place : code.shared_places)
      if (race.address - place.address < place.bytes) race.symbol = place;
  race.parameters.assign(launch_.parameters, launch_.parameters + kernel_.parameter_bytes);

  uint64_t begin = 0, end = 0;
  auto *const words = static_cast<uint64_t *>(memory.resolve(report_, report_bytes, &begin, &end));
  if (words == nullptr) return;
  const auto site = static_cast<uint64_t>(code.races.site);
  const uint64_t key = __atomic_load_n(words, __ATOMIC_ACQUIRE);
  if (key != ~uint64_t{0} && (key & site_mask) == site) return; // of an earlier launch
  const uint64_t threads = uint64_t{launch_.block[0]} * launch_.block[1] * launch_.block[2];
  const uint64_t thread = found_->second.block * threads + found_->second.thread;
  __atomic_store_n(words + 1, remember(std::move(race)), __ATOMIC_RELAXED);
  __atomic_store_n(words, thread << 20 | site, __ATOMIC_RELEASE);
}

const Instruction *run_checked(const Instruction *i, uint64_t *r, Machine &m) {
  const auto index = static_cast<size_t>(i - m.code->instructions.data());
  if (m.races != nullptr) m.races->access(index, r);
  if (m.unwritten != nullptr) m.unwritten->access(index, r);
  return m.code->plain[index](i, r, m);
}

} // namespace emulator
