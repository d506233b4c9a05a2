// Streams, the operations queued in them, and the engine that runs the operations.
//
// An operation runs after its predecessor in the stream and after every operation in `after`, all
// of which were enqueued before it, so waiting can never form a cycle. Who runs it depends on the
// mode: the enqueuing call (eager), the stream's own thread (threaded), the waiting thread (lazy).
// One mutex, State::mutex, guards everything here; operations themselves run outside it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "call.h"

namespace emulator {

struct Stream;
struct Capture;
struct CapturedPoint;
using Lock = std::unique_lock<std::mutex>;

struct Operation {
  std::function<void()> work;
  std::vector<std::shared_ptr<Operation>> after; // empty once it started
  std::shared_ptr<Stream> stream; // empty once it finished
  bool done = false;
  std::chrono::steady_clock::time_point finished_at{};
};
using Operations = std::vector<std::shared_ptr<Operation>>;

struct Stream {
  int device = 0;
  bool blocking = true; // synchronizes with the default stream
  int priority = 0;
  std::deque<std::shared_ptr<Operation>> queue; // the front one may be running
  bool running = false;
  bool closing = false; // destroyed: retires when its queue is empty
  std::condition_variable wake;
  std::thread worker;
  std::shared_ptr<Capture> capture; // while work given to it is recorded instead of run

  std::shared_ptr<Operation> last() const { return queue.empty() ? nullptr : queue.back(); }
};

struct Event {
  int device = 0;
  unsigned flags = 0;
  std::shared_ptr<Operation> record; // the latest cuEventRecord
  std::shared_ptr<CapturedPoint> captured; // that was inside a capture; `record` is empty then
};

class Engine {
 public:
  explicit Engine(std::mutex &mutex) : mutex_(mutex) {}
  void open(std::shared_ptr<Stream> stream);
  // Nothing new will come; what is queued still runs.
  void close(Lock &lock, const std::shared_ptr<Stream> &stream);

  // An operation that will run after everything that is queued now; submit() it before releasing
  // the lock.
  std::shared_ptr<Operation> prepare(const std::shared_ptr<Stream> &stream,
                                     std::function<void()> work, Operations after = {}) const;
  // Queues; in eager mode also runs, without the lock.
  void submit(Lock &lock, const std::shared_ptr<Operation> &operation);
  std::shared_ptr<Operation> submit(Lock &lock, const std::shared_ptr<Stream> &stream,
                                    std::function<void()> work, Operations after = {});
  // Returns when the operation is done, or the library is shutting down.
  void finish(Lock &lock, const std::shared_ptr<Operation> &operation);
  // Returns when the stream has room for more work, see "queue_depth" in control.h.
  void make_room(Lock &lock, const std::shared_ptr<Stream> &stream);
  void finish(Lock &lock, const Operations &operations);
  // What a wait on this stream waits for: the default stream includes all blocking streams.
  Operations pending(const std::shared_ptr<Stream> &stream) const;
  Operations pending(int device) const;
  // True when all are done. In lazy mode a question that finds work moves it on by one operation.
  bool query(Lock &lock, const Operations &operations);

  void mode_changed();
  void hold_changed();
  void shut_down(Lock &lock);
  const std::shared_ptr<Stream> &default_stream(int device) const {
    return default_streams_[device];
  }
  void open_default(int device);
  void close_all(Lock &lock, int device);
  // Set when running kernels should stop: the library is shutting down.
  const std::atomic<bool> *cancel() const { return &cancel_; }

 private:
  bool drive(Lock &lock, const std::shared_ptr<Stream> &stream);
  void run_head(Lock &lock, const std::shared_ptr<Stream> &stream);
  void serve(std::shared_ptr<Stream> stream);
  void start_worker(const std::shared_ptr<Stream> &stream);
  void retire_if_over(const std::shared_ptr<Stream> &stream);
  void join_exited();

  std::mutex &mutex_;
  std::vector<std::shared_ptr<Stream>> streams_; // all that are open or still have work
  std::shared_ptr<Stream> default_streams_[kMaxDevices];
  std::vector<std::thread> exited_; // threads that only have to be joined
  std::condition_variable finished_;
  std::condition_variable halt_;
  bool stopping_ = false;
  std::atomic<bool> cancel_{false};
};

} // namespace emulator
