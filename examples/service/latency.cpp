// Latencies of a service's requests, beside the same requests made by the driver's functions alone.
//
//   latency BUNDLE [REQUESTS] [THREADS] [DRIVER]
//
// A request has 256 f32 in page-locked memory and a scalar; its answer is saxpy of them, in
// page-locked memory. Each thread has a stream of its own and sends the next request when it has
// the answer. The ways take turns, ten times, so that all see the same machine, and run the same
// PTX:
//
//   call            one call of the kernel, which uses page-locked memory in place
//   copies          copies to the device and back around a bound call, on the thread's stream
//   driver          the same copies and a launch, by the driver's functions alone
//   driver, mapped  a launch on page-locked memory, by the driver's functions alone
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <vyre_cuda.hpp>

namespace {

using Clock = std::chrono::steady_clock;
using Saxpy = vyre::Kernel<vyre::In<float>, vyre::In<float>, vyre::Out<float>, vyre::Scalar<float>>;
constexpr std::size_t n = 256;

// ---- by vyre_cuda -------------------------------------------------------------------------------

class Called {
 public:
  Called(const vyre::Context &context, const Saxpy &saxpy)
      : current_(context), saxpy_(saxpy), x_(vyre::PinnedArray<float>::alloc(context, n)),
        out_(vyre::PinnedArray<float>::alloc(context, n)) {
    std::fill(x_.begin(), x_.end(), 1.0f);
  }
  float request(float a) {
    x_[7] = a;
    saxpy_(x_, x_, out_, a);
    return out_[7];
  }

 private:
  vyre::Current current_;
  Saxpy saxpy_;
  vyre::PinnedArray<float> x_, out_;
};

class Copied {
 public:
  Copied(const vyre::Context &context, const Saxpy &saxpy)
      : current_(context), stream_(vyre::Stream::create(context)),
        x_(vyre::PinnedArray<float>::alloc(context, n)),
        out_(vyre::PinnedArray<float>::alloc(context, n)),
        dx_(vyre::Array<float>::alloc(context, n)), dout_(vyre::Array<float>::alloc(context, n)),
        call_(saxpy.bind(stream_, dx_, dx_, dout_, 1.0f)) {
    std::fill(x_.begin(), x_.end(), 1.0f);
  }
  float request(float a) {
    x_[7] = a;
    vyre::copy(stream_, dx_, x_);
    call_.set<3>(a);
    call_();
    vyre::copy(stream_, out_, dout_);
    stream_.synchronize();
    return out_[7];
  }

 private:
  vyre::Current current_;
  vyre::Stream stream_;
  vyre::PinnedArray<float> x_, out_;
  vyre::Array<float> dx_, dout_;
  Saxpy::Bound call_;
};

// ---- by the driver alone ------------------------------------------------------------------------

// Its functions, found as the library finds them.
struct Driver {
  explicit Driver(const char *path) : library(dlopen(path, RTLD_NOW)) {
    if (library == nullptr) throw std::runtime_error(dlerror());
  }
  template <class F>
  void find(F &function, const char *name) const {
    using Get =
        CUresult (*)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    void *found = nullptr;
    CUdriverProcAddressQueryResult result{};
    const auto get = reinterpret_cast<Get>(dlsym(library, "cuGetProcAddress_v2"));
    if (get == nullptr || get(name, &found, 12000, 0, &result) != CUDA_SUCCESS || found == nullptr)
      throw std::runtime_error(name);
    function = reinterpret_cast<F>(found);
  }
  void *library;
};

void must(CUresult result) {
  if (result != CUDA_SUCCESS) throw std::runtime_error("CUresult " + std::to_string(result));
}

struct Functions {
  explicit Functions(const Driver &driver) {
    driver.find(retain, "cuDevicePrimaryCtxRetain");
    driver.find(set_current, "cuCtxSetCurrent");
    driver.find(load, "cuModuleLoadData");
    driver.find(function, "cuModuleGetFunction");
    driver.find(create, "cuStreamCreate");
    driver.find(synchronize, "cuStreamSynchronize");
    driver.find(alloc, "cuMemAlloc");
    driver.find(host_alloc, "cuMemHostAlloc");
    driver.find(in, "cuMemcpyHtoDAsync");
    driver.find(out, "cuMemcpyDtoHAsync");
    driver.find(launch, "cuLaunchKernel");
  }
  CUresult (*retain)(CUcontext *, CUdevice) = nullptr;
  CUresult (*set_current)(CUcontext) = nullptr;
  CUresult (*load)(CUmodule *, const void *) = nullptr;
  CUresult (*function)(CUfunction *, CUmodule, const char *) = nullptr;
  CUresult (*create)(CUstream *, unsigned) = nullptr;
  CUresult (*synchronize)(CUstream) = nullptr;
  CUresult (*alloc)(CUdeviceptr *, std::size_t) = nullptr;
  CUresult (*host_alloc)(void **, std::size_t, unsigned) = nullptr;
  CUresult (*in)(CUdeviceptr, const void *, std::size_t, CUstream) = nullptr;
  CUresult (*out)(void *, CUdeviceptr, std::size_t, CUstream) = nullptr;
  CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     unsigned, CUstream, void **, void **) = nullptr;
};

