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
#include <thread>

#include "worker.hpp"

namespace {

using Clock = std::chrono::steady_clock;
std::atomic<bool> g_stop{false}, g_reload{false};

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

// In the text format of Prometheus.
void print_metrics(const vyre::Context &context, const std::vector<double> &times, long failed) {
  context.statistics([](const vyre::Statistic &each) {
    std::printf("# HELP vyre_%s %s\n# TYPE vyre_%s %s\nvyre_%s %llu\n", each.name, each.help,
                each.name, each.kind == VYC_STATS_TOTAL ? "counter" : "gauge", each.name,
                static_cast<unsigned long long>(each.value));
  });
  for (const double q : {0.5, 0.99, 0.999})
    std::printf("service_seconds{quantile=\"%g\"} %g\n", q,
                times.empty() ? 0 : times[std::size_t(q * double(times.size()))]);
  std::printf("service_requests{outcome=\"ok\"} %zu\n", times.size());
  std::printf("service_requests{outcome=\"failed\"} %ld\n", failed);
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
      for (Request request{}; queue.pop(request);) {
        const auto now = std::atomic_load(&model); // stays while it is used
        const vyc_status status = worker.serve(*now, request.kind, request.a);
        if (status == VYC_E_LOST || status == VYC_E_UNAVAILABLE) g_stop = true;
        const std::chrono::duration<double> time = Clock::now() - request.at;
        if (status == VYC_OK) worker.times.push_back(time.count());
      }
    });
  const auto end = Clock::now() + seconds;
  for (long i = 1; Clock::now() < end && !g_stop; i++) {
    queue.push({i % 50 != 0 ? i % 3 : 3, i % 50 != 0 ? float(i % 7) : -1.0f, Clock::now()});
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
  long failed = 0, asserts = 0, wrong = 0, binds = 0;
  for (const Worker &each : workers) {
    times.insert(times.end(), each.times.begin(), each.times.end());
    failed += each.failed, asserts += each.asserts, wrong += each.wrong, binds += each.binds;
  }
  std::sort(times.begin(), times.end());
  print_metrics(context, times, failed + asserts);
  std::printf("ok %zu, failed %ld, asserts %ld, wrong %ld, reloads %d, binds %ld\n", times.size(),
              failed, asserts, wrong, generation - 1, binds);
  workers.clear();
  model.reset();
  context.close(std::chrono::seconds(5));
  return wrong == 0 ? 0 : 1;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
