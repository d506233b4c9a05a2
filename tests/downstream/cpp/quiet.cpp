// What vyre_cuda.hpp declares without exceptions: quiet DRIVER BUNDLE. Compiled with and without.
#include <array>
#include <cstdio>
#include <cstring>
#include <vector>
#include <vyre_cuda.hpp>

namespace {

using Saxpy = vyre::Kernel<vyre::In<float>, vyre::In<float>, vyre::Out<float>, vyre::Scalar<float>>;

vyre::Result<float> last_of(const vyre::Context &context, const vyre::Bundle &bundle) {
  auto saxpy = Saxpy::try_load(context, bundle, "saxpy");
  if (!saxpy) return std::move(saxpy).failure();
  const std::vector<float> x(100, 1.0f);
  std::array<float, 100> out{};
  if (auto ran = saxpy->try_run(x, x, out, 2.0f); !ran) return std::move(ran).failure();
  auto stream = vyre::Stream::try_create(context);
  auto dx = vyre::Array<float>::try_copy_of(context, x);
  auto dout = vyre::Array<float>::try_alloc(context, 100);
  if (!stream || !dx || !dout) return vyre::Failure::of(VYC_E_MEMORY, "last_of", "memory");
  auto call = saxpy->try_bind(*stream, *dx, *dx, *dout, 2.0f);
  if (!call) return std::move(call).failure();
  call->set<3>(out[99]);
  if (auto ran = call->try_run(); !ran) return std::move(ran).failure();
  if (auto done = stream->try_synchronize(); !done) return std::move(done).failure();
  if (auto copied = dout->try_copy_out(out); !copied) return std::move(copied).failure();
  return vyre::Result<float>(std::move(out[99]));
}

} // namespace

int main(int, char **words) {
  auto driver = vyre::Driver::try_open(words[1]);
  if (!driver) return 2;
  auto context = vyre::Context::try_open(*driver);
  auto bundle = vyre::Bundle::try_open(words[2]);
  if (!context.ok() || bundle.status() != VYC_OK) return 3;
  const auto last = last_of(*context, *bundle);
  if (!last || *last != 4.0f) return 4;

  auto missing = vyre::Bundle::try_open("/nowhere.vyre");
  auto also = Saxpy::try_load(*context, *bundle, "nothing"); // a later failure does not change it
  if (missing || missing.status() != VYC_E_FILE) return 5;
  if (std::strstr(missing.error().what(), "/nowhere.vyre") == nullptr) return 6;
  if (also || std::strstr(also.error().what(), "nothing") == nullptr) return 7;
  auto closed = context->try_close();
  if (!closed || vyre::Stream::try_create(*context).status() != VYC_E_UNAVAILABLE) return 8;
  std::puts("well");
}
