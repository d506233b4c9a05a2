// A C++ host on libvyre_cuda: bound calls, host dispatch and the replay of a recorded graph, with
// the kernel from a bundle and no Python in the process. Prints the same lines as raw_driver, and
// is timed, poisoned and compared as that is: README.md says how.
#include <getopt.h>
#include <vyre_cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support.h"

namespace {

enum { CHECK_EVERY = 256, CHAINS = 4, CHAIN_BUFFERS = 4 };

struct Options {
  const char *driver = "libcuda.so.1", *folder = nullptr, *only = nullptr;
  int core = -1;
  std::map<std::string, uint32_t> counts;

  uint32_t operator[](const char *name) const { return counts.at(name); }
};

void check(vyc_status status, const char *call) {
  if (status == VYC_OK) return;
  vyc_error error{};
  error.struct_size = sizeof error;
  vyc_last_error(&error);
  raw_fail("%s: %s", call, error.message);
}
#define VYC(call) check(vyc_##call, #call)

struct Release {
  void operator()(vyc_stream *p) const { vyc_stream_release(p); }
  void operator()(vyc_call *p) const { vyc_call_release(p); }
  void operator()(vyc_graph *p) const { vyc_graph_release(p); }
  void operator()(vyc_buffer *p) const { vyc_buffer_release(p); }
  void operator()(vyc_pinned *p) const { vyc_pinned_release(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, Release>;

// As CUDA programs have it, and the twins: the device's primary context is the thread's.
void make_current(const char *driver) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  raw_open(driver);
  CU(cuInit(0));
  CU(cuDeviceGet(&device, 0));
  CU(cuDevicePrimaryCtxRetain(&context, device));
  CU(cuCtxSetCurrent(context));
}

// The device, and saxpy on it.
struct Host {
  vyc_driver *driver = nullptr;
  vyc_context *context = nullptr;
  vyc_bundle *bundle = nullptr;
  vyc_kernel *kernel = nullptr;
  vyc_plan *plan = nullptr;
  Owned<vyc_stream> stream;

  explicit Host(const Options &options) {
    vyc_caps caps{};
    caps.struct_size = sizeof caps;
    vyc_stream *made = nullptr;
    make_current(options.driver);
    VYC(driver_open(&driver, options.driver));
    VYC(context_open(&context, driver, 0));
    VYC(context_caps(context, &caps));
    VYC(bundle_open(&bundle, raw_path(options.folder, "kernels", ".vyre"), nullptr, 0));
    VYC(kernel_load(&kernel, nullptr, 0, context, bundle, "saxpy", 0));
    VYC(kernel_plan(kernel, &plan));
    VYC(stream_create(&made, context));
    stream.reset(made);
    std::printf("{\"device\": \"%s\", \"driver_version\": %d}\n", caps.name, caps.driver_version);
    std::fflush(stdout);
  }

  ~Host() {
    stream.reset();
    vyc_plan_release(plan);
    vyc_kernel_release(kernel);
    vyc_bundle_release(bundle);
    vyc_context_release(context);
    vyc_driver_release(driver);
  }

  Host(const Host &) = delete;
  Host &operator=(const Host &) = delete;

  Owned<vyc_buffer> buffer(const float *values, uint64_t bytes) const {
    vyc_buffer *made = nullptr;
    VYC(buffer_alloc(&made, context, bytes));
    if (values != nullptr) VYC(copy_in(made, 0, values, bytes));
    return Owned<vyc_buffer>(made);
  }
};

// A run of saxpy with what it refers to; it stays where it is.
struct Run {
  vyc_argument arguments[3]{};
  uint64_t scalar = 0;
  vyc_run run{};

  Run(const Host &host, uint32_t elements, float a, vyc_stream *stream) {
    std::memcpy(&scalar, &a, sizeof a);
    for (vyc_argument &argument : arguments) argument.count = elements;
    run.struct_size = sizeof run;
    run.argument_count = 3;
    run.scalar_count = 1;
    run.arguments = arguments;
    run.scalars = &scalar;
    run.stream = stream;
    run.timeout_ns = -1;
    VYC(kernel_resolve(host.kernel, &run));
  }
  Run(const Run &) = delete;
  Run &operator=(const Run &) = delete;

  void on(const std::vector<vyc_buffer *> &buffers) {
    for (size_t i = 0; i < 3; i++) {
      arguments[i].kind = VYC_ARGUMENT_BUFFER;
      arguments[i].buffer = buffers[i];
    }
  }
};

// One input set in every kind of memory.
struct Set {
  raw_set *host;
  std::vector<Owned<vyc_buffer>> buffers;
  std::vector<Owned<vyc_pinned>> pinned;
  float *pinned_result = nullptr;
  std::unique_ptr<Run> on_device, on_host, on_pinned;

  Set(const Host &at, raw_set *set, uint32_t elements) : host(set) {
    const uint64_t bytes = elements * sizeof(float);
    on_device = std::make_unique<Run>(at, elements, set->a, at.stream.get());
    on_host = std::make_unique<Run>(at, elements, set->a, nullptr);
    on_pinned = std::make_unique<Run>(at, elements, set->a, nullptr);
    for (size_t i = 0; i < 3; i++) {
      const float *input = i < 2 ? set->inputs[i] : nullptr;
      buffers.push_back(at.buffer(input, bytes));
      vyc_pinned *made = nullptr;
      void *data = nullptr;
      VYC(pinned_alloc(&made, at.context, bytes));
      VYC(pinned_data(made, &data));
      pinned.emplace_back(made);
      if (i < 2) std::memcpy(data, input, bytes);
      vyc_argument &pageable = on_host->arguments[i], &locked = on_pinned->arguments[i];
      pageable.kind = VYC_ARGUMENT_HOST;
      locked.kind = VYC_ARGUMENT_PINNED;
      locked.pinned = made;
      if (i < 2) {
        pageable.data = input;
        locked.data = data;
      } else {
        pageable.result = set->result;
        locked.result = data;
        pinned_result = static_cast<float *>(data);
      }
    }
    on_device->on({buffers[0].get(), buffers[1].get(), buffers[2].get()});
  }
};

// y -> t0 -> t1 -> t0 ..., as a recorded graph.
struct Chain {
  raw_set *host;
  std::vector<Owned<vyc_buffer>> buffers; // x, y, t0, t1
  Owned<vyc_graph> graph;
  uint32_t nodes;

  Chain(const Host &at, raw_set *set, uint32_t elements, uint32_t count) : host(set), nodes(count) {
    for (size_t i = 0; i < CHAIN_BUFFERS; i++)
      buffers.push_back(at.buffer(i < 2 ? set->inputs[i] : nullptr, elements * sizeof(float)));
    vyc_graph *made = nullptr;
    VYC(graph_create(&made, at.context));
    graph.reset(made);
    for (uint32_t i = 0; i < nodes; i++) {
      Run run(at, elements, set->a, nullptr);
      const size_t from = i == 0 ? 1 : 2 + (i + 1) % 2;
      run.on({buffers[0].get(), buffers[from].get(), buffers[2 + i % 2].get()});
      uint32_t step = 0;
      VYC(graph_add_launch(made, &step, at.plan, &run.run));
    }
    VYC(graph_finish(made));
  }

  vyc_buffer *result() const { return buffers[2 + (nodes - 1) % 2].get(); }
};

// One row: `call` is timed, in blocks that `wait` drains outside of the timing, or by itself.
struct Way {
  const char *id;
  bool in_blocks;
  uint32_t sets, trips;
  std::function<void(uint32_t)> call;
  std::function<void(uint32_t)> poison;
  std::function<const float *(uint32_t)> result; // fetched
  std::function<const float *(uint32_t)> expected;
};

class Bench {
 public:
  Bench(const Host &host, const Options &options)
      : host_(host), blocks_(options["blocks"]), block_calls_(options["block_calls"]),
        bytes_(options["elements"] * sizeof(float)) {}

  void measure(const Way &way) const {
    const uint32_t count = way.in_blocks ? blocks_ : way.trips;
    const uint32_t calls = way.in_blocks ? block_calls_ : 1;
    std::vector<uint64_t> samples(count);
    series(way, samples.data(), (count + 9) / 10); // the warm-up
    for (uint32_t i = 0; i < way.sets; i++) way.poison(i);
    series(way, samples.data(), count);
    const uint32_t used = std::min(way.sets, way.in_blocks ? calls : count);
    for (uint32_t i = 0; i < used; i++) verify(way, i);
    raw_report(way.id, samples.data(), count, calls);
  }

 private:
  void wait() const { VYC(stream_synchronize(host_.stream.get())); }

  void verify(const Way &way, uint32_t set) const {
    if (std::memcmp(way.result(set), way.expected(set), bytes_) != 0)
      raw_fail("%s: wrong result in set %u", way.id, set);
  }

  void spot_check(const Way &way, uint32_t set) const {
    verify(way, set);
    way.poison(set);
    way.call(set);
    wait();
  }

  void series(const Way &way, uint64_t *samples, uint32_t count) const {
    const uint32_t calls = way.in_blocks ? block_calls_ : 1;
    for (uint32_t i = 0; i < count; i++) {
      const uint32_t first = way.in_blocks ? 0 : i;
      const uint64_t begin = raw_now_ns();
      for (uint32_t j = 0; j < calls; j++) way.call((first + j) % way.sets);
      samples[i] = raw_now_ns() - begin;
      if (way.in_blocks) wait();
      if (i % CHECK_EVERY == CHECK_EVERY - 1) spot_check(way, (first + calls - 1) % way.sets);
    }
  }

  const Host &host_;
  uint32_t blocks_, block_calls_;
  size_t bytes_;
};

// ---- rows --------------------------------------------------------------------------------------

void measure_small(const Host &host, const Options &options, const Bench &bench) {
  const uint32_t elements = options["elements"], count = options["sets"];
  const uint64_t bytes = elements * sizeof(float);
  raw_set *inputs = raw_read_sets(options.folder, "saxpy", count, elements, 2);
  std::vector<std::unique_ptr<Set>> sets;
  for (uint32_t i = 0; i < count; i++)
    sets.push_back(std::make_unique<Set>(host, &inputs[i], elements));
  vyc_stream *stream = host.stream.get();
  vyc_call *made = nullptr;
  VYC(call_create(&made, host.plan, &sets[0]->on_device->run));
  const Owned<vyc_call> call(made);

  const auto poison = [&](uint32_t i) {
    std::memset(sets[i]->host->result, RAW_POISON, bytes);
    std::memset(sets[i]->pinned_result, RAW_POISON, bytes);
    VYC(copy_in(sets[i]->buffers[2].get(), 0, sets[i]->host->result, bytes));
  };
  const auto expected = [&](uint32_t i) { return sets[i]->host->expected; };
  const auto from_device = [&](uint32_t i) -> const float * {
    VYC(copy_out(sets[i]->buffers[2].get(), 0, sets[i]->host->result, bytes));
    return sets[i]->host->result;
  };
  const auto on_host = [&](uint32_t i) -> const float * { return sets[i]->host->result; };
  const auto on_pinned = [&](uint32_t i) -> const float * { return sets[i]->pinned_result; };

  const auto run = [&](uint32_t) { VYC(call_run(made)); };
  const auto set_run = [&](uint32_t i) { VYC(call_set_run(made, &sets[i]->on_device->run)); };
  const auto run_sync = [&](uint32_t) {
    VYC(call_run(made));
    VYC(stream_synchronize(stream));
  };
  const auto dispatch = [&](uint32_t i) {
    VYC(kernel_run(host.kernel, nullptr, &sets[i]->on_host->run));
  };
  const auto dispatch_pinned = [&](uint32_t i) {
    VYC(kernel_run(host.kernel, nullptr, &sets[i]->on_pinned->run));
  };
  const uint32_t trips = options["trips"];
  const Way ways[] = {
      {"cpp_call_same", true, 1, 0, run, poison, from_device, expected},
      {"cpp_call_sync", false, 1, trips, run_sync, poison, from_device, expected},
      {"cpp_call_changed", true, count, 0, set_run, poison, from_device, expected},
      {"cpp_host_dispatch", false, count, trips, dispatch, poison, on_host, expected},
      {"cpp_host_dispatch_pinned", false, count, trips, dispatch_pinned, poison, on_pinned,
       expected},
  };
  raw_use_core(options.core);
  for (const Way &way : ways) {
    if (!raw_wanted(options.only, way.id)) continue;
    raw_begin(way.id);
    bench.measure(way);
  }
}

void measure_graph(const Host &host, const Options &options, const Bench &bench) {
  const char *const id = "cpp_graph";
  if (!raw_wanted(options.only, id)) return;
  raw_begin(id);
  raw_use_core(-1);
  const uint32_t elements = options["elements"],
                 count = std::min<uint32_t>(options["sets"], CHAINS);
  const uint64_t bytes = elements * sizeof(float);
  raw_set *inputs = raw_read_sets(options.folder, "chain", count, elements, 2);
  std::vector<std::unique_ptr<Chain>> chains;
  for (uint32_t i = 0; i < count; i++)
    chains.push_back(std::make_unique<Chain>(host, &inputs[i], elements, options["nodes"]));
  vyc_stream *stream = host.stream.get();
  const Way way{id,
                false,
                count,
                options["long_trips"],
                [&](uint32_t i) {
                  VYC(graph_launch(chains[i]->graph.get(), nullptr, 0, stream));
                  VYC(stream_synchronize(stream));
                },
                [&](uint32_t i) {
                  std::memset(inputs[i].result, RAW_POISON, bytes);
                  for (size_t j = 2; j < CHAIN_BUFFERS; j++)
                    VYC(copy_in(chains[i]->buffers[j].get(), 0, inputs[i].result, bytes));
                },
                [&](uint32_t i) -> const float * {
                  VYC(copy_out(chains[i]->result(), 0, inputs[i].result, bytes));
                  return inputs[i].result;
                },
                [&](uint32_t i) { return inputs[i].expected; }};
  bench.measure(way);
}

// ---- command line ------------------------------------------------------------------------------

Options parse(int count, char **words) {
  static const option NAMES[] = {{"driver", 1, nullptr, 'd'}, {"folder", 1, nullptr, 'f'},
                                 {"rows", 1, nullptr, 'r'},   {"count", 1, nullptr, 'c'},
                                 {"core", 1, nullptr, 'k'},   {nullptr, 0, nullptr, 0}};
  Options options;
  for (int flag; (flag = getopt_long(count, words, "", NAMES, nullptr)) != -1;) {
    const std::string text = optarg == nullptr ? "" : optarg;
    const size_t equals = std::min(text.find('='), text.size());
    switch (flag) {
    case 'd': options.driver = optarg; break;
    case 'f': options.folder = optarg; break;
    case 'r': options.only = optarg; break;
    case 'k': options.core = std::atoi(optarg); break;
    case 'c':
      options.counts[text.substr(0, equals)] =
          static_cast<uint32_t>(std::atoi(text.c_str() + std::min(equals + 1, text.size())));
      break;
    default: std::exit(2);
    }
  }
  for (const char *name :
       {"elements", "sets", "nodes", "blocks", "block_calls", "trips", "long_trips"})
    if (options.counts[name] == 0) raw_fail("--count %s=... is needed", name);
  if (options.folder == nullptr) raw_fail("--folder is needed");
  return options;
}

} // namespace

int main(int count, char **words) {
  const Options options = parse(count, words);
  const Host host(options);
  const Bench bench(host, options);
  measure_small(host, options, bench);
  measure_graph(host, options, bench);
  return 0;
}