// The kernel of the bundle, with its parameters where the bundle says that they are.
struct Plain {
  Plain(const Driver &library, const vyre::Bundle &bundle) : driver(library) {
    std::uint32_t index = 0;
    vyre::check(vyc_bundle_kernel_find(bundle.get(), &index, "saxpy"));
    row.struct_size = sizeof row;
    vyre::check(vyc_bundle_kernel_get(bundle.get(), &row, index));
    variant.struct_size = sizeof variant;
    vyre::check(vyc_bundle_variant_get(bundle.get(), &variant, index, 0));
    must(driver.retain(&context, 0));
    must(driver.set_current(context));
    CUmodule module = nullptr;
    must(driver.load(&module, variant.ptx));
    must(driver.function(&function, module, variant.entry));
  }
  Functions driver;
  vyc_bundle_kernel row{};
  vyc_bundle_variant variant{};
  CUcontext context = nullptr;
  CUfunction function = nullptr;
};

class Theirs {
 public:
  Theirs(const Plain &plain, bool is_mapped)
      : plain_(plain), is_mapped_(is_mapped), block_(plain.variant.parameter_bytes) {
    const Functions &driver = plain.driver;
    must(driver.set_current(plain.context));
    must(driver.create(&stream_, CU_STREAM_NON_BLOCKING));
    for (void **each : {&x_, &out_})
      must(driver.host_alloc(each, n * sizeof(float), CU_MEMHOSTALLOC_DEVICEMAP));
    for (CUdeviceptr *each : {&dx_, &dout_}) must(driver.alloc(each, n * sizeof(float)));
    std::fill_n(static_cast<float *>(x_), n, 1.0f);
    const auto address = [](void *host) { return reinterpret_cast<CUdeviceptr>(host); };
    const CUdeviceptr in = is_mapped ? address(x_) : dx_, out = is_mapped ? address(out_) : dout_;
    const CUdeviceptr arrays[] = {in, in, out};
    const std::uint64_t size = n;
    for (std::uint32_t i = 0; i < plain.variant.entry_count; i++) {
      const vyc_parameter &entry = plain.variant.entries[i];
      char *const at = block_.data() + entry.offset;
      parameters_.push_back(at);
      if (entry.kind == VYC_PARAMETER_POINTER)
        memcpy(at, &arrays[entry.index], entry.size);
      else if (entry.kind == VYC_PARAMETER_SIZE)
        memcpy(at, &size, entry.size);
      else
        scalar_ = at;
    }
  }
  float request(float a) {
    const Functions &driver = plain_.driver;
    static_cast<float *>(x_)[7] = a;
    if (!is_mapped_) must(driver.in(dx_, x_, n * sizeof(float), stream_));
    memcpy(scalar_, &a, sizeof a);
    const std::uint32_t threads = plain_.row.block[0];
    must(driver.launch(plain_.function, static_cast<unsigned>((n + threads - 1) / threads), 1, 1,
                       threads, 1, 1, 0, stream_, parameters_.data(), nullptr));
    if (!is_mapped_) must(driver.out(out_, dout_, n * sizeof(float), stream_));
    must(driver.synchronize(stream_));
    return static_cast<float *>(out_)[7];
  }

