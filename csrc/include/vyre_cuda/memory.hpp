// Device memory and page-locked memory.
// Part of vyre_cuda.hpp, whose head has the rules.
#ifndef VYRE_CUDA_MEMORY_HPP
#define VYRE_CUDA_MEMORY_HPP

#include "device.hpp"
#include "view.hpp"

namespace vyre {

// Bytes of device memory.
class Buffer : public Handle<vyc_buffer> {
 public:
  using Handle::Handle;

  static Result<Buffer> try_alloc(const Context &context, std::uint64_t bytes) noexcept {
    return detail::make<Buffer>(vyc_buffer_alloc, context.get(), bytes);
  }
#if VYRE_EXCEPTIONS
  static Buffer alloc(const Context &context, std::uint64_t bytes) {
    return try_alloc(context, bytes).value();
  }
#endif
};

// Bytes of page-locked memory.
class Pinned : public Handle<vyc_pinned> {
 public:
  using Handle::Handle;

  static Result<Pinned> try_alloc(const Context &context, std::uint64_t bytes) noexcept {
    return detail::make<Pinned>(vyc_pinned_alloc, context.get(), bytes);
  }
  // Page-locks memory of the caller's, until this is released.
  static Result<Pinned> try_register(const Context &context, void *data,
                                     std::uint64_t bytes) noexcept {
    return detail::make<Pinned>(vyc_pinned_register, context.get(), data, bytes);
  }
  // The address of the memory, or a status.
  vyc_status locate(void *&data) const noexcept { return vyc_pinned_data(get(), &data); }
#if VYRE_EXCEPTIONS
  static Pinned alloc(const Context &context, std::uint64_t bytes) {
    return try_alloc(context, bytes).value();
  }
  static Pinned register_memory(const Context &context, void *data, std::uint64_t bytes) {
    return try_register(context, data, bytes).value();
  }
  void *data() const {
    void *found = nullptr;
    check(locate(found));
    return found;
  }
#endif
};

namespace detail {

// The bytes of `count` elements, or all ones, which no allocation can have.
template <class T>
std::uint64_t bytes_of(std::size_t count) noexcept {
  return count > SIZE_MAX / sizeof(T) ? UINT64_MAX : std::uint64_t{count} * sizeof(T);
}

VYRE_COLD inline Failure outside(const char *operation) noexcept {
  return Failure::of(VYC_E_INVALID, operation, "the range is not within the array");
}

} // namespace detail

// Elements in device memory.
template <class T>
class Array {
 public:
  Array() noexcept = default;
  Array(Buffer &&buffer, std::size_t count) noexcept : buffer_(std::move(buffer)), count_(count) {}

  // The contents are unspecified.
  static Result<Array> try_alloc(const Context &context, std::size_t count) noexcept {
    Result<Buffer> buffer = Buffer::try_alloc(context, detail::bytes_of<T>(count));
    if (!buffer) return std::move(buffer).failure();
    return Array(std::move(*buffer), count);
  }
  // With a copy of these elements.
  static Result<Array> try_copy_of(const Context &context, View<const T> values) noexcept {
    Result<Array> made = try_alloc(context, values.size());
    if (!made) return made;
    if (Result<void> copied = made->try_copy_in(values); !copied)
      return std::move(copied).failure();
    return made;
  }
  // vyc_copy_in and vyc_copy_out, of the elements from `first` on, in call order.
  Result<void> try_copy_in(View<const T> values, std::size_t first = 0) const noexcept {
    if (!has(first, values.size())) return detail::outside("vyre::Array::copy_in");
    return try_check(vyc_copy_in(buffer_.get(), first * sizeof(T), values.data(), bytes(values)));
  }
  Result<void> try_copy_out(View<T> values, std::size_t first = 0) const noexcept {
    if (!has(first, values.size())) return detail::outside("vyre::Array::copy_out");
    return try_check(vyc_copy_out(buffer_.get(), first * sizeof(T), values.data(), bytes(values)));
  }
  Result<void> try_fill_zero() const noexcept {
    return try_check(vyc_fill_zero(buffer_.get(), 0, count_ * sizeof(T)));
  }
#if VYRE_EXCEPTIONS
  static Array alloc(const Context &context, std::size_t count) {
    return try_alloc(context, count).value();
  }
  static Array copy_of(const Context &context, View<const T> values) {
    return try_copy_of(context, values).value();
  }
  void copy_in(View<const T> values, std::size_t first = 0) const {
    try_copy_in(values, first).value();
  }
  void copy_out(View<T> values, std::size_t first = 0) const {
    try_copy_out(values, first).value();
  }
  void fill_zero() const { try_fill_zero().value(); }
#endif

