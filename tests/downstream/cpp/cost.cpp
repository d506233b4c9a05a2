// What a bound call costs in C++ and in C, for a counter of instructions: cost DRIVER BUNDLE.
// Each of the functions below makes `rounds` launches; nothing else is in them.
#include <cstdio>
#include <vector>
#include <vyre_cuda.hpp>

namespace {

using Saxpy = vyre::Kernel<vyre::In<float>, vyre::In<float>, vyre::Out<float>, vyre::Scalar<float>>;
constexpr int rounds = 100;

} // namespace

extern "C" {

[[gnu::noinline]] void cost_of_c(vyc_call *call) {
  for (int i = 0; i < rounds; i++)
    if (vyc_call_run(call) != VYC_OK) throw 1;
}

[[gnu::noinline]] void cost_of_cpp(Saxpy::Bound *call) {
  for (int i = 0; i < rounds; i++) (*call)();
}

[[gnu::noinline]] void cost_of_try(Saxpy::Bound *call) {
  for (int i = 0; i < rounds; i++)
    if (!call->try_run()) throw 1;
}

[[gnu::noinline]] void cost_of_set_c(vyc_call *call, vyc_run *run, vyc_bundled_kernel *kernel,
                                     std::uint64_t *scalar) {
  for (int i = 0; i < rounds; i++) {
    *scalar = vyc_bits_f32(static_cast<float>(i));
    run->grid[0] = run->grid[1] = run->grid[2] = 0; // it may follow from the scalar
    if (vyc_bundled_kernel_resolve(kernel, run) != VYC_OK) throw 1;
    if (vyc_call_set_run(call, run) != VYC_OK) throw 1;
  }
}

[[gnu::noinline]] void cost_of_set_cpp(Saxpy::Bound *call) {
  for (int i = 0; i < rounds; i++) {
    call->set<3>(static_cast<float>(i));
    (*call)();
  }
}

[[gnu::noinline]] void cost_of_run_c(vyc_bundled_kernel *kernel, const float *x, float *out) {
  for (int i = 0; i < rounds; i++) {
    vyc_argument arguments[3]{};
    for (vyc_argument &each : arguments) {
      each.kind = VYC_ARGUMENT_HOST;
      each.count = 64;
      each.data = x;
    }
    arguments[2].data = nullptr;
    arguments[2].result = out;
    const std::uint64_t scalar = vyc_bits_f32(2);
    vyc_run run{};
    run.struct_size = sizeof run;
    run.argument_count = 3;
    run.arguments = arguments;
    run.scalar_count = 1;
    run.scalars = &scalar;
    run.timeout_ns = -1;
    if (vyc_bundled_kernel_run(kernel, nullptr, &run) != VYC_OK) throw 1;
  }
}

[[gnu::noinline]] void cost_of_run_cpp(const Saxpy *kernel, const std::vector<float> *x,
                                       std::vector<float> *out) {
  for (int i = 0; i < rounds; i++) (*kernel)(*x, *x, *out, 2.0f);
}
}

int main(int, char **words) {
  const vyre::Driver driver = vyre::Driver::open(words[1]);
  const vyre::Context context = vyre::Context::open(driver);
  const vyre::Bundle bundle = vyre::Bundle::open(words[2]);
  const Saxpy saxpy(context, bundle, "saxpy");
  const vyre::Stream stream = vyre::Stream::create(context);
  std::vector<float> host(64, 1.0f), result(64);
  const auto x = vyre::Array<float>::copy_of(context, host);
  const auto out = vyre::Array<float>::alloc(context, 64);
  Saxpy::Bound call = saxpy.bind(stream, x, x, out, 2.0f);
  vyc_argument arguments[3]{};
  for (int i = 0; i < 3; i++) {
    arguments[i].kind = VYC_ARGUMENT_BUFFER;
    arguments[i].count = 64;
    arguments[i].buffer = i == 2 ? out.buffer().get() : x.buffer().get();
  }
  std::uint64_t scalar = 0;
  vyc_run run{};
  run.struct_size = sizeof run;
  run.argument_count = 3;
  run.arguments = arguments;
  run.scalar_count = 1;
  run.scalars = &scalar;
  run.stream = stream.get();
  run.timeout_ns = -1;
  for (int warm = 0; warm < 2; warm++) {
    cost_of_c(call.get());
    cost_of_cpp(&call);
    cost_of_try(&call);
    cost_of_set_c(call.get(), &run, saxpy.get(), &scalar);
    cost_of_set_cpp(&call);
    context.synchronize();
    cost_of_run_c(saxpy.get(), host.data(), result.data());
    cost_of_run_cpp(&saxpy, &host, &result);
  }
  context.synchronize();
  out.copy_out(result);
  std::printf("%g\n", static_cast<double>(result[7]));
}
