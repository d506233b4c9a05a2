// The table of instruction forms: built once, on first use, from the families in forms/*.cpp.
#include "forms.h"

namespace emulator {

const Forms &forms() {
  static const Forms table = [] {
    Forms f;
    add_integer_forms(f);
    add_carry_forms(f);
    add_bit_forms(f);
    add_compare_forms(f);
    add_float_forms(f);
    add_convert_forms(f);
    add_half_forms(f);
    add_half_convert_forms(f);
    add_move_forms(f);
    add_memory_forms(f);
    add_atomic_forms(f);
    add_control_forms(f);
    add_barrier_forms(f);
    add_warp_forms(f);
    return f;
  }();
  return table;
}

}  // namespace emulator

extern "C" const char *vyre_emulator_forms(void) {
  static const std::string text = emulator::forms().listing();
  return text.c_str();
}