 private:
  const Plain &plain_;
  bool is_mapped_;
  std::vector<char> block_;
  std::vector<void *> parameters_{};
  char *scalar_ = nullptr;
  CUstream stream_ = nullptr;
  void *x_ = nullptr, *out_ = nullptr;
  CUdeviceptr dx_ = 0, dout_ = 0;
};

// ---- both ---------------------------------------------------------------------------------------

// The nanoseconds of all requests, and the 99.9th percentile of each turn: what the machine does
// once, such as taking a core away, is in the tail of one turn, and what a way does in those of
// all.
struct Told {
  std::vector<float> times{}, tails{};
};

float percentile(std::vector<float> &times, double q) {
  const auto at = static_cast<std::size_t>(q * static_cast<double>(times.size()));
  const auto where = times.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(times.begin(), where, times.end());
  return *where;
}

// So many requests of each of the threads, which `make` makes.
// No thread destroys anything while another one is still timed.
template <class Make>
void serve(const Make &make, std::size_t threads, std::size_t requests, Told &told) {
  std::vector<std::vector<float>> times(threads);
  std::vector<std::thread> all;
  std::atomic<std::size_t> ready{0}, done{0}, wrong{0};
  for (auto &mine : times)
    all.emplace_back([&] {
      auto worker = make();
      mine.reserve(requests);
      for (int i = 0; i < 20; i++) worker.request(1.0f);
      for (ready++; ready < threads;) std::this_thread::yield();
      for (std::size_t i = 0; i < requests; i++) {
        const auto a = static_cast<float>(i % 64);
        const auto begin = Clock::now();
        const float answer = worker.request(a);
        mine.push_back(std::chrono::duration<float, std::nano>(Clock::now() - begin).count());
        if (answer != a * a + a) wrong++;
      }
      for (done++; done < threads;) std::this_thread::yield();
    });
  for (auto &each : all) each.join();
  if (wrong != 0) throw std::runtime_error(std::to_string(wrong) + " wrong answers");
  std::vector<float> turn;
  for (const auto &each : times) turn.insert(turn.end(), each.begin(), each.end());
  told.times.insert(told.times.end(), turn.begin(), turn.end());
  told.tails.push_back(percentile(turn, 0.999));
}

void tell(const char *name, Told &told) {
  const auto us = [&](double q) { return static_cast<double>(percentile(told.times, q)) / 1000; };
  std::sort(told.tails.begin(), told.tails.end());
  const auto tail = [&](std::size_t turn) { return static_cast<double>(told.tails[turn]) / 1000; };
  const float most = *std::max_element(told.times.begin(), told.times.end());
  std::printf("%-14s %9zu requests: p50 %8.2f us, p99 %8.2f us, p99.9 %8.2f us (of turns: least "
              "%.2f, median %.2f, most %.2f), most %9.2f us\n",
              name, told.times.size(), us(0.5), us(0.99), us(0.999), tail(0),
              tail(told.tails.size() / 2), tail(told.tails.size() - 1),
              static_cast<double>(most) / 1000);
}

} // namespace

int main(int count, char **words) try {
  constexpr std::size_t turns = 10;
  const std::size_t requests = count > 2 ? std::stoul(words[2]) : 1000000;
  const std::size_t threads = count > 3 ? std::stoul(words[3]) : 8;
  const char *path = count > 4 ? words[4] : nullptr;
  const auto driver = vyre::Driver::open(path);
  const auto context = vyre::Context::open(driver);
  const auto bundle = vyre::Bundle::open(words[1]);
  const Saxpy saxpy(context, bundle, "saxpy", {"x", "y", "out", "a"});
  const Driver library(path != nullptr ? path : "libcuda.so.1");
  const Plain plain(library, bundle);
  Told called, copied, theirs, mapped;
  for (std::size_t turn = 0; turn < turns; turn++) {
    const std::size_t each = (requests + threads * turns - 1) / (threads * turns);
    serve([&] { return Called(context, saxpy); }, threads, each, called);
    serve([&] { return Copied(context, saxpy); }, threads, each, copied);
    serve([&] { return Theirs(plain, false); }, threads, each, theirs);
    serve([&] { return Theirs(plain, true); }, threads, each, mapped);
  }
  std::printf("%zu threads, each with a stream\n", threads);
  tell("call", called);
  tell("copies", copied);
  tell("driver", theirs);
  tell("driver, mapped", mapped);
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
