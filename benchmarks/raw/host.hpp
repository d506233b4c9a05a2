// What a C++ host has of libvyre_cuda for the rows of host_driver.cpp: the device with saxpy from a
// bundle, runs of it, input sets in every kind of memory, a recorded graph.
#ifndef HOST_HPP
#define HOST_HPP

#include <vyre_cuda.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support.h"

enum { CHAIN_BUFFERS = 4 };

struct Options {
  const char *driver = "libcuda.so.1", *folder = nullptr, *only = nullptr;
  int core = -1;
  std::map<std::string, uint32_t> counts;

  uint32_t operator[](const char *name) const { return counts.at(name); }
};

inline void check(vyc_status status, const char *call) {
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
inline void make_current(const char *driver) {
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
  vyc_bundled_kernel *kernel = nullptr;
  vyc_prepared *prepared = nullptr;
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
    VYC(bundled_kernel_load(&kernel, nullptr, 0, context, bundle, "saxpy", 0));
    VYC(bundled_kernel_prepared(kernel, &prepared));
    VYC(stream_create(&made, context));
    stream.reset(made);
    std::printf("{\"device\": \"%s\", \"driver_version\": %d}\n", caps.name, caps.driver_version);
    std::fflush(stdout);
  }

  ~Host() {
    stream.reset();
    vyc_prepared_release(prepared);
    vyc_bundled_kernel_release(kernel);
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
    VYC(bundled_kernel_resolve(host.kernel, &run));
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
      VYC(graph_add_launch(made, &step, at.prepared, &run.run));
    }
    VYC(graph_finish(made));
  }

  vyc_buffer *result() const { return buffers[2 + (nodes - 1) % 2].get(); }
};

#endif
