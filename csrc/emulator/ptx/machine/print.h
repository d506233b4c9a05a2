// vprintf of a kernel: slot 0 has the generic address of the format, slot 1 that of the values in
// local memory, each where a C struct would have it; slot 2 receives how many were printed.
#pragma once

#include "emulator/ptx/machine.h"

namespace emulator {

const Instruction *run_print(const Instruction *i, uint64_t *r, Machine &m);

}  // namespace emulator
