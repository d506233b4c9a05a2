// What a request of a service costs by which driver calls: threads with a stream each copy 1 KiB to
// the device, launch saxpy with a new scalar, copy the result back and wait.
//
//   service BUNDLE DRIVER REQUESTS THREADS
//
// Ways of the layer, in threads that have the context current and in threads that have not, and
// ways of the driver alone: a launch by cuLaunchKernel or by a changed graph of one kernel, and a
// wait by the driver, by queries without or with pauses, by an event, or by a word that the stream
// writes. They take turns, eight times. `given` is the time until the last driver call before the
// wait has returned.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <vyre_cuda.hpp>

namespace {

using Clock = std::chrono::steady_clock;
using Saxpy = vyre::Kernel<vyre::In<float>, vyre::In<float>, vyre::Out<float>, vyre::Scalar<float>>;
constexpr std::size_t n = 256, bytes = n * sizeof(float);
constexpr std::size_t turns = 8;

void must(CUresult result) {
  if (result != CUDA_SUCCESS) throw std::runtime_error("CUresult " + std::to_string(result));
}

// The driver's functions, found as the library finds them.
struct Driver {
  explicit Driver(const char *path) : library(dlopen(path, RTLD_NOW)) {
    if (library == nullptr) throw std::runtime_error(dlerror());
    const auto all = {find(retain, "cuDevicePrimaryCtxRetain"),
                      find(enter, "cuCtxSetCurrent"),
                      find(load, "cuModuleLoadDataEx"),
                      find(function, "cuModuleGetFunction"),
                      find(create, "cuStreamCreate"),
                      find(query, "cuStreamQuery"),
                      find(synchronize, "cuStreamSynchronize"),
                      find(alloc, "cuMemAlloc"),
                      find(host_alloc, "cuMemHostAlloc"),
                      find(in, "cuMemcpyHtoDAsync"),
                      find(out, "cuMemcpyDtoHAsync"),
                      find(launch, "cuLaunchKernel"),
                      find(event_create, "cuEventCreate"),
                      find(event_record, "cuEventRecord"),
                      find(event_query, "cuEventQuery"),
                      find(graph_create, "cuGraphCreate"),
                      find(add, "cuGraphAddKernelNode"),
                      find(make, "cuGraphInstantiateWithFlags"),
                      find(change, "cuGraphExecKernelNodeSetParams"),
                      find(graph_launch, "cuGraphLaunch")};
    if (std::count(all.begin(), all.end(), false) != 0) throw std::runtime_error("an old driver");
    has_words = find(write, "cuStreamWriteValue32");
  }
  template <class F>
  bool find(F &function, const char *name) const {
    using Get =
        CUresult (*)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    void *found = nullptr;
    CUdriverProcAddressQueryResult result{};
    const auto get = reinterpret_cast<Get>(dlsym(library, "cuGetProcAddress_v2"));
    if (get == nullptr || get(name, &found, 12000, 0, &result) != CUDA_SUCCESS) return false;
    function = reinterpret_cast<F>(found);
    return found != nullptr;
  }
  void *library;
  bool has_words;
  decltype(&cuDevicePrimaryCtxRetain) retain = nullptr;
  decltype(&cuCtxSetCurrent) enter = nullptr;
  decltype(&cuModuleLoadDataEx) load = nullptr;
  decltype(&cuModuleGetFunction) function = nullptr;
  decltype(&cuStreamCreate) create = nullptr;
  decltype(&cuStreamQuery) query = nullptr;
  decltype(&cuStreamSynchronize) synchronize = nullptr;
  decltype(&cuMemAlloc) alloc = nullptr;
  decltype(&cuMemHostAlloc) host_alloc = nullptr;
  decltype(&cuMemcpyHtoDAsync) in = nullptr;
  decltype(&cuMemcpyDtoHAsync) out = nullptr;
  decltype(&cuLaunchKernel) launch = nullptr;
  decltype(&cuEventCreate) event_create = nullptr;
  decltype(&cuEventRecord) event_record = nullptr;
  decltype(&cuEventQuery) event_query = nullptr;
  decltype(&cuStreamWriteValue32) write = nullptr;
  decltype(&cuGraphCreate) graph_create = nullptr;
  decltype(&cuGraphAddKernelNode) add = nullptr;
  decltype(&cuGraphInstantiateWithFlags) make = nullptr;
  decltype(&cuGraphExecKernelNodeSetParams) change = nullptr;
  decltype(&cuGraphLaunch) graph_launch = nullptr;
};

enum class Launch { kernel, graph };
enum class Wait { driver, query, paused, event, word };

// The kernel of the bundle, with its parameters where the bundle says that they are.
struct Plain {
  Plain(const Driver &functions, const vyre::Bundle &bundle) : driver(functions) {
    std::uint32_t index = 0;
    vyre::check(vyc_bundle_kernel_find(bundle.get(), &index, "saxpy"));
    row.struct_size = sizeof row;
    vyre::check(vyc_bundle_kernel_get(bundle.get(), &row, index));
    variant.struct_size = sizeof variant;
    vyre::check(vyc_bundle_variant_get(bundle.get(), &variant, index, 0));
    must(driver.retain(&context, 0));
    must(driver.enter(context));
    CUmodule module = nullptr;
    must(driver.load(&module, variant.ptx, 0, nullptr, nullptr));
    must(driver.function(&function, module, variant.entry));
  }
  const Driver &driver;
  vyc_bundle_kernel row{};
  vyc_bundle_variant variant{};
  CUcontext context = nullptr;
  CUfunction function = nullptr;
};

// A client: gives the work of a request, then waits for it.
struct Client {
  virtual ~Client() = default;
  virtual void give(float a) = 0;
  virtual float wait() = 0;
};

class Theirs : public Client {
 public:
  Theirs(const Plain &plain, Launch launch, Wait wait, std::chrono::nanoseconds pause)
      : plain_(plain), driver_(plain.driver), launch_(launch), wait_(wait), pause_(pause),
        block_(plain.variant.parameter_bytes) {
    must(driver_.enter(plain.context));
    must(driver_.create(&stream_, CU_STREAM_NON_BLOCKING));
    must(driver_.event_create(&event_, CU_EVENT_DISABLE_TIMING));
    for (void **each : {&x_, &out_, &word_})
      must(driver_.host_alloc(each, bytes, CU_MEMHOSTALLOC_DEVICEMAP));
    std::memset(word_, 0, bytes);
    for (CUdeviceptr *each : {&dx_, &dout_}) must(driver_.alloc(each, bytes));
    std::fill_n(static_cast<float *>(x_), n, 1.0f);
    const CUdeviceptr arrays[] = {dx_, dx_, dout_};
    const std::uint64_t size = n;
    for (std::uint32_t i = 0; i < plain.variant.entry_count; i++) {
      const vyc_parameter &entry = plain.variant.entries[i];
      char *const at = block_.data() + entry.offset;
      parameters_.push_back(at);
      if (entry.kind == VYC_PARAMETER_SCALAR) scalar_ = at;
      const void *from = entry.kind == VYC_PARAMETER_POINTER
                             ? static_cast<const void *>(&arrays[entry.index])
                             : &size;
      if (at != scalar_) std::memcpy(at, from, entry.size);
    }
    if (launch_ == Launch::graph) make_graph();
  }
  void give(float a) override {
    static_cast<float *>(x_)[7] = a;
    std::memcpy(scalar_, &a, sizeof a);
    must(driver_.in(dx_, x_, bytes, stream_));
    if (launch_ == Launch::graph) {
      must(driver_.change(exec_, node_, &params_));
      must(driver_.graph_launch(exec_, stream_));
    } else {
      const std::uint32_t threads = plain_.row.block[0];
      must(driver_.launch(plain_.function, static_cast<unsigned>((n + threads - 1) / threads), 1, 1,
                          threads, 1, 1, 0, stream_, parameters_.data(), nullptr));
    }
    must(driver_.out(out_, dout_, bytes, stream_));
    if (wait_ == Wait::event) must(driver_.event_record(event_, stream_));
    if (wait_ == Wait::word)
      must(driver_.write(stream_, reinterpret_cast<CUdeviceptr>(word_), ++serial_, 0));
  }
  float wait() override {
    if (wait_ == Wait::driver) must(driver_.synchronize(stream_));
    if (wait_ == Wait::word)
      while (__atomic_load_n(static_cast<std::uint32_t *>(word_), __ATOMIC_ACQUIRE) != serial_)
        continue;
    if (wait_ == Wait::event) look([&] { return driver_.event_query(event_); });
    if (wait_ == Wait::query || wait_ == Wait::paused) look([&] { return driver_.query(stream_); });
    return static_cast<float *>(out_)[7];
  }

