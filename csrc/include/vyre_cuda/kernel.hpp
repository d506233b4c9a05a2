// Kernels of a bundle with typed parameters, and bound calls of them.
// Part of vyre_cuda.hpp, whose head has the rules.
#ifndef VYRE_CUDA_KERNEL_HPP
#define VYRE_CUDA_KERNEL_HPP

#include "arguments.hpp"
#include "graph.hpp"

namespace vyre {

// A launch with its arguments bound, in its own graph: vyc_call. It holds the kernel and what it is
// bound to. One thread at a time may use it.
template <class... P>
class BoundCall {
  template <std::size_t I>
  using Nth = typename detail::NthOf<I, P...>::type;
  using Frame = detail::Frame<P...>;

 public:
  // Launch; errors in the kernel are reported by the next wait.
  Result<void> try_run() noexcept {
    const vyc_status status = start();
    if (status == VYC_OK) return {};
    return Failure::of(status, loaded_);
  }
  // Another scalar for all later launches, which the next one hands over.
  template <std::size_t I, std::enable_if_t<!Nth<I>::is_array, int> = 0>
  void set(const typename Nth<I>::Argument &given) noexcept {
    frame_.template put<I>(given);
    is_stale_ = true;
  }
  // Another array for all later launches. If it is refused, the arguments stay as they were.
  template <std::size_t I, std::enable_if_t<Nth<I>::is_array, int> = 0>
  Result<void> try_set(const typename Nth<I>::Argument &given) noexcept {
    Frame changed = frame_;
    changed.template put<I>(given);
    return try_bind(changed);
  }
  // Other arguments for all later launches, all at once.
  Result<void> try_set_all(const typename P::Argument &...given) noexcept {
    return try_bind(Frame(given...));
  }
#if VYRE_EXCEPTIONS
  void operator()() {
    if (const vyc_status status = start(); status != VYC_OK) detail::raise(status, loaded_);
  }
  template <std::size_t I, std::enable_if_t<Nth<I>::is_array, int> = 0>
  void set(const typename Nth<I>::Argument &given) {
    try_set<I>(given).value();
  }
  void set_all(const typename P::Argument &...given) { try_set_all(given...).value(); }
#endif

  vyc_call *get() const noexcept { return call_.get(); }

  // An empty call, to be assigned to; running it is refused.
  BoundCall() noexcept = default;
  VYRE_COLD static Result<BoundCall> try_create(const detail::Loaded &loaded,
                                                const detail::RunOptions &options,
                                                const Frame &frame) noexcept {
    BoundCall made;
    made.loaded_ = loaded;
    made.options_ = options;
    made.frame_ = frame;
    vyc_call *call = nullptr;
    vyc_run run = frame.run(options);
    vyc_status status = vyc_bundled_kernel_resolve(loaded.kernel(), &run);
    if (status == VYC_OK) status = vyc_call_create(&call, loaded.prepared(), &run);
    if (status != VYC_OK) return Failure::of(status, loaded);
    made.call_.reset(call);
    return made;
  }

 private:
  vyc_status start() noexcept { return is_stale_ ? start_changed() : vyc_call_run(call_.get()); }
  vyc_status start_changed() noexcept {
    vyc_run run = frame_.run(options_);
    vyc_status status = vyc_bundled_kernel_resolve(loaded_.kernel(), &run);
    if (status == VYC_OK) status = vyc_call_set_run(call_.get(), &run);
    is_stale_ = status != VYC_OK;
    return status;
  }
  Result<void> try_bind(const Frame &changed) noexcept {
    vyc_run run = changed.run(options_);
    vyc_status status = vyc_bundled_kernel_resolve(loaded_.kernel(), &run);
    if (status == VYC_OK) status = vyc_call_set(call_.get(), &run);
    if (status != VYC_OK) return Failure::of(status, loaded_);
    frame_ = changed;
    is_stale_ = false;
    return {};
  }

  Call call_{};
  bool is_stale_ = false;
  detail::RunOptions options_{};
  Frame frame_{};
  detail::Loaded loaded_{};
};

// A kernel, and where and when it runs. Cheap to make; refers to the kernel.
template <class... P>
class KernelRun {
 public:
  explicit KernelRun(const detail::Loaded &loaded) noexcept : loaded_(&loaded) {}
  KernelRun(const KernelRun &) noexcept = default;
  KernelRun &operator=(const KernelRun &) noexcept = default;
  ~KernelRun() = default;

