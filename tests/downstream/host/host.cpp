// What a host in C++ sees of an error: host DRIVER, which must not be one.
#include <iostream>
#include <string>
#include <vyre_cuda.h>

int main(int count, char **words) {
  if (count != 2) return 2;
  vyc_driver *driver = nullptr;
  vyc_error error{};
  error.struct_size = sizeof error;
  const std::string missing = std::string(words[1]) + ".missing";
  if (vyc_driver_open(&driver, missing.c_str()) != VYC_E_UNAVAILABLE || driver != nullptr) return 3;
  if (vyc_last_error(&error) != VYC_OK || error.status != VYC_E_UNAVAILABLE) return 4;
  if (std::string(error.message).find(missing) == std::string::npos) return 5;
  std::cout << vyc_version() << '\n';
}