 private:
  template <class Look>
  void look(const Look &query) const {
    for (;;) {
      const CUresult result = query();
      if (result == CUDA_SUCCESS) return;
      if (result != CUDA_ERROR_NOT_READY) must(result);
      if (wait_ != Wait::paused) continue;
      for (const auto end = Clock::now() + pause_; Clock::now() < end;) continue;
    }
  }
  void make_graph() {
    params_.func = plain_.function;
    params_.blockDimX = plain_.row.block[0];
    params_.gridDimX = static_cast<unsigned>((n + params_.blockDimX - 1) / params_.blockDimX);
    params_.gridDimY = params_.gridDimZ = params_.blockDimY = params_.blockDimZ = 1;
    params_.kernelParams = parameters_.data();
    CUgraph graph = nullptr;
    must(driver_.graph_create(&graph, 0));
    must(driver_.add(&node_, graph, nullptr, 0, &params_));
    must(driver_.make(&exec_, graph, 0));
  }
  const Plain &plain_;
  const Driver &driver_;
  Launch launch_;
  Wait wait_;
  std::chrono::nanoseconds pause_;
  std::vector<char> block_;
  std::vector<void *> parameters_{};
  char *scalar_ = nullptr;
  CUstream stream_ = nullptr;
  CUevent event_ = nullptr;
  CUgraphNode node_ = nullptr;
  CUgraphExec exec_ = nullptr;
  CUDA_KERNEL_NODE_PARAMS params_{};
  std::uint32_t serial_ = 0;
  void *x_ = nullptr, *out_ = nullptr, *word_ = nullptr;
  CUdeviceptr dx_ = 0, dout_ = 0;
};

// By the layer, whose bound calls are graphs of one kernel. `driver`: the wait alone is the
// driver's.
class Ours : public Client {
 public:
  Ours(const vyre::Context &context, const Saxpy &saxpy, const Driver *driver, bool is_event,
       bool is_current)
      : driver_(driver), is_event_(is_event),
        current_(is_current ? vyre::Current(context) : vyre::Current()),
        stream_(vyre::Stream::create(context)), x_(vyre::PinnedArray<float>::alloc(context, n)),
        out_(vyre::PinnedArray<float>::alloc(context, n)),
        dx_(vyre::Array<float>::alloc(context, n)), dout_(vyre::Array<float>::alloc(context, n)),
        call_(saxpy.bind(stream_, dx_, dx_, dout_, 1.0f)) {
    std::fill(x_.begin(), x_.end(), 1.0f);
    vyre::check(vyc_stream_handle(stream_.get(), &handle_));
  }
  void give(float a) override {
    x_[7] = a;
    vyre::copy(stream_, dx_, x_);
    call_.set<3>(a);
    call_();
    vyre::copy(stream_, out_, dout_);
    if (is_event_) event_ = stream_.record();
  }
  float wait() override {
    if (is_event_)
      event_.synchronize();
    else if (driver_ != nullptr)
      must(driver_->synchronize(reinterpret_cast<CUstream>(handle_)));
    else
      stream_.synchronize();
    return out_[7];
  }