  // In the order of a stream, instead of call order.
  KernelRun on(const Stream &stream) const noexcept {
    KernelRun made(*this);
    made.options_.stream = stream.get();
    return made;
  }
  // VYC_E_TIMEOUT if a run has not ended by then; it is abandoned, and its results stay as they
  // are.
  KernelRun within(Timeout timeout) const noexcept {
    KernelRun made(*this);
    made.options_.timeout_ns = timeout.ns();
    return made;
  }
  // The number of blocks, for kernels that do not know their work, or for fewer blocks.
  KernelRun grid(std::uint32_t x, std::uint32_t y = 1, std::uint32_t z = 1) const noexcept {
    KernelRun made(*this);
    made.options_.grid[0] = x;
    made.options_.grid[1] = y;
    made.options_.grid[2] = z;
    return made;
  }

  // Results are in place when it returns: vyc_bundled_kernel_run.
  Result<void> try_run(const typename P::Argument &...given) const noexcept {
    const detail::Frame<P...> frame(given...);
    const vyc_run run = frame.run(options_);
    return told(vyc_bundled_kernel_run(loaded_->kernel(), nullptr, &run));
  }
  // Returns when the run has been submitted. Host memory of outs must live until the ticket is
  // finished or released: vyc_bundled_kernel_submit.
  Result<Ticket> try_submit(const typename P::Argument &...given) const noexcept {
    const detail::Frame<P...> frame(given...);
    const vyc_run run = frame.run(options_);
    vyc_ticket *ticket = nullptr;
    const vyc_status status = vyc_bundled_kernel_submit(loaded_->kernel(), &ticket, &run);
    if (status != VYC_OK) return Failure::of(status, *loaded_);
    return Ticket(ticket);
  }
  // On device arrays, without a wait: vyc_bundled_kernel_launch.
  Result<void> try_launch(const typename P::Argument &...given) const noexcept {
    const detail::Frame<P...> frame(given...);
    const vyc_run run = frame.run(options_);
    return told(vyc_bundled_kernel_launch(loaded_->kernel(), &run));
  }
  Result<BoundCall<P...>> try_bind(const typename P::Argument &...given) const noexcept {
    return BoundCall<P...>::try_create(*loaded_, options_, detail::Frame<P...>(given...));
  }
  // A step of a graph, whose number is returned: vyc_graph_add_launch.
  Result<std::uint32_t> try_record(const Graph &graph,
                                   const typename P::Argument &...given) const noexcept {
    const detail::Frame<P...> frame(given...);
    vyc_run run = frame.run(options_);
    std::uint32_t step = 0;
    vyc_status status = vyc_bundled_kernel_resolve(loaded_->kernel(), &run);
    if (status == VYC_OK)
      status = vyc_graph_add_launch(graph.get(), &step, loaded_->prepared(), &run);
    if (status != VYC_OK) return Failure::of(status, *loaded_);
    return Result<std::uint32_t>(std::move(step));
  }
#if VYRE_EXCEPTIONS
  void operator()(const typename P::Argument &...given) const {
    const detail::Frame<P...> frame(given...);
    const vyc_run run = frame.run(options_);
    const vyc_status status = vyc_bundled_kernel_run(loaded_->kernel(), nullptr, &run);
    if (status != VYC_OK) detail::raise(status, *loaded_);
  }
  void launch(const typename P::Argument &...given) const {
    const detail::Frame<P...> frame(given...);
    const vyc_run run = frame.run(options_);
    const vyc_status status = vyc_bundled_kernel_launch(loaded_->kernel(), &run);
    if (status != VYC_OK) detail::raise(status, *loaded_);
  }
  Ticket submit(const typename P::Argument &...given) const { return try_submit(given...).value(); }
  BoundCall<P...> bind(const typename P::Argument &...given) const {
    return try_bind(given...).value();
  }
  std::uint32_t record(const Graph &graph, const typename P::Argument &...given) const {
    return try_record(graph, given...).value();
  }
#endif

 private:
  Result<void> told(vyc_status status) const noexcept {
    if (status == VYC_OK) return {};
    return Failure::of(status, *loaded_);
  }

  const detail::Loaded *loaded_;
  detail::RunOptions options_{};
};

// What Kernel and the classes that `vyre-cuda bundle --cpp` writes have in common. Copies share
// what was loaded; any number of threads may call it.
template <class... P>
class TypedKernel {
 public:
  using Run = KernelRun<P...>;
  using Bound = BoundCall<P...>;

