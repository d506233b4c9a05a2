// The driver calls of ten requests of a service, in a thread that has the context current
// ("entered") or has not, counted by the emulator: calls EMULATOR BUNDLE [entered]. With counter.c
// preloaded, the allocations, locks and environment reads of the library in them, too.
#include <dlfcn.h>

#include <cstdio>
#include <vector>
#include <vyre_cuda.hpp>

using Saxpy = vyre::Kernel<vyre::In<float>, vyre::In<float>, vyre::Out<float>, vyre::Scalar<float>>;

int main(int count, char **words) {
  void *const emulator = dlopen(words[1], RTLD_NOW);
  const auto name_of =
      reinterpret_cast<const char *(*)(std::uint64_t)>(dlsym(emulator, "vyre_emulator_function"));
  const auto calls_of = reinterpret_cast<int (*)(const char *, std::uint64_t *)>(
      dlsym(emulator, "vyre_emulator_count"));
  const auto set =
      reinterpret_cast<int (*)(const char *, std::int64_t)>(dlsym(emulator, "vyre_emulator_set"));
  set("stream_mode", 0); // so that a wait looks once
  const auto driver = vyre::Driver::open(words[1]);
  const auto context = vyre::Context::open(driver);
  const auto bundle = vyre::Bundle::open(words[2]);
  const Saxpy saxpy(context, bundle, "saxpy");
  const auto stream = vyre::Stream::create(context);
  const auto x = vyre::PinnedArray<float>::alloc(context, 256);
  const auto out = vyre::PinnedArray<float>::alloc(context, 256);
  const auto dx = vyre::Array<float>::alloc(context, 256);
  const auto dout = vyre::Array<float>::alloc(context, 256);
  auto call = saxpy.bind(stream, dx, dx, dout, 1.0f);
  const auto current = count > 3 ? vyre::Current(context) : vyre::Current();
  const auto request = [&](float a) {
    vyre::copy(stream, dx, x);
    call.set<3>(a);
    call();
    vyre::copy(stream, out, dout);
    stream.synchronize();
  };
  const auto all_calls = [&] {
    std::vector<std::uint64_t> calls;
    for (std::uint64_t i = 0; name_of(i) != nullptr; i++)
      calls_of(name_of(i), &calls.emplace_back());
    return calls;
  };
  const auto counter = [](const char *name) { return dlsym(RTLD_DEFAULT, name); };
  const auto begin = reinterpret_cast<unsigned (*)()>(counter("counting_begin"));
  const auto end = reinterpret_cast<void (*)()>(counter("counting_end"));
  const auto kind = reinterpret_cast<const char *(*)(unsigned)>(counter("counted_kind"));
  const auto counted = reinterpret_cast<unsigned long (*)(unsigned)>(counter("counted_calls"));
  for (int i = 0; i < 5; i++) request(static_cast<float>(i));
  const auto before = all_calls();
  if (begin != nullptr && begin() == 0) return 1; // it does not see the library
  for (int i = 0; i < 10; i++) request(static_cast<float>(10 + i));
  if (end != nullptr) end();
  const auto after = all_calls();
  for (unsigned i = 0; kind != nullptr && kind(i) != nullptr; i++)
    std::printf("%s %lu\n", kind(i), counted(i));
  for (std::size_t i = 0; i < after.size(); i++)
    if (after[i] != before[i])
      std::printf("%s %d\n", name_of(i), static_cast<int>(after[i] - before[i]));
}
