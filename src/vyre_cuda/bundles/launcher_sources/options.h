// The command line of the program.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

// What is asked for is not there or does not fit.
struct Usage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  std::string kernel, graph, driver;
  int device = 0;
  std::array<std::uint32_t, 3> grid{};
  unsigned repeats = 100;
  bool is_help = false;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> named, saved; // NAME=VALUE, NAME=PATH
};

extern const char *const HELP;

Options parse_options(int count, char **words);
std::uint32_t parse_count(const std::string &text);
