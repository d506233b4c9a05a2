// Every part of vyre_cuda.hpp that throws: face DRIVER BUNDLE. The bundle has saxpy, positive and
// twice of test_cpp_header.py.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <vector>
#include <vyre_cuda.hpp>
#if __cplusplus >= 202002L
#include <coroutine>
#include <future>
#include <span>
#endif

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                  \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (0)

namespace {

using vyre::In;
using vyre::InOut;
using vyre::Out;
using vyre::Scalar;
using Saxpy = vyre::Kernel<In<float>, In<float>, Out<float>, Scalar<float>>;
using Positive = vyre::Kernel<In<std::int32_t>, Out<std::int32_t>>;
constexpr std::size_t n = 100;

template <class F>
vyre::Error error_of(const F &function) {
  try {
    function();
  } catch (const vyre::Error &error) {
    return error;
  }
  return {};
}

bool says(const vyre::Error &error, const char *text) {
  return std::strstr(error.what(), text) != nullptr;
}

void runs_on_all_kinds_of_memory(const vyre::Context &context, const Saxpy &saxpy) {
  const std::vector<float> x(n, 1.0f);
  std::array<float, n> y{}, out{};
  y.fill(2.0f);
  saxpy(x, y, out, 2.0f);
  CHECK(out[n - 1] == 4.0f);
#if __cplusplus >= 202002L
  saxpy(std::span(x), std::span(y), std::span(out), 3.0f);
  CHECK(out[0] == 5.0f);
#endif
  float raw[n];
  saxpy(vyre::View<const float>(x.data(), n), y, raw, 4.0f);
  CHECK(raw[50] == 6.0f);

  const auto stream = vyre::Stream::create(context);
  const auto dy = vyre::Array<float>::copy_of(context, y);
  const auto pinned = vyre::PinnedArray<float>::alloc(context, n);
  saxpy.on(stream).within(std::chrono::minutes(1))(x, dy, pinned, 5.0f);
  CHECK(pinned[7] == 7.0f && pinned.size() == n && pinned.end() - pinned.begin() == n);
  saxpy(pinned, dy, out, 1.0f);
  CHECK(out[7] == 9.0f);

  vyre::Ticket ticket = saxpy.submit(x, y, out, 6.0f);
  CHECK(ticket.wait_for(std::chrono::minutes(1)) && ticket.query());
  ticket.wait();
  CHECK(out[0] == 8.0f);
}

void launches_on_device_arrays(const vyre::Context &context, const Saxpy &saxpy) {
  const auto stream = vyre::Stream::create(context);
  std::vector<float> host(n);
  const auto x = vyre::Array<float>::copy_of(context, std::vector<float>(n, 1.0f));
  const auto out = vyre::Array<float>::alloc(context, n);
  const auto between = vyre::Array<float>::alloc(context, n);
  out.fill_zero();
  saxpy.launch(stream, x, x, out, 2.0f);
  const vyre::Event event = stream.record();
  event.synchronize();
  CHECK(event.query() && event.synchronize_for(0));
  out.copy_out(host);
  CHECK(host[3] == 3.0f);
  saxpy.launch(stream, x.view().part(10, 5), x.view().part(0, 5), out.view().part(20, 5), 9.0f);
  out.copy_out(host);
  CHECK(host[19] == 3.0f && host[20] == 10.0f && host[25] == 3.0f);
  out.copy_in(std::array<float, 2>{7.0f, 8.0f}, 98);
  std::array<float, 3> end{};
  out.copy_out(end, 97);
  CHECK(end[0] == 3.0f && end[1] == 7.0f && end[2] == 8.0f);
  CHECK(error_of([&] { out.copy_out(end, 98); }).status == VYC_E_INVALID);
  CHECK(error_of([&] { saxpy.launch(stream, x.shaped(n + 1), x, out, 1.0f); }).status ==
        VYC_E_INVALID);

  const auto graph = vyre::Graph::create(context);
  saxpy.record(graph, x, x, between, 2.0f);
  CHECK(saxpy.record(graph, between, x, out, 2.0f) == 1);
  graph.copy(between.view(), vyre::DeviceView<const float>(x));
  graph.finish();
  graph.launch(stream);
  stream.synchronize();
  CHECK(stream.query());
  out.copy_out(host);
  CHECK(host[0] == 7.0f);
}

void binds(const vyre::Context &context, const Saxpy &saxpy) {
  const auto stream = vyre::Stream::create(context), other = vyre::Stream::create(context);
  const auto x = vyre::Array<float>::copy_of(context, std::vector<float>(n, 1.0f));
  const auto out = vyre::Array<float>::alloc(context, n);
  std::vector<float> host(n);
  const auto result = [&] {
    stream.synchronize();
    out.copy_out(host);
    return host[n / 2];
  };
  Saxpy::Bound call = saxpy.bind(stream, x, x, out, 2.0f);
  call();
  CHECK(result() == 3.0f);
  call.set<3>(2.5f);
  CHECK(result() == 3.0f);
  call();
  call();
  CHECK(result() == 3.5f);
  call.set<3>(4.0f); // goes along with the array
  {
    const auto z = vyre::Array<float>::copy_of(context, std::vector<float>(n, 10.0f));
    call.set<0>(z);
  } // the call holds it
  call();
  CHECK(result() == 41.0f);
  CHECK(error_of([&] { call.set<0>(x.view().part(0, 5)); }).status == VYC_E_INVALID);
  call();
  CHECK(result() == 41.0f);
  call.set_all(x, x, out, 9.0f);
  Saxpy::Bound moved = std::move(call);
  moved.set<3>(8.0f);
  moved();
  CHECK(result() == 9.0f);
  CHECK(error_of([&] { Saxpy::Bound()(); }).status == VYC_E_INVALID);
  Saxpy::Bound small =
      saxpy.bind(other, x.view().part(0, 4), x.view().part(0, 4), out.view().part(0, 4), 0.0f);
  small.set_all(x, x, out, 1.0f); // more blocks, maybe
  small();
  other.synchronize();
  CHECK(result() == 2.0f);
}

void says_what_is_wrong(const vyre::Driver &driver, const vyre::Context &context,
                        const vyre::Bundle &bundle, const Saxpy &saxpy) {
  using Wide = vyre::Kernel<In<float>, In<double>, Out<float>, Scalar<float>>;
  vyre::Error error = error_of([&] { Wide(context, bundle, "saxpy"); });
  CHECK(error.status == VYC_E_INVALID);
  CHECK(says(error, "saxpy: parameter y is in f32 in the bundle, and in f64 in the program"));
  using Swapped = vyre::Kernel<In<float>, InOut<float>, Out<float>, Scalar<float>>;
  CHECK(says(error_of([&] { Swapped(context, bundle, "saxpy"); }), "parameter y is in f32"));
  using Short = vyre::Kernel<In<float>, In<float>, Out<float>>;
  CHECK(says(error_of([&] { Short(context, bundle, "saxpy"); }), "parameter a"));
  using Long = vyre::Kernel<In<float>, In<float>, Out<float>, Scalar<float>, Scalar<float>>;
  CHECK(says(error_of([&] { Long(context, bundle, "saxpy"); }), "parameters is 4 in the bundle"));
  using Flat = vyre::Kernel<In<float>, In<float, 2>, Out<float>, Scalar<float>>;
  CHECK(
      says(error_of([&] { Flat(context, bundle, "saxpy"); }), "parameter y does not have 2 axes"));
  CHECK(says(error_of([&] { Saxpy(context, bundle, "saxpy", {"x", "z", "out", "a"}); }),
             "parameter 1 is y in the bundle, and z in the program"));
  CHECK(says(error_of([&] { Saxpy(context, bundle, "nothing"); }), "nothing"));
  error = error_of([&] { vyre::Driver::open("/nowhere/libcuda.so"); });
  CHECK(error.status == VYC_E_UNAVAILABLE && says(error, "/nowhere/libcuda.so"));
  CHECK(error_of([&] { vyre::Context::open(driver, 99); }).status == VYC_E_UNAVAILABLE);
  CHECK(error_of([&] { vyre::Bundle::read("no", 2); }).status == VYC_E_FORMAT);
  std::vector<float> x(n), out(n - 1);
  CHECK(says(error_of([&] { saxpy(x, x, out, 1.0f); }), "99 elements, not 100"));
  CHECK(error_of([&] { Saxpy()(x, x, x, 1.0f); }).status == VYC_E_INVALID);
}

// Two kernels that are loaded from the same bundle have their own checks, at any wait.
void finds_the_check_that_failed(const vyre::Context &context, const vyre::Bundle &bundle) {
  const Positive first(context, bundle, "positive"), second(context, bundle, "positive");
  std::vector<std::int32_t> x(n, 1), out(n);
  first(x, out);
  x[42] = -1;
  vyre::Error error = error_of([&] { first(x, out); });
  CHECK(error.status == VYC_E_ASSERT && error.thread() == 42);
  CHECK(error.site.kind == VYC_SITE_ASSERT && std::strcmp(error.site.message, "not positive") == 0);
  CHECK(says(error, "positive: thread 42: not positive"));
  CHECK(first.locate(error) && !second.locate(error));

  const auto stream = vyre::Stream::create(context);
  const auto dx = vyre::Array<std::int32_t>::copy_of(context, x);
  const auto dout = vyre::Array<std::int32_t>::alloc(context, n);
  second.launch(stream, dx, dout);
  error = error_of([&] { stream.synchronize(); });
  CHECK(error.status == VYC_E_ASSERT && error.site.kind == 0);
  CHECK(!first.locate(error) && second.locate(error));
  CHECK(std::strcmp(error.site.message, "not positive") == 0);
}

#if __cplusplus >= 202002L
struct Job { // runs until its first suspension, and frees itself at its end
  struct promise_type {
    Job get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
};

Job await_runs(const Saxpy &saxpy, const Positive &positive, const vyre::Stream &stream,
               std::promise<int> &done) {
  const std::vector<float> x(n, 1.0f);
  std::vector<float> out(n);
  int good = 0;
  for (int i = 0; i < 5; i++) {
    const vyre::Ticket ticket = saxpy.submit(x, x, out, static_cast<float>(i));
    co_await ticket;
    good += out[n - 1] == static_cast<float>(i + 1);
  }
  const std::vector<std::int32_t> bad(n, -1);
  std::vector<std::int32_t> unwritten(n);
  const vyre::Ticket failing = positive.submit(bad, unwritten);
  try {
    co_await failing;
  } catch (vyre::Error &error) {
    good += error.status == VYC_E_ASSERT && positive.locate(error);
  }
  const vyre::Result<void> told = co_await vyre::try_done(stream);
  good += told.ok();
  done.set_value(good);
}

void awaits(const vyre::Context &context, const vyre::Bundle &bundle, const Saxpy &saxpy) {
  const auto stream = vyre::Stream::create(context);
  const Positive positive(context, bundle, "positive");
  std::promise<int> done;
  await_runs(saxpy, positive, stream, done);
  CHECK(done.get_future().get() == 7);
}
#endif

void is_told(const vyre::Context &context, const Saxpy &saxpy) {
  const auto stream = vyre::Stream::create(context);
  auto in = vyre::PinnedArray<float>::alloc(context, n);
  auto out = vyre::PinnedArray<float>::alloc(context, n);
  const auto x = vyre::Array<float>::alloc(context, n), y = vyre::Array<float>::alloc(context, n);
  const int fd = eventfd(0, EFD_NONBLOCK), epoll = epoll_create1(0);
  epoll_event event{};
  event.events = EPOLLIN;
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
  for (float &each : in) each = 3.0f;
  vyre::copy(stream, x, in);
  vyre::copy(stream, y, x);
  saxpy.launch(stream, x, x, y, 2.0f);
  vyre::copy(stream, out, y);
  vyre::Notice notice;
  notice.fd = fd;
  vyre::notify(stream, notice);
  CHECK(epoll_wait(epoll, &event, 1, 60000) == 1);
  std::uint64_t count = 0;
  CHECK(read(fd, &count, sizeof count) == sizeof count && count == 1);
  CHECK(out[0] == 9.0f && out[n - 1] == 9.0f);
  const auto less = vyre::Array<float>::alloc(context, n - 1);
  CHECK(error_of([&] { vyre::copy(stream, less, in); }).status == VYC_E_INVALID);
  close(fd);
  close(epoll);
}

void allocates(const vyre::Driver &driver) {
  static int blocks = 0;
  vyre::ContextOptions options;
  options.pinned_memory.alloc = [](void *, std::uint64_t *address, std::uint64_t bytes) noexcept {
    void *made = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (made == nullptr) return 1;
    blocks++;
    *address = reinterpret_cast<std::uintptr_t>(made);
    return 0;
  };
  options.pinned_memory.free = [](void *, std::uint64_t address) noexcept {
    blocks--;
    std::free(reinterpret_cast<void *>(static_cast<std::uintptr_t>(address)));
  };
  auto context = vyre::Context::open(driver, 0, options);
  {
    const auto pinned = vyre::Pinned::alloc(context, 64);
    CHECK(pinned.data() != nullptr && blocks > 0);
  }
  context.close(std::chrono::minutes(1));
  CHECK(blocks == 0);
  CHECK(error_of([&] { vyre::Stream::create(context); }).status == VYC_E_UNAVAILABLE);
}

} // namespace

int main(int, char **words) {
  const auto driver = vyre::Driver::open(words[1]);
  auto context = vyre::Context::open(driver);
  const auto bundle = vyre::Bundle::open(words[2]);
  const Saxpy saxpy(context, bundle, "saxpy", {"x", "y", "out", "a"});
  const Saxpy copy = saxpy;
  CHECK(copy.tag() == saxpy.tag() && copy.get() == saxpy.get());
  CHECK(context.caps().warp_size == 32);
  runs_on_all_kinds_of_memory(context, copy);
  launches_on_device_arrays(context, saxpy);
  binds(context, saxpy);
  says_what_is_wrong(driver, context, bundle, saxpy);
  finds_the_check_that_failed(context, bundle);
  is_told(context, saxpy);
#if __cplusplus >= 202002L
  awaits(context, bundle, saxpy);
#endif
  if (context.caps().is_emulator) allocates(driver); // a GPU needs page-locked memory
  std::uint64_t launches = 0;
  context.statistics([&](const vyre::Statistic &each) {
    if (std::strcmp(each.name, "kernel_launches") == 0) launches = each.value;
  });
  CHECK(launches > 10);
  CHECK(vyre::Fence::create(context).wait(std::chrono::minutes(1)));
  CHECK(context.synchronize_for(-1));
  context.synchronize();
  context.trim();
  context.close();
  std::puts("well");
}