  Run on(const Stream &stream) const noexcept { return run().on(stream); }
  Run within(Timeout timeout) const noexcept { return run().within(timeout); }
  Run grid(std::uint32_t x, std::uint32_t y = 1, std::uint32_t z = 1) const noexcept {
    return run().grid(x, y, z);
  }
  Result<void> try_run(const typename P::Argument &...given) const noexcept {
    return run().try_run(given...);
  }
  Result<Ticket> try_submit(const typename P::Argument &...given) const noexcept {
    return run().try_submit(given...);
  }
  Result<void> try_launch(const Stream &stream,
                          const typename P::Argument &...given) const noexcept {
    return on(stream).try_launch(given...);
  }
  Result<Bound> try_bind(const Stream &stream,
                         const typename P::Argument &...given) const noexcept {
    return on(stream).try_bind(given...);
  }
  Result<std::uint32_t> try_record(const Graph &graph,
                                   const typename P::Argument &...given) const noexcept {
    return run().try_record(graph, given...);
  }
#if VYRE_EXCEPTIONS
  void operator()(const typename P::Argument &...given) const { run()(given...); }
  Ticket submit(const typename P::Argument &...given) const { return run().submit(given...); }
  void launch(const Stream &stream, const typename P::Argument &...given) const {
    on(stream).launch(given...);
  }
  Bound bind(const Stream &stream, const typename P::Argument &...given) const {
    return on(stream).bind(given...);
  }
  std::uint32_t record(const Graph &graph, const typename P::Argument &...given) const {
    return run().record(graph, given...);
  }
#endif

  // Whether an error is a failed check of this kernel; if so, its site is filled in, as a run does.
  bool locate(Error &error) const noexcept {
    if (error.status != VYC_E_ASSERT || error.record.tag != loaded_.tag()) return false;
    error.locate(loaded_);
    return true;
  }
  vyc_bundled_kernel *get() const noexcept { return loaded_.kernel(); }
  vyc_prepared *prepared() const noexcept { return loaded_.prepared(); }
  std::uint64_t tag() const noexcept { return loaded_.tag(); } // in vyc_error.tag

 protected:
  TypedKernel() noexcept = default;
  TypedKernel(const TypedKernel &) noexcept = default;
  TypedKernel(TypedKernel &&) noexcept = default;
  TypedKernel &operator=(const TypedKernel &) noexcept = default;
  TypedKernel &operator=(TypedKernel &&) noexcept = default;
  ~TypedKernel() = default;

  // Compares roles and types with the bundle, and names unless that is NULL; then loads.
  Result<void> try_open(const Context &context, const Bundle &bundle, const char *name,
                        const char *const *names, char *log_out, std::size_t log_bytes) noexcept {
    constexpr detail::Declared declared[] = {P::declared..., detail::Declared{0, 0, 0}};
    Result<void> same = detail::check_parameters(bundle, name, declared, sizeof...(P), names);
    if (!same) return same;
    Result<detail::Loaded> found = detail::Loaded::load(context, bundle, name, log_out, log_bytes);
    if (!found) return std::move(found).failure();
    loaded_ = std::move(*found);
    return {};
  }

 private:
  Run run() const noexcept { return Run(loaded_); }

  detail::Loaded loaded_{};
};

// A kernel of a bundle on a device, with its parameters as types: In, InOut, Out and Scalar, in
// declared order. `names` of the parameters are compared, too, if they are given. The driver's
// compiler writes to log_out, as for vyc_bundled_kernel_load.
template <class... P>
class Kernel final : public TypedKernel<P...> {
 public:
  using Names = const char *const[sizeof...(P) == 0 ? 1 : sizeof...(P)];

  // Empty, to be assigned to; calling it is refused.
  Kernel() noexcept {} // not defaulted: in C++17 that would be an aggregate

  static Result<Kernel> try_load(const Context &context, const Bundle &bundle, const char *name,
                                 char *log_out = nullptr, std::size_t log_bytes = 0) noexcept {
    Kernel made;
    Result<void> opened = made.try_open(context, bundle, name, nullptr, log_out, log_bytes);
    if (!opened) return std::move(opened).failure();
    return made;
  }
  static Result<Kernel> try_load(const Context &context, const Bundle &bundle, const char *name,
                                 const Names &names, char *log_out = nullptr,
                                 std::size_t log_bytes = 0) noexcept {
    Kernel made;
    Result<void> opened = made.try_open(context, bundle, name, names, log_out, log_bytes);
    if (!opened) return std::move(opened).failure();
    return made;
  }
#if VYRE_EXCEPTIONS
  Kernel(const Context &context, const Bundle &bundle, const char *name) {
    this->try_open(context, bundle, name, nullptr, nullptr, 0).value();
  }
  Kernel(const Context &context, const Bundle &bundle, const char *name, const Names &names) {
    this->try_open(context, bundle, name, names, nullptr, 0).value();
  }
#endif
};

} // namespace vyre

#endif
