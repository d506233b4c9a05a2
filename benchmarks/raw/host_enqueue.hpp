// Enqueues from C++, and the driver's own, in turns: block by block in one process.
//
// Processes of their own differ by up to 60 ns in what the same launch costs, and 3 % of one is 30
// ns. Graphs of one process differ less, by 1 to 3 % (benchmarks/probes/places.c): each side has
// GRAPHS of them.
#ifndef HOST_ENQUEUE_HPP
#define HOST_ENQUEUE_HPP

#include <functional>

#include "host.hpp"

enum { GRAPHS = 8 };

// The driver alone: graphs of one launch of saxpy each, on buffers of their own.
struct RawLaunches {
  raw_kernel kernel{};
  CUstream stream = nullptr;
  std::vector<raw_block> blocks; // by set
  std::vector<CUdeviceptr> results;
  CUgraphNode nodes[GRAPHS]{};
  CUgraphExec execs[GRAPHS]{};

  RawLaunches(const Options &options, const std::vector<std::unique_ptr<Set>> &sets)
      : blocks(sets.size()), results(sets.size()) {
    const uint32_t elements = options["elements"];
    raw_load_kernel(&kernel, options.folder, "saxpy", elements);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < sets.size(); i++) open_set(i, *sets[i]->host, elements);
    for (size_t i = 0; i < GRAPHS; i++) {
      CUgraph graph = nullptr;
      kernel.params.kernelParams = blocks[0].pointers;
      CU(cuGraphCreate(&graph, 0));
      CU(cuGraphAddKernelNode(&nodes[i], graph, nullptr, 0, &kernel.params));
      execs[i] = raw_instantiate(graph);
    }
  }

  void launch(size_t graph) { CU(cuGraphLaunch(execs[graph], stream)); }

  void launch_changed(size_t graph, uint32_t set) {
    kernel.params.kernelParams = blocks[set].pointers;
    CU(cuGraphExecKernelNodeSetParams(execs[graph], nodes[graph], &kernel.params));
    launch(graph);
  }

  void wait() const { CU(cuStreamSynchronize(stream)); }

 private:
  void open_set(size_t set, const raw_set &host, uint32_t elements) {
    const size_t bytes = elements * sizeof(float);
    CUdeviceptr buffers[3];
    for (size_t j = 0; j < 3; j++) {
      CU(cuMemAlloc(&buffers[j], bytes));
      if (j < 2) CU(cuMemcpyHtoD(buffers[j], host.inputs[j], bytes));
    }
    results[set] = buffers[2];
    raw_fill_block(&blocks[set], &kernel.layout, buffers, host.a, elements);
  }
};

// One of the two in a pair of rows.
struct Side {
  const char *id;
  std::function<void(size_t graph, uint32_t set)> call;
  std::function<void()> wait;
  std::function<void(uint32_t set)> poison;
  std::function<void(uint32_t set)> fetch; // the result to the set's host side
};

class Enqueues {
 public:
  Enqueues(const Host &host, const Options &options, std::vector<std::unique_ptr<Set>> &sets)
      : options_(options), sets_(sets), raw_(options, sets), stream_(host.stream.get()),
        bytes_(options["elements"] * sizeof(float)) {
    for (Owned<vyc_call> &call : calls_) {
      vyc_call *made = nullptr;
      VYC(call_create(&made, host.prepared, &sets[0]->on_device->run));
      call.reset(made);
    }
  }

  void same() {
    measure(1, ours("cpp_call_same", [this](size_t graph, uint32_t) { VYC(call_run(at(graph))); }),
            theirs("cpp_raw_same", [this](size_t graph, uint32_t) { raw_.launch(graph); }));
  }

  void changed() {
    const auto set_run = [this](size_t graph, uint32_t set) {
      VYC(call_set_run(at(graph), &sets_[set]->on_device->run));
    };
    measure(static_cast<uint32_t>(sets_.size()), ours("cpp_call_changed", set_run),
            theirs("cpp_raw_changed",
                   [this](size_t graph, uint32_t set) { raw_.launch_changed(graph, set); }));
  }