 private:
  const Driver *driver_;
  bool is_event_;
  vyre::Current current_;
  vyre::Stream stream_;
  vyre::PinnedArray<float> x_, out_;
  vyre::Array<float> dx_, dout_;
  Saxpy::Bound call_;
  vyre::Event event_;
  std::uint64_t handle_ = 0;
};

struct Way {
  const char *name;
  std::function<std::unique_ptr<Client>()> make;
  std::vector<float> times{}, given{}; // microseconds
};

void serve(Way &way, std::size_t threads, std::size_t requests) {
  std::vector<std::vector<float>> times(threads), given(threads);
  std::vector<std::thread> all;
  std::atomic<std::size_t> ready{0}, done{0}, wrong{0};
  for (std::size_t t = 0; t < threads; t++)
    all.emplace_back([&, t] {
      const auto client = way.make();
      times[t].reserve(requests);
      given[t].reserve(requests);
      for (int i = 0; i < 20; i++) client->give(1.0f), client->wait();
      for (ready++; ready < threads;) std::this_thread::yield();
      using Microseconds = std::chrono::duration<float, std::micro>;
      for (std::size_t i = 0; i < requests; i++) {
        const auto a = static_cast<float>(i % 64);
        const auto begin = Clock::now();
        client->give(a);
        const auto then = Clock::now();
        const float answer = client->wait();
        times[t].push_back(Microseconds(Clock::now() - begin).count());
        given[t].push_back(Microseconds(then - begin).count());
        if (answer != a * a + a) wrong++;
      }
      for (done++; done < threads;) std::this_thread::yield(); // then clients are destroyed
    });
  for (auto &each : all) each.join();
  if (wrong != 0) throw std::runtime_error(std::string("wrong answers of ") + way.name);
  for (const auto &each : times) way.times.insert(way.times.end(), each.begin(), each.end());
  for (const auto &each : given) way.given.insert(way.given.end(), each.begin(), each.end());
}

void tell(Way &way) {
  const auto at = [](const std::vector<float> &sorted, double q) {
    return static_cast<double>(sorted[static_cast<std::size_t>(q * double(sorted.size()))]);
  };
  std::sort(way.times.begin(), way.times.end());
  std::sort(way.given.begin(), way.given.end());
  std::printf("%-30s p50 %7.2f  p99 %7.2f  p99.9 %8.2f us  given p50 %7.2f  p99 %7.2f us\n",
              way.name, at(way.times, 0.5), at(way.times, 0.99), at(way.times, 0.999),
              at(way.given, 0.5), at(way.given, 0.99));
}

} // namespace

