// Types of elements, and views of memory: of the host, page-locked, and of the device.
// Part of vyre_cuda.hpp, whose head has the rules.
#ifndef VYRE_CUDA_VIEW_HPP
#define VYRE_CUDA_VIEW_HPP

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "../vyre_cuda.h"

namespace vyre {

// The bits of an f16 and of a bf16, for which C++17 has no types.
struct half {
  std::uint16_t bits;
};
struct bfloat16 {
  std::uint16_t bits;
};

namespace detail {

template <class T>
constexpr std::uint32_t type_of() noexcept {
  static_assert(!std::is_same_v<T, long double> && !std::is_same_v<T, char>,
                "a kernel has no such type");
  if constexpr (std::is_same_v<T, bool>)
    return VYC_TYPE_BOOL;
  else if constexpr (std::is_same_v<T, half>)
    return VYC_TYPE_F16;
  else if constexpr (std::is_same_v<T, bfloat16>)
    return VYC_TYPE_BF16;
  else if constexpr (std::is_same_v<T, float>)
    return VYC_TYPE_F32;
  else if constexpr (std::is_same_v<T, double>)
    return VYC_TYPE_F64;
  else {
    static_assert(std::is_integral_v<T>, "a kernel has no such type");
    constexpr std::uint32_t is_signed = std::is_signed_v<T> ? 1 : 0;
    return (sizeof(T) == 1   ? VYC_TYPE_U8
            : sizeof(T) == 2 ? VYC_TYPE_U16
            : sizeof(T) == 4 ? VYC_TYPE_U32
                             : VYC_TYPE_U64) +
           is_signed; // VYC_TYPE_I8 follows VYC_TYPE_U8, and so on
  }
}

inline const char *type_name(std::uint32_t type) noexcept {
  constexpr const char *names[] = {"nothing", "bool", "u8",  "i8",  "u16",  "i16", "u32",
                                   "i32",     "u64",  "i64", "f16", "bf16", "f32", "f64"};
  return type < sizeof names / sizeof *names ? names[type] : "an unknown type";
}

// The bits of a scalar, as vyc_run.scalars has them.
inline std::uint64_t bits(float value) noexcept { return vyc_bits_f32(value); }
inline std::uint64_t bits(double value) noexcept { return vyc_bits_f64(value); }
inline std::uint64_t bits(half value) noexcept { return value.bits; }
inline std::uint64_t bits(bfloat16 value) noexcept { return value.bits; }
template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
std::uint64_t bits(T value) noexcept {
  return static_cast<std::uint64_t>(value);
}

// What C has data() and size() for.
template <class C>
using Pointed = std::remove_pointer_t<decltype(std::declval<C &>().data())>;
template <class T, class C>
using IfContiguous = std::enable_if_t<std::is_convertible_v<Pointed<C> (*)[], T (*)[]> &&
                                          std::is_integral_v<decltype(std::declval<C &>().size())>,
                                      int>;

} // namespace detail

// The number of elements on each axis, the last of which varies fastest.
template <std::size_t N>
struct Extents {
  std::size_t of[N];

  constexpr std::size_t count() const noexcept {
    std::size_t product = 1;
    for (const std::size_t extent : of) product *= extent;
    return product;
  }
};

// Memory of the host, like std::span with N axes. Borrowed.
template <class T, std::size_t N = 1>
class View {
 public:
  constexpr View() noexcept = default;
  template <class... E, std::enable_if_t<sizeof...(E) == N, int> = 0>
  constexpr View(T *data, E... extents) noexcept
      : data_(data), extents_{{static_cast<std::size_t>(extents)...}} {}
  constexpr View(T *data, Extents<N> extents) noexcept : data_(data), extents_(extents) {}
  // std::vector, std::array, std::span and the like, of one axis.
  template <class C, std::size_t M = N, std::enable_if_t<M == 1, int> = 0,
            detail::IfContiguous<T, C> = 0>
  constexpr View(C &&values) noexcept
      : View(values.data(), static_cast<std::size_t>(values.size())) {}
  template <std::size_t M, std::size_t L = N, std::enable_if_t<L == 1, int> = 0>
  constexpr View(T (&values)[M]) noexcept : View(values, M) {}
  View(const View &) noexcept = default;
  View &operator=(const View &) noexcept = default;
  ~View() = default;

  constexpr T *data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return extents_.count(); }
  constexpr const Extents<N> &extents() const noexcept { return extents_; }
  constexpr T *begin() const noexcept { return data_; }
  constexpr T *end() const noexcept { return data_ + size(); }
  constexpr T &operator[](std::size_t index) const noexcept { return data_[index]; }

 private:
  T *data_ = nullptr;
  Extents<N> extents_{};
};

// Page-locked memory, which kernels read and write in place. A run holds it until it has ended.
template <class T, std::size_t N = 1>
class PinnedView {
 public:
  constexpr PinnedView(vyc_pinned *pinned, T *data, Extents<N> extents) noexcept
      : pinned_(pinned), data_(data), extents_(extents) {}
  template <class U, std::enable_if_t<std::is_convertible_v<U (*)[], T (*)[]>, int> = 0>
  constexpr PinnedView(const PinnedView<U, N> &other) noexcept
      : PinnedView(other.pinned(), other.data(), other.extents()) {}
  PinnedView(const PinnedView &) noexcept = default;
  PinnedView &operator=(const PinnedView &) noexcept = default;
  ~PinnedView() = default;

  constexpr vyc_pinned *pinned() const noexcept { return pinned_; }
  constexpr T *data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return extents_.count(); }
  constexpr const Extents<N> &extents() const noexcept { return extents_; }

 private:
  vyc_pinned *pinned_;
  T *data_;
  Extents<N> extents_;
};

// Elements of a buffer. Borrowed; what runs with it holds the buffer.
template <class T, std::size_t N = 1>
class DeviceView {
 public:
  constexpr DeviceView() noexcept = default;
  constexpr DeviceView(vyc_buffer *buffer, std::uint64_t byte, Extents<N> extents) noexcept
      : buffer_(buffer), byte_(byte), extents_(extents) {}
  template <class U, std::enable_if_t<std::is_convertible_v<U (*)[], T (*)[]>, int> = 0>
  constexpr DeviceView(const DeviceView<U, N> &other) noexcept
      : DeviceView(other.buffer(), other.byte(), other.extents()) {}
  DeviceView(const DeviceView &) noexcept = default;
  DeviceView &operator=(const DeviceView &) noexcept = default;
  ~DeviceView() = default;

  constexpr vyc_buffer *buffer() const noexcept { return buffer_; }
  constexpr std::uint64_t byte() const noexcept { return byte_; } // of the first element
  constexpr std::size_t size() const noexcept { return extents_.count(); }
  constexpr const Extents<N> &extents() const noexcept { return extents_; }
  constexpr std::uint64_t bytes() const noexcept { return size() * sizeof(T); }
  // The elements from `first` on. What lies outside of the buffer is refused where it is used.
  constexpr DeviceView<T> part(std::size_t first, std::size_t count) const noexcept {
    return {buffer_, byte_ + first * sizeof(T), Extents<1>{{count}}};
  }

 private:
  vyc_buffer *buffer_ = nullptr;
  std::uint64_t byte_ = 0;
  Extents<N> extents_{};
};

} // namespace vyre

#endif
