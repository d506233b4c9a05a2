// A C++ host on libvyre_cuda: bound calls, host dispatch and the replay of a recorded graph, with
// the kernel from a bundle and no Python in the process. Prints the same lines as raw_driver, and
// is timed, poisoned and compared as that is: README.md says how.
#include <getopt.h>

#include <cstdlib>
#include <functional>

#include "host.hpp"
#include "host_enqueue.hpp"

namespace {

enum { CHECK_EVERY = 256, CHAINS = 4 };

// One row: each call is timed by itself.
struct Way {
  const char *id;
  uint32_t sets, trips;
  std::function<void(uint32_t)> call;
  std::function<void(uint32_t)> poison;
  std::function<const float *(uint32_t)> result; // fetched
  std::function<const float *(uint32_t)> expected;
};

class Bench {
 public:
  Bench(const Host &host, const Options &options)
      : host_(host), bytes_(options["elements"] * sizeof(float)) {}

  void measure(const Way &way) const {
    std::vector<uint64_t> samples(way.trips);
    series(way, samples.data(), (way.trips + 9) / 10); // the warm-up
    for (uint32_t i = 0; i < way.sets; i++) way.poison(i);
    series(way, samples.data(), way.trips);
    for (uint32_t i = 0; i < std::min(way.sets, way.trips); i++) verify(way, i);
    raw_report(way.id, samples.data(), way.trips, 1);
  }

 private:
  void verify(const Way &way, uint32_t set) const {
    if (std::memcmp(way.result(set), way.expected(set), bytes_) != 0)
      raw_fail("%s: wrong result in set %u", way.id, set);
  }

  void spot_check(const Way &way, uint32_t set) const {
    verify(way, set);
    way.poison(set);
    way.call(set);
    VYC(stream_synchronize(host_.stream.get()));
  }

  void series(const Way &way, uint64_t *samples, uint32_t count) const {
    for (uint32_t i = 0; i < count; i++) {
      const uint64_t begin = raw_now_ns();
      way.call(i % way.sets);
      samples[i] = raw_now_ns() - begin;
      if (i % CHECK_EVERY == CHECK_EVERY - 1) spot_check(way, i % way.sets);
    }
  }

  const Host &host_;
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
  VYC(call_create(&made, host.prepared, &sets[0]->on_device->run));
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

  const auto run_sync = [&](uint32_t) {
    VYC(call_run(made));
    VYC(stream_synchronize(stream));
  };
  const auto dispatch = [&](uint32_t i) {
    VYC(bundled_kernel_run(host.kernel, nullptr, &sets[i]->on_host->run));
  };
  const auto dispatch_pinned = [&](uint32_t i) {
    VYC(bundled_kernel_run(host.kernel, nullptr, &sets[i]->on_pinned->run));
  };
  const uint32_t trips = options["trips"];
  const Way ways[] = {
      {"cpp_call_sync", 1, trips, run_sync, poison, from_device, expected},
      {"cpp_host_dispatch", count, trips, dispatch, poison, on_host, expected},
      {"cpp_host_dispatch_pinned", count, trips, dispatch_pinned, poison, on_pinned, expected},
  };
  raw_use_core(options.core);
  measure_enqueues(host, options, sets);
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
