// Arrays of the types that kernels take: from files and from the command line, to files and to
// text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>
#include <vyre_cuda.h>

// Elements of one type (VYC_TYPE_...), as the device sees them.
struct Array {
  std::uint32_t type = 0;
  std::vector<unsigned char> bytes;

  std::uint64_t count() const;
};

const char *type_name(std::uint32_t type);
std::size_t type_bytes(std::uint32_t type);

// A .npy file of one dimension or more, in C order, or any other file as the bytes of its elements.
// Throws std::runtime_error when it is not there, of another type, or not understood.
Array read_array(const std::string &path, std::uint32_t type);
// As a .npy file of one dimension; bf16, which NumPy does not have, as its bits.
void write_array(const std::string &path, const Array &array);

// The bits of a number in the lowest bytes, rounded to the type; throws when it is none.
std::uint64_t parse_number(const std::string &text, std::uint32_t type);
// Numbers with commas in between.
Array parse_array(const std::string &text, std::uint32_t type);
// The first elements, for people.
std::string to_text(const Array &array, std::size_t most);
