// A service: threads with a stream each answer requests, bundles are replaced while it runs, failed
// requests are told, and it ends in good order.
//
//   python models.py models.vyre && python models.py next.vyre 100
//   vyre-cuda bundle models.vyre --cpp models.hpp
//   service models.vyre next.vyre [THREADS] [SECONDS] [DRIVER [FAULTS]]
//
// SIGHUP loads the other bundle, SIGTERM ends it. With FAULTS the emulator makes driver calls fail.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "models.hpp"

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t n = 256;
std::atomic<bool> g_stop{false}, g_reload{false};
std::atomic<long> g_failed{0}, g_asserts{0}, g_wrong{0}, g_binds{0};

struct Request {
  long kind;
  float a;
  Clock::time_point at;
};

class Queue { // bounded; nothing goes in after it was closed
 public:
  void push(const Request &request) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return requests_.size() < 64; });
    requests_.push_back(request);
    changed_.notify_all();
  }
  bool pop(Request &request) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !requests_.empty() || closed_; });
    if (requests_.empty()) return false;
    request = requests_.front();
    requests_.pop_front();
    changed_.notify_all();
    return true;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> requests_;
  bool closed_ = false;
};

struct Model { // one generation of the bundle
  Model(const vyre::Context &context, const char *path, int generation)
      : bundle(vyre::Bundle::open(path)), saxpy(context, bundle), tone(context, bundle),
        guard(context, bundle), bias(generation % 2 != 0 ? 0.0f : 100.0f) {}
  vyre::Bundle bundle;
  models::Saxpy saxpy;
  models::Tone tone;
  models::Guard guard;
  float bias;
};

struct Worker {
  explicit Worker(const vyre::Context &on) : context(on), stream(vyre::Stream::create(on)) {}

  // False: the context is lost.
  bool serve(const std::shared_ptr<const Model> &now, const Request &request) try {
    if (model != now) bind(now);
    if (!is_answered(request.kind, request.a)) g_wrong++;
    times.push_back(std::chrono::duration<double>(Clock::now() - request.at).count());
    return true;
  } catch (const vyre::Error &error) {
    auto &count = error.status == VYC_E_ASSERT ? g_asserts : g_failed;
    if (count++ < 2) std::printf("status %d: %s\n", error.status, error.what());
    return error.status != VYC_E_LOST && error.status != VYC_E_UNAVAILABLE;
  }
  void bind(const std::shared_ptr<const Model> &now) {
    call = now->saxpy.bind(stream, x, x, out, 2.0f);
    replay = models::Twice(context, now->bundle);
    model = now;
    g_binds++;
  }
  bool is_answered(long kind, float a) {
    const float sum = a + 1 + model->bias;
    std::vector<float> result(n), input(host);
    switch (kind) {
    case 0:
      model->tone.within(std::chrono::seconds(2))(host, result, a, 0.0f);
      return result[7] == std::min(a, 1.0f);
    case 1:
      call.set<3>(a);
      call();
      out.copy_out(result);
      return result[7] == sum;
    case 2:
      replay.x(x).a(a).out(out).launch(stream);
      out.copy_out(result);
      return result[7] == a * sum + 1 + model->bias;
    default:
      input[5] = a;
      model->guard.within(std::chrono::seconds(2))(input, result);
      return a >= 0;
    }
  }

  const vyre::Context &context;
  vyre::Stream stream;
  std::vector<float> host = std::vector<float>(n, 1.0f);
  vyre::Array<float> x = vyre::Array<float>::copy_of(context, host);
  vyre::Array<float> out = vyre::Array<float>::alloc(context, n);
  std::shared_ptr<const Model> model;
  models::Saxpy::Bound call;
  models::Twice replay;
  std::vector<double> times; // seconds
};

// In the text format of Prometheus.
std::string metrics(const vyre::Context &context, const std::vector<double> &times, long failed) {
  std::string text;
  context.statistics([&](const vyre::Statistic &each) {
    const std::string name = std::string("vyre_") + each.name;
    text += "# HELP " + name + " " + each.help + "\n# TYPE " + name +
            (each.kind == VYC_STATS_TOTAL ? " counter\n" : " gauge\n") + name + " " +
            std::to_string(each.value) + "\n";
  });
  for (const char *q : {"0.5", "0.99", "0.999"}) {
    const auto at = static_cast<std::size_t>(std::atof(q) * static_cast<double>(times.size()));
    text += std::string("service_seconds{quantile=\"") + q + "\"} " +
            std::to_string(times.empty() ? 0 : times[at]) + "\n";
  }
  return text + "service_requests{outcome=\"ok\"} " + std::to_string(times.size()) +
         "\nservice_requests{outcome=\"failed\"} " + std::to_string(failed) + "\n";
}

} // namespace

int main(int count, char **words) try {
  const std::chrono::duration<double> seconds(count > 4 ? std::atof(words[4]) : 3);
  const char *path = count > 5 ? words[5] : nullptr;
  int (*fail)(const char *, std::uint64_t, std::int32_t, std::int32_t) = nullptr;
  if (count > 6)
    fail = reinterpret_cast<decltype(fail)>(dlsym(dlopen(path, RTLD_NOW), "vyre_emulator_fail"));
  std::signal(SIGTERM, [](int) { g_stop = true; });
  std::signal(SIGHUP, [](int) { g_reload = true; });
  const auto driver = vyre::Driver::open(path);
  auto context = vyre::Context::open(driver);
  int generation = 1;
  auto model = std::make_shared<const Model>(context, words[1], generation);
  Queue queue;
  std::deque<Worker> workers;
  std::vector<std::thread> threads;
  for (int i = count > 3 ? std::atoi(words[3]) : 2; i > 0; i--) workers.emplace_back(context);
  for (Worker &worker : workers)
    threads.emplace_back([&] {
      const vyre::Current current(context);
      for (Request request{}; queue.pop(request);)
        if (!worker.serve(std::atomic_load(&model), request)) g_stop = true;
    });
  const auto end = Clock::now() + seconds;
  for (long i = 1; Clock::now() < end && !g_stop; i++) {
    const bool is_bad = i % 50 == 0;
    queue.push({is_bad ? 3 : i % 3, is_bad ? -1.0f : static_cast<float>(i % 7), Clock::now()});
    if (i % 1000 == 500 || g_reload.exchange(false)) {
      const char *next = words[++generation % 2 != 0 ? 1 : 2];
      std::atomic_store(&model, std::make_shared<const Model>(context, next, generation));
    }
    if (fail != nullptr && i % 700 == 0)
      fail(i % 1400 != 0 ? "cuGraphLaunch" : "cuMemcpyDtoHAsync", 1, 2, 0);
  }
  queue.close();
  for (std::thread &each : threads) each.join();
  std::vector<double> times;
  for (const Worker &each : workers)
    times.insert(times.end(), each.times.begin(), each.times.end());
  std::sort(times.begin(), times.end());
  std::fputs(metrics(context, times, g_failed + g_asserts).c_str(), stdout);
  std::printf("ok %zu, failed %ld, asserts %ld, wrong %ld, reloads %d, binds %ld\n", times.size(),
              g_failed.load(), g_asserts.load(), g_wrong.load(), generation - 1, g_binds.load());
  workers.clear();
  model.reset();
  context.close(std::chrono::seconds(5));
  return g_wrong == 0 ? 0 : 1;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
