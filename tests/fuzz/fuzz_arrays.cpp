// Fuzzing of what a launcher reads: .npy files, files of elements, numbers as text. Each is an
// array or an error that tells in words what is wrong; an array that is written is read back as it
// was.
#include <cstdlib>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "arrays.h"

namespace {

int in_memory(const std::uint8_t *data, std::size_t bytes) {
  const int file = memfd_create("array", 0);
  if (file < 0 || write(file, data, bytes) != static_cast<ssize_t>(bytes)) std::abort();
  return file;
}

// The standard library's own words for a failure tell nobody what is wrong; unless the file has
// them.
void check_words(const std::string &told, const std::string &content) {
  for (const char *word : {"stoull", "basic_string", "vector", "bad_alloc"})
    if (told.find(word) != std::string::npos && content.find(word) == std::string::npos)
      std::abort();
}

void check_round_trip(const Array &array) {
  const int file = in_memory(nullptr, 0);
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  write_array(path, array);
  const Array again = read_array(path, array.type);
  if (again.bytes != array.bytes) std::abort();
  close(file);
}

void read_file(const std::uint8_t *data, std::size_t bytes, std::uint32_t type) {
  const int file = in_memory(data, bytes);
  try {
    const Array array = read_array("/proc/self/fd/" + std::to_string(file), type);
    to_text(array, 8);
    check_round_trip(array);
  } catch (const std::runtime_error &error) {
    check_words(error.what(), std::string(data, data + bytes));
  }
  close(file);
}

void read_numbers(const std::string &text, std::uint32_t type) {
  try {
    const Array array = parse_array(text, type);
    to_text(array, 8);
    parse_number(text, type);
  } catch (const std::runtime_error &) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t bytes);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t bytes) {
  if (bytes < 1) return -1;
  const std::uint32_t type = 1 + (data[0] & 0x7f) % 13;
  if (data[0] < 0x80)
    read_file(data + 1, bytes - 1, type);
  else
    read_numbers(std::string(reinterpret_cast<const char *>(data + 1), bytes - 1), type);
  return 0;
}
