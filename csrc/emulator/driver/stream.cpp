// The engine: queues of operations, the threads that serve them, waiting, shutdown.
#include "stream.h"

#include <algorithm>

namespace emulator {
namespace {

void perform(int device, const std::function<void()> &work) {
  try {
    work();
  } catch (const std::bad_alloc &) {
    lose_device(device, CUDA_ERROR_LAUNCH_FAILED, "the emulator ran out of host memory");
  }
}

// Synchronizes with the default stream of this device.
bool is_blocking(const Stream &stream, int device) {
  return stream.blocking && stream.device == device;
}

}  // namespace

void Engine::open(std::shared_ptr<Stream> stream) { streams_.push_back(std::move(stream)); }

void Engine::open_default(int device) {
  auto stream = std::make_shared<Stream>();
  stream->device = device;
  open(default_streams_[device] = std::move(stream));
}

void Engine::close(Lock &lock, const std::shared_ptr<Stream> &stream) {
  stream->closing = true;
  if (settings().mode() != StreamMode::threaded) finish(lock, pending(stream));
  stream->wake.notify_all();
  retire_if_over(stream);
}

void Engine::close_all(Lock &lock, int device) {
  finish(lock, pending(device));
  const std::vector<std::shared_ptr<Stream>> all = streams_;
  for (const auto &stream : all) {
    if (stream->device == device) close(lock, stream);
  }
  default_streams_[device].reset();
}

// A stream with a thread stays listed until the thread has left, so that shutdown can join it.
void Engine::retire_if_over(const std::shared_ptr<Stream> &stream) {
  if (!stream->closing || !stream->queue.empty() || stream->worker.joinable()) return;
  streams_.erase(std::remove(streams_.begin(), streams_.end(), stream), streams_.end());
}

std::shared_ptr<Operation> Engine::prepare(const std::shared_ptr<Stream> &stream,
                                           std::function<void()> work, Operations after) const {
  auto operation = std::make_shared<Operation>();
  operation->stream = stream;
  operation->work = std::move(work);
  operation->after = std::move(after);
  const std::shared_ptr<Stream> &legacy = default_streams_[stream->device];
  if (stream == legacy) {
    for (const auto &other : streams_) {
      if (other != stream && is_blocking(*other, stream->device) && other->last())
        operation->after.push_back(other->last());
    }
  } else if (stream->blocking && legacy && legacy->last()) {
    operation->after.push_back(legacy->last());
  }
  return operation;
}

void Engine::submit(Lock &lock, const std::shared_ptr<Operation> &operation) {
  const std::shared_ptr<Stream> stream = operation->stream;
  join_exited();
  const StreamMode mode = settings().mode();
  if (mode == StreamMode::threaded) start_worker(stream);
  stream->queue.push_back(operation);
  if (mode == StreamMode::threaded) stream->wake.notify_all();
  if (mode == StreamMode::eager) finish(lock, operation);
}

std::shared_ptr<Operation> Engine::submit(Lock &lock, const std::shared_ptr<Stream> &stream,
                                          std::function<void()> work, Operations after) {
  auto operation = prepare(stream, std::move(work), std::move(after));
  submit(lock, operation);
  return operation;
}

void Engine::finish(Lock &lock, const std::shared_ptr<Operation> &operation) {
  while (!operation->done && !stopping_) {
    const bool threaded = settings().mode() == StreamMode::threaded;
    if (threaded || !drive(lock, operation->stream)) finished_.wait(lock);
  }
}

void Engine::make_room(Lock &lock, const std::shared_ptr<Stream> &stream) {
  const auto depth = static_cast<size_t>(settings().queue_depth);
  while (depth > 0 && stream->queue.size() >= depth && !stopping_) {
    const bool threaded = settings().mode() == StreamMode::threaded;
    if (threaded || !drive(lock, stream)) finished_.wait(lock);
  }
}

void Engine::finish(Lock &lock, const Operations &operations) {
  for (const auto &operation : operations) finish(lock, operation);
}

Operations Engine::pending(const std::shared_ptr<Stream> &stream) const {
  Operations result;
  if (stream->last()) result.push_back(stream->last());
  if (stream != default_streams_[stream->device]) return result;
  for (const auto &other : streams_) {
    if (other != stream && is_blocking(*other, stream->device) && other->last())
      result.push_back(other->last());
  }
  return result;
}

Operations Engine::pending(int device) const {
  Operations result;
  for (const auto &stream : streams_) {
    if (stream->device == device && stream->last()) result.push_back(stream->last());
  }
  return result;
}

bool Engine::query(Lock &lock, const Operations &operations) {
  for (const auto &operation : operations) {
    if (operation->done) continue;
    if (settings().mode() != StreamMode::threaded) drive(lock, operation->stream);
    return false;
  }
  return true;
}

// Runs one operation on this thread: the head of the stream, or what that one waits for. False when
// another thread is at it, so that the caller has to wait.
bool Engine::drive(Lock &lock, const std::shared_ptr<Stream> &stream) {
  if (stream == nullptr || stream->running || stream->queue.empty()) return false;
  const std::shared_ptr<Operation> head = stream->queue.front();
  for (const auto &before : head->after) {
    if (!before->done) return drive(lock, before->stream);
  }
  const std::shared_ptr<Stream> keep = stream;  // `stream` may be a field of the operation
  run_head(lock, keep);
  return true;
}

void Engine::run_head(Lock &lock, const std::shared_ptr<Stream> &stream) {
  const std::shared_ptr<Operation> operation = stream->queue.front();
  stream->running = true;
  operation->after.clear();
  const std::chrono::microseconds delay(settings().delay_us.load());
  if (delay.count() > 0) halt_.wait_for(lock, delay, [this] { return stopping_; });
  halt_.wait(lock, [this] { return stopping_ || settings().held.load() == 0; });
  const bool run = !stopping_ && process().lost[stream->device] == CUDA_SUCCESS;
  lock.unlock();
  // It stays the operation's meanwhile, which the queue holds: in a process forked now it is not
  // lost with this thread.
  if (run && operation->work) perform(stream->device, operation->work);
  operation->work = nullptr;  // what it held is released outside the lock
  lock.lock();
  operation->done = true;
  operation->finished_at = std::chrono::steady_clock::now();
  operation->stream.reset();
  stream->queue.pop_front();
  stream->running = false;
  retire_if_over(stream);
  stream->wake.notify_all();
  finished_.notify_all();
}

void Engine::start_worker(const std::shared_ptr<Stream> &stream) {
  if (stream->worker.joinable() || stopping_) return;
  stream->worker = std::thread([this, stream] { serve(stream); });
}

// The life of a stream's thread. A closed stream is served in every mode: no other thread can reach
// it.
void Engine::serve(std::shared_ptr<Stream> stream) {
  Lock lock(mutex_);
  while (!stopping_ && !(stream->closing && stream->queue.empty())) {
    const bool mine = settings().mode() == StreamMode::threaded || stream->closing;
    if (!mine || stream->running || stream->queue.empty()) {
      stream->wake.wait(lock);
      continue;
    }
    const Operations &after = stream->queue.front()->after;
    const bool ready =
        std::all_of(after.begin(), after.end(), [](const auto &before) { return before->done; });
    if (ready) {
      run_head(lock, stream);
    } else {
      finished_.wait(lock);
    }
  }
  if (stopping_) return;  // shut_down() took the thread and joins it
  exited_.push_back(std::move(stream->worker));
  retire_if_over(stream);
}

// A thread in exited_ has given up the lock for good, so joining it under the lock cannot block on
// it.
void Engine::join_exited() {
  for (std::thread &thread : exited_) thread.join();
  exited_.clear();
}

void Engine::hold_changed() { halt_.notify_all(); }

void Engine::mode_changed() {
  const bool threaded = settings().mode() == StreamMode::threaded;
  for (const auto &stream : streams_) {
    if (threaded && !stream->queue.empty()) start_worker(stream);
    stream->wake.notify_all();
  }
  finished_.notify_all();
}

void Engine::shut_down(Lock &lock) {
  stopping_ = true;
  cancel_ = true;
  std::vector<std::thread> threads = std::move(exited_);
  exited_.clear();
  for (const auto &stream : streams_) {
    stream->wake.notify_all();
    if (stream->worker.joinable()) threads.push_back(std::move(stream->worker));
  }
  finished_.notify_all();
  halt_.notify_all();
  lock.unlock();
  for (std::thread &thread : threads) thread.join();
  lock.lock();
}

}  // namespace emulator
