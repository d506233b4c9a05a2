// The parameters of a kernel as types, and the arguments of a call.
// Part of vyre_cuda.hpp, whose head has the rules.
#ifndef VYRE_CUDA_ARGUMENTS_HPP
#define VYRE_CUDA_ARGUMENTS_HPP

#include "loaded.hpp"

namespace vyre {

namespace detail {

// An array of a call. T is const for an in.
template <class T, std::size_t N, std::uint32_t Role>
class ArrayArgument {
 public:
  template <class A, std::enable_if_t<std::is_convertible_v<A, DeviceView<T, N>> ||
                                          std::is_convertible_v<A, PinnedView<T, N>> ||
                                          std::is_convertible_v<A, View<T, N>>,
                                      int> = 0>
  ArrayArgument(A &&array) noexcept {
    if constexpr (std::is_convertible_v<A, DeviceView<T, N>>) {
      const DeviceView<T, N> view(std::forward<A>(array));
      argument.kind = VYC_ARGUMENT_BUFFER;
      argument.buffer = view.buffer();
      argument.offset = view.byte();
      extents = view.extents();
    } else if constexpr (std::is_convertible_v<A, PinnedView<T, N>>) {
      const PinnedView<T, N> view(std::forward<A>(array));
      argument.kind = VYC_ARGUMENT_PINNED;
      argument.pinned = view.pinned();
      set_host(view.data(), view.extents());
    } else {
      const View<T, N> view(std::forward<A>(array));
      argument.kind = VYC_ARGUMENT_HOST;
      set_host(view.data(), view.extents());
    }
    argument.count = extents.count();
  }

  vyc_argument argument{};
  Extents<N> extents{};

 private:
  void set_host(T *data, Extents<N> given) noexcept {
    if constexpr (Role != VYC_ROLE_OUT) argument.data = data;
    if constexpr (Role != VYC_ROLE_IN) argument.result = data;
    extents = given;
  }
};

template <class T, std::size_t N, std::uint32_t Role>
struct ArrayParameter {
  using Argument = ArrayArgument<T, N, Role>;
  static constexpr Declared declared{Role, type_of<std::remove_const_t<T>>(), N};
  static constexpr bool is_array = true;
  static constexpr std::size_t extents = N > 1 ? N : 0;
};

} // namespace detail

// The parameters of vyre::Kernel. N is the number of axes.
template <class T, std::size_t N = 1>
struct In : detail::ArrayParameter<const T, N, VYC_ROLE_IN> {};
template <class T, std::size_t N = 1>
struct InOut : detail::ArrayParameter<T, N, VYC_ROLE_INOUT> {};
template <class T, std::size_t N = 1>
struct Out : detail::ArrayParameter<T, N, VYC_ROLE_OUT> {};
template <class T>
struct Scalar {
  using Argument = T;
  static constexpr detail::Declared declared{VYC_ROLE_SCALAR, detail::type_of<T>(), 0};
  static constexpr bool is_array = false;
  static constexpr std::size_t extents = 0;
};

namespace detail {

template <std::size_t I, class First, class... Rest>
struct NthOf {
  using type = typename NthOf<I - 1, Rest...>::type;
};
template <class First, class... Rest>
struct NthOf<0, First, Rest...> {
  using type = First;
};

// Where and when a call runs. A grid of zeros is what the kernel's work takes.
struct RunOptions {
  vyc_stream *stream = nullptr;
  std::int64_t timeout_ns = -1;
  std::uint32_t grid[3] = {};
};

// The arguments of a call as C takes them: arrays, scalars, and then the extents.
template <class... P>
struct Frame {
  template <std::size_t I>
  using Nth = typename NthOf<I, P...>::type;

  static constexpr std::size_t arrays = (std::size_t{P::is_array} + ... + 0);
  static constexpr std::size_t own_scalars = sizeof...(P) - arrays;
  static constexpr std::size_t scalars = own_scalars + (P::extents + ... + 0);

  vyc_argument argument[arrays + 1] = {};
  std::uint64_t scalar[scalars + 1] = {};

  Frame() noexcept = default;
  template <class... A,
            std::enable_if_t<sizeof...(A) != 0 && sizeof...(A) == sizeof...(P), int> = 0>
  explicit Frame(const A &...given) noexcept {
    put_all(std::index_sequence_for<P...>{}, given...);
  }
  template <std::size_t I>
  void put(const typename Nth<I>::Argument &given) noexcept {
    if constexpr (Nth<I>::is_array) {
      argument[slot(I)] = given.argument;
      for (std::size_t axis = 0; axis < Nth<I>::extents; axis++)
        scalar[extent_slot(I) + axis] = given.extents.of[axis];
    } else {
      scalar[slot(I)] = bits(given);
    }
  }
  // Points into this frame.
  vyc_run run(const RunOptions &options) const noexcept {
    vyc_run made{};
    made.struct_size = sizeof made;
    for (int axis = 0; axis < 3; axis++) made.grid[axis] = options.grid[axis];
    made.argument_count = arrays;
    made.arguments = argument;
    made.scalar_count = scalars;
    made.scalars = scalar;
    made.stream = options.stream;
    made.timeout_ns = options.timeout_ns;
    return made;
  }

 private:
  static constexpr bool is_array[] = {P::is_array...};
  static constexpr std::size_t extents[] = {P::extents...};

  static constexpr std::size_t slot(std::size_t i) noexcept {
    std::size_t before = 0;
    for (std::size_t k = 0; k < i; k++) before += is_array[k] == is_array[i] ? 1 : 0;
    return before;
  }
  static constexpr std::size_t extent_slot(std::size_t i) noexcept {
    std::size_t before = own_scalars;
    for (std::size_t k = 0; k < i; k++) before += extents[k];
    return before;
  }
  template <std::size_t... I>
  void put_all(std::index_sequence<I...>, const typename P::Argument &...given) noexcept {
    (put<I>(given), ...);
  }
};

} // namespace detail

} // namespace vyre

#endif
