// Typed views of register slots, and how a pure C++ function of typed values becomes a handler.
// get() takes the low bits of a slot as a type; put() keeps the slot zero above the type's width.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "emulator/ptx/machine.h"

namespace emulator {

template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

template <class T>
inline T get(uint64_t slot) {
  if constexpr (std::is_same_v<T, float>)
    return bits_as<float>(static_cast<uint32_t>(slot));
  else if constexpr (std::is_same_v<T, double>)
    return bits_as<double>(slot);
  else
    return static_cast<T>(slot);
}

template <class T>
inline uint64_t put(T value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? 1 : 0;
  else if constexpr (std::is_same_v<T, float>)
    return bits_as<uint32_t>(value);
  else if constexpr (std::is_same_v<T, double>)
    return bits_as<uint64_t>(value);
  else
    return static_cast<uint64_t>(static_cast<std::make_unsigned_t<T>>(value));
}

// PTX name of a C++ type; `kind` 'b' names the untyped bits of the same width.
template <class T>
std::string type_name(char kind = 0) {
  if constexpr (std::is_same_v<T, bool>) {
    return "p";
  } else {
    const char own = std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 's' : 'u';
    return (kind ? kind : own) + std::to_string(sizeof(T) * 8);
  }
}

// What a result of type T is in a register of that many bits.
template <class T, int Bits>
using Register = std::conditional_t<
    std::is_signed_v<T>,
    std::conditional_t<Bits == 16, int16_t, std::conditional_t<Bits == 32, int32_t, int64_t>>,
    std::conditional_t<Bits == 16, uint16_t, std::conditional_t<Bits == 32, uint32_t, uint64_t>>>;

template <auto F, class = decltype(F)>
struct Lift;

// The handler that applies F to slots 1, 2, ... and writes slot 0.
template <auto F, class R, class... A>
struct Lift<F, R (*)(A...)> {
  template <size_t... I>
  static const Instruction *apply(const Instruction *i, uint64_t *r, std::index_sequence<I...>) {
    r[i->slot[0]] = put<R>(F(get<A>(r[i->slot[I + 1]])...));
    return i + 1;
  }
  static const Instruction *run(const Instruction *i, uint64_t *r, Machine &) {
    return apply(i, r, std::index_sequence_for<A...>{});
  }
  static std::string signature(char kind) {
    std::string text = "=" + type_name<R>(kind);
    ((text += " " + type_name<A>(kind)), ...);
    return text;
  }
};

}  // namespace emulator