int main(int, char **words) try {
  const std::size_t requests = std::stoul(words[3]), threads = std::stoul(words[4]);
  const Driver driver(words[2]);
  const auto library = vyre::Driver::open(words[2]);
  const auto context = vyre::Context::open(library);
  const auto bundle = vyre::Bundle::open(words[1]);
  const Saxpy saxpy(context, bundle, "saxpy", {"x", "y", "out", "a"});
  const Plain plain(driver, bundle);
  const auto ours = [&](const Driver *wait, bool is_event, bool is_current) {
    return [&, wait, is_event, is_current] {
      return std::make_unique<Ours>(context, saxpy, wait, is_event, is_current);
    };
  };
  const auto theirs = [&](Launch launch, Wait wait, int pause = 0) {
    return [&, launch, wait, pause] {
      return std::make_unique<Theirs>(plain, launch, wait, std::chrono::nanoseconds(pause));
    };
  };
  std::vector<Way> ways{
      {"layer", ours(nullptr, false, false)},
      {"layer, current", ours(nullptr, false, true)},
      {"layer, current, an event", ours(nullptr, true, true)},
      {"layer, current, driver's wait", ours(&driver, false, true)},
      {"kernel, the driver's wait", theirs(Launch::kernel, Wait::driver)},
      {"kernel, queries", theirs(Launch::kernel, Wait::query)},
      {"kernel, queries each 0.5 us", theirs(Launch::kernel, Wait::paused, 500)},
      {"kernel, queries each 2 us", theirs(Launch::kernel, Wait::paused, 2000)},
      {"kernel, an event", theirs(Launch::kernel, Wait::event)},
      {"graph, the driver's wait", theirs(Launch::graph, Wait::driver)},
      {"graph, queries", theirs(Launch::graph, Wait::query)},
      {"graph, queries each 0.5 us", theirs(Launch::graph, Wait::paused, 500)},
      {"graph, queries each 2 us", theirs(Launch::graph, Wait::paused, 2000)},
  };
  if (driver.has_words) {
    ways.push_back({"kernel, a word", theirs(Launch::kernel, Wait::word)});
    ways.push_back({"graph, a word", theirs(Launch::graph, Wait::word)});
  }
  for (std::size_t turn = 0; turn < turns; turn++)
    for (Way &way : ways) serve(way, threads, requests / (threads * turns) + 1);
  std::printf("%zu threads, %zu requests of each way\n", threads, ways[0].times.size());
  for (Way &way : ways) tell(way);
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
