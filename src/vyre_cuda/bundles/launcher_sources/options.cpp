// Every word is either understood or refused by name.
#include "options.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "arrays.h"

const char *const HELP =
    "  --kernel NAME      the kernel to run (default: the only one)\n"
    "  --graph NAME       run a graph instead\n"
    "  --device ORDINAL   which CUDA device (default: 0)\n"
    "  --driver PATH      a driver library (default: NVIDIA's); that of the emulator, for example\n"
    "  --grid X[,Y[,Z]]   blocks, instead of the kernel's own rule\n"
    "  --repeats N        timed calls (default: 100)\n"
    "  --save NAME=PATH   write a result, as .npy\n"
    "\n"
    "ARGS are the parameters in declared order without the outs, or NAME=VALUE; those of a graph\n"
    "are its symbols, by name. A scalar is a number. A buffer is a .npy file, another file with\n"
    "the bytes of its elements, or numbers with commas in between, like 1,2,3 or 1, for a single\n"
    "one. An out whose size does not follow from the others is NAME=COUNT, and so may be an array\n"
    "that a graph writes, which then starts as zeros.\n";

namespace {

std::pair<std::string, std::string> split(const std::string &text) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos) throw Usage(text + " is not NAME=PATH");
  return {text.substr(0, at), text.substr(at + 1)};
}

std::array<std::uint32_t, 3> grid_of(const std::string &text) {
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::size_t begin = 0;
  for (std::size_t axis = 0; axis < 3 && begin <= text.size(); axis++) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    grid[axis] = parse_count(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (begin <= text.size()) throw Usage(text + " has more than three axes");
  return grid;
}

// NAME=VALUE, and not a path with such a name in it.
bool is_named(const std::string &word) {
  const std::size_t at = word.find('=');
  return at != std::string::npos && word.find('/') > at;
}

} // namespace

std::uint32_t parse_count(const std::string &text) {
  try {
    return static_cast<std::uint32_t>(parse_number(text, VYC_TYPE_U32));
  } catch (const std::exception &) {
    throw Usage(text + " is not a count");
  }
}

Options parse_options(int count, char **words) {
  Options options;
  for (int i = 1; i < count; i++) {
    const std::string word = words[i];
    const auto value = [&] {
      if (++i == count) throw Usage(word + " needs a value");
      return std::string(words[i]);
    };
    if (word == "--help")
      options.is_help = true;
    else if (word == "--kernel")
      options.kernel = value();
    else if (word == "--graph")
      options.graph = value();
    else if (word == "--driver")
      options.driver = value();
    else if (word == "--device")
      options.device = static_cast<int>(parse_count(value()));
    else if (word == "--repeats")
      options.repeats = parse_count(value());
    else if (word == "--grid")
      options.grid = grid_of(value());
    else if (word == "--save")
      options.saved.insert(split(value()));
    else if (word.compare(0, 2, "--") == 0)
      throw Usage("unknown option " + word);
    else if (is_named(word))
      options.named.insert(split(word));
    else
      options.arguments.push_back(word);
  }
  return options;
}
