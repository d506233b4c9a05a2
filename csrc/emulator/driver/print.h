// What kernels print, until a wait shows it.
//
// The driver keeps it in a buffer of CU_LIMIT_PRINTF_FIFO_SIZE bytes, in which new text replaces
// the oldest, and shows it at certain calls. Of those, only synchronizations and the end of the
// context show it here, so that code that relies on another call is noticed.
#pragma once

#include <deque>
#include <mutex>
#include <string>

#include "emulator/ptx/ptx.h"

namespace emulator {

class PrintBuffer : public Printer {
 public:
  void print(std::string text) override;
  // Writes all of it to the standard output of the process.
  void show();

 private:
  static constexpr size_t room = size_t{1} << 20;  // the driver's default
  static constexpr size_t overhead = 64;  // what a line takes besides its text, or more

  std::mutex mutex_;
  std::deque<std::string> lines_;
  size_t bytes_ = 0;
};

}  // namespace emulator