  const Buffer &buffer() const noexcept { return buffer_; }
  std::size_t size() const noexcept { return count_; }
  DeviceView<T> view() const noexcept { return {buffer_.get(), 0, Extents<1>{{count_}}}; }
  operator DeviceView<T>() const noexcept { return view(); }
  operator DeviceView<const T>() const noexcept { return view(); }
  // The same elements with several axes; the product of the extents is what a kernel takes for its
  // size, and more than the array has is refused there.
  template <class... E>
  DeviceView<T, sizeof...(E)> shaped(E... extents) const noexcept {
    return {buffer_.get(), 0, Extents<sizeof...(E)>{{static_cast<std::size_t>(extents)...}}};
  }

 private:
  bool has(std::size_t first, std::size_t count) const noexcept {
    return first <= count_ && count <= count_ - first;
  }
  template <class U>
  static std::uint64_t bytes(View<U> values) noexcept {
    return values.size() * sizeof(T);
  }

  Buffer buffer_{};
  std::size_t count_ = 0;
};

// Elements in page-locked memory, for the host to use like an array.
template <class T>
class PinnedArray {
 public:
  PinnedArray() noexcept = default;

  static Result<PinnedArray> try_alloc(const Context &context, std::size_t count) noexcept {
    Result<Pinned> pinned = Pinned::try_alloc(context, detail::bytes_of<T>(count));
    if (!pinned) return std::move(pinned).failure();
    void *data = nullptr;
    if (const vyc_status status = pinned->locate(data); status != VYC_OK)
      return Failure::of(status, detail::Nowhere{});
    return PinnedArray(std::move(*pinned), static_cast<T *>(data), count);
  }
#if VYRE_EXCEPTIONS
  static PinnedArray alloc(const Context &context, std::size_t count) {
    return try_alloc(context, count).value();
  }
#endif

  const Pinned &pinned() const noexcept { return pinned_; }
  T *data() const noexcept { return elements_.data(); }
  std::size_t size() const noexcept { return elements_.size(); }
  T *begin() const noexcept { return elements_.begin(); }
  T *end() const noexcept { return elements_.end(); }
  T &operator[](std::size_t index) const noexcept { return elements_[index]; }
  PinnedView<T> view() const noexcept { return {pinned_.get(), data(), elements_.extents()}; }
  operator PinnedView<T>() const noexcept { return view(); }
  operator PinnedView<const T>() const noexcept { return view(); }

 private:
  PinnedArray(Pinned &&pinned, T *data, std::size_t count) noexcept
      : pinned_(std::move(pinned)), elements_(data, count) {}

  Pinned pinned_{};
  View<T> elements_{};
};

// Copies all elements in the order of a stream, without a wait; both must have the same number. The
// page-locked memory may be released at once, but not changed or read before the stream has reached
// the copy.
template <class T>
Result<void> try_copy(const Stream &stream, const Array<T> &to,
                      const PinnedArray<T> &from) noexcept {
  if (to.size() != from.size()) return detail::outside("vyre::copy");
  return try_check(vyc_stream_copy_in(stream.get(), to.buffer().get(), 0, from.pinned().get(), 0,
                                      to.view().bytes()));
}
template <class T>
Result<void> try_copy(const Stream &stream, const PinnedArray<T> &to,
                      const Array<T> &from) noexcept {
  if (to.size() != from.size()) return detail::outside("vyre::copy");
  return try_check(vyc_stream_copy_out(stream.get(), to.pinned().get(), 0, from.buffer().get(), 0,
                                       from.view().bytes()));
}
template <class T>
Result<void> try_copy(const Stream &stream, const Array<T> &to, const Array<T> &from) noexcept {
  if (to.size() != from.size()) return detail::outside("vyre::copy");
  return try_check(vyc_stream_copy(stream.get(), to.buffer().get(), 0, from.buffer().get(), 0,
                                   from.view().bytes()));
}
#if VYRE_EXCEPTIONS
template <class To, class From>
void copy(const Stream &stream, const To &to, const From &from) {
  try_copy(stream, to, from).value();
}
#endif

} // namespace vyre

#endif
