// The buffer of printed lines: filled by threads of streams, shown by threads that wait.
#include "print.h"

#include <cstdio>

namespace emulator {

void PrintBuffer::print(std::string text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  bytes_ += text.size() + overhead;
  lines_.push_back(std::move(text));
  for (; bytes_ > room; lines_.pop_front()) bytes_ -= lines_.front().size() + overhead;
}

void PrintBuffer::show() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (lines_.empty()) return;
  for (const std::string &line : lines_) std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
  lines_.clear();
  bytes_ = 0;
}

}  // namespace emulator