 private:
  using Call = std::function<void(size_t, uint32_t)>;

  vyc_call *at(size_t graph) const { return calls_[graph].get(); }

  Side ours(const char *id, Call call) {
    return {
        id, std::move(call), [this] { VYC(stream_synchronize(stream_)); },
        [this](uint32_t set) {
          std::memset(sets_[set]->host->result, RAW_POISON, bytes_);
          VYC(copy_in(result(set), 0, sets_[set]->host->result, bytes_));
        },
        [this](uint32_t set) { VYC(copy_out(result(set), 0, sets_[set]->host->result, bytes_)); }};
  }

  Side theirs(const char *id, Call call) {
    return {id, std::move(call), [this] { raw_.wait(); },
            [this](uint32_t set) {
              std::memset(sets_[set]->host->result, RAW_POISON, bytes_);
              CU(cuMemcpyHtoD(raw_.results[set], sets_[set]->host->result, bytes_));
            },
            [this](uint32_t set) {
              CU(cuMemcpyDtoH(sets_[set]->host->result, raw_.results[set], bytes_));
            }};
  }

  vyc_buffer *result(uint32_t set) const { return sets_[set]->buffers[2].get(); }

  // The result that the side left, against the expected bits.
  void verify(const Side &side, uint32_t set) const {
    side.fetch(set);
    if (std::memcmp(sets_[set]->host->result, sets_[set]->host->expected, bytes_) != 0)
      raw_fail("%s: wrong result in set %u", side.id, set);
  }

  // Graphs begin with the arguments of set 0, and each block of changed ones ends with its last.
  uint64_t time_block(const Side &side, uint32_t sets, size_t graph) const {
    const uint32_t calls = options_["block_calls"];
    const uint64_t begin = raw_now_ns();
    for (uint32_t i = 0; i < calls; i++) side.call(graph, i % sets);
    const uint64_t end = raw_now_ns();
    side.wait();
    return end - begin;
  }

  void measure(uint32_t sets, const Side &ours, const Side &theirs) const {
    const bool wanted[] = {raw_wanted(options_.only, ours.id),
                           raw_wanted(options_.only, theirs.id)};
    if (!wanted[0] && !wanted[1]) return;
    raw_begin(wanted[0] ? ours.id : theirs.id);
    const Side *const sides[] = {&ours, &theirs};
    const uint32_t count = options_["blocks"], calls = options_["block_calls"];
    const uint32_t used = std::min(sets, calls);
    std::vector<uint64_t> samples[2];
    for (uint32_t i = 0; i < count / 10 + GRAPHS; i++) // the warm-up
      for (const Side *side : sides) time_block(*side, sets, i % GRAPHS);
    for (const Side *side : sides)
      for (uint32_t set = 0; set < used; set++) side->poison(set);
    for (uint32_t i = 0; i < count; i++)
      for (uint32_t turn = 0; turn < 2; turn++) {
        const uint32_t side = (i + turn) % 2; // each comes first as often
        samples[side].push_back(time_block(*sides[side], sets, i / 2 % GRAPHS));
      }
    for (const Side *side : sides)
      for (uint32_t set = 0; set < used; set++) verify(*side, set);
    for (uint32_t side = 0; side < 2; side++)
      if (wanted[side]) raw_report(sides[side]->id, samples[side].data(), count, calls);
  }

  const Options &options_;
  std::vector<std::unique_ptr<Set>> &sets_;
  RawLaunches raw_;
  vyc_stream *stream_;
  size_t bytes_;
  Owned<vyc_call> calls_[GRAPHS];
};

inline void measure_enqueues(const Host &host, const Options &options,
                             std::vector<std::unique_ptr<Set>> &sets) {
  bool any = false;
  for (const char *id : {"cpp_call_same", "cpp_raw_same", "cpp_call_changed", "cpp_raw_changed"})
    any = any || raw_wanted(options.only, id);
  if (!any) return;
  Enqueues enqueues(host, options, sets);
  enqueues.same();
  enqueues.changed();
}

#endif
