// Streams and events of the emulated driver: order within and between streams in every mode, the
// default stream, laziness, timing, destruction with work queued, many threads at once.
#include <atomic>
#include <thread>

#include "emulator_test.h"

namespace {

using emulator::StreamMode;

CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  OK(driver.cuStreamCreate(&stream, flags));
  return stream;
}

CUevent make_event(unsigned flags = 0) {
  CUevent event = nullptr;
  OK(driver.cuEventCreate(&event, flags));
  return event;
}

// One 32-bit word of device memory that work in streams writes in turn.
struct Word {
  Word() { OK(driver.cuMemAlloc(&address, 4)); }
  ~Word() { OK(driver.cuMemFree(address)); }
  void set(uint32_t value, CUstream stream) {
    OK(driver.cuMemsetD32Async(address, value, 1, stream));
  }
  uint32_t get() {
    uint32_t value = 0;
    OK(driver.cuMemcpyDtoH(&value, address, 4));
    return value;
  }
  CUdeviceptr address = 0;
};

// A copy of a word into pinned memory, taken when its turn in the stream comes.
struct Snapshot {
  Snapshot() {
    void *memory = nullptr;
    OK(driver.cuMemHostAlloc(&memory, 4, 0));
    value = static_cast<uint32_t *>(memory);
    *value = 0;
  }
  ~Snapshot() { OK(driver.cuMemFreeHost(value)); }
  void take(const Word &word, CUstream stream) {
    OK(driver.cuMemcpyDtoHAsync(value, word.address, 4, stream));
  }
  uint32_t *value;
};

void saxpy_runs_in_every_mode() {
  for (const StreamMode mode : kModes) {
    const Session session(mode);
    Saxpy saxpy(1000);
    CUstream stream = make_stream();
    OK(saxpy.launch(stream));
    OK(driver.cuStreamSynchronize(stream));
    CHECK(saxpy.holds(2.0F));
    saxpy.a = 5.0F;
    OK(saxpy.launch(stream));
    saxpy.a = 100.0F;  // the argument was copied at the call
    OK(driver.cuCtxSynchronize());
    CHECK(saxpy.holds(7.0F));
    OK(saxpy.launch(nullptr));
    OK(driver.cuStreamSynchronize(nullptr));
    CHECK(saxpy.holds(107.0F));
    OK(driver.cuStreamDestroy(stream));
  }
}

void eager_work_is_done_when_the_call_returns() {
  const Session session(StreamMode::eager);
  CUstream stream = make_stream();
  Word word;
  Snapshot snapshot;
  word.set(3, stream);
  snapshot.take(word, stream);
  EQUAL(3U, *snapshot.value);
  OK(driver.cuStreamQuery(stream));
  OK(driver.cuStreamDestroy(stream));
}

void lazy_work_advances_one_operation_a_query() {
  const Session session(StreamMode::lazy);
  CUstream stream = make_stream();
  Word word;
  Snapshot snapshot;
  CUevent event = make_event();
  word.set(1, stream);
  snapshot.take(word, stream);
  OK(driver.cuEventRecord(event, stream));
  EQUAL(0U, *snapshot.value);
  GIVES(CUDA_ERROR_NOT_READY, driver.cuStreamQuery(stream));
  EQUAL(0U, *snapshot.value);
  GIVES(CUDA_ERROR_NOT_READY, driver.cuEventQuery(event));
  EQUAL(1U, *snapshot.value);
  GIVES(CUDA_ERROR_NOT_READY, driver.cuEventQuery(event));
  OK(driver.cuEventQuery(event));
  OK(driver.cuStreamQuery(stream));
  word.set(2, stream);
  snapshot.take(word, stream);
  OK(driver.cuStreamDestroy(stream));
  EQUAL(2U, *snapshot.value);
  OK(driver.cuEventDestroy(event));
}

void threaded_work_goes_on_behind_the_call() {
  const Session session;
  CUstream stream = make_stream();
  Word word;
  OK(driver.set("held", 1));
  EQUAL(-1, driver.set("held", 2));
  word.set(1, stream);
  GIVES(CUDA_ERROR_NOT_READY, driver.cuStreamQuery(stream));
  OK(driver.set("held", 0));
  while (driver.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  EQUAL(1U, word.get());
  OK(driver.cuStreamDestroy(stream));
}

void an_event_orders_two_streams() {
  for (const StreamMode mode : kModes) {
    const Session session(mode);
    CUstream first = make_stream();
    CUstream second = make_stream();
    CUevent event = make_event(CU_EVENT_DISABLE_TIMING);
    Word word;
    Snapshot snapshot;
    OK(driver.set("delay_us", 500));
    word.set(0, first);
    word.set(7, first);
    OK(driver.cuEventRecord(event, first));
    OK(driver.cuStreamWaitEvent(second, event, 0));
    snapshot.take(word, second);
    OK(driver.cuStreamSynchronize(second));
    EQUAL(7U, *snapshot.value);
    OK(driver.cuEventSynchronize(event));
    OK(driver.cuStreamDestroy(first));
    OK(driver.cuStreamDestroy(second));
    OK(driver.cuEventDestroy(event));
  }
}

void a_word_orders_two_streams() {
  for (const StreamMode mode : {StreamMode::threaded, StreamMode::lazy}) {
    const Session session(mode);
    CUstream first = make_stream();
    CUstream second = make_stream();
    Word word;
    Word flag;
    Snapshot snapshot;
    OK(driver.set("delay_us", 500));
    flag.set(0xfffffff0u, first);
    OK(driver.cuStreamSynchronize(first));
    word.set(7, first);
    OK(driver.cuStreamWriteValue32(first, flag.address, 3, CU_STREAM_WRITE_VALUE_DEFAULT));
    if (mode == StreamMode::lazy) OK(driver.cuStreamSynchronize(first));
    OK(driver.cuStreamWaitValue32(second, flag.address, 2, CU_STREAM_WAIT_VALUE_GEQ));
    snapshot.take(word, second);
    OK(driver.cuStreamSynchronize(second));
    EQUAL(7U, *snapshot.value);
    EQUAL(3U, flag.get());
    EQUAL(CUDA_ERROR_INVALID_VALUE, driver.cuStreamWaitValue32(second, flag.address + 1, 2, 0));
    EQUAL(CUDA_ERROR_INVALID_VALUE, driver.cuStreamWriteValue32(second, 64, 2, 0));
    EQUAL(CUDA_ERROR_NOT_SUPPORTED, driver.cuStreamWaitValue32(second, flag.address, 2, 1));
    EQUAL(CUDA_ERROR_INVALID_HANDLE,
          driver.cuStreamWriteValue32((CUstream)(uintptr_t)0xfff0, flag.address, 2, 0));
    OK(driver.cuStreamDestroy(first));
    OK(driver.cuStreamDestroy(second));
  }
}

void the_default_stream_orders_blocking_streams_only() {
  for (const StreamMode mode : kModes) {
    const Session session(mode);
    CUstream blocking = make_stream(CU_STREAM_DEFAULT);
    CUstream other = make_stream(CU_STREAM_DEFAULT);
    Word word;
    Snapshot snapshot;
    OK(driver.set("delay_us", 500));
    word.set(1, blocking);
    OK(driver.cuMemsetD32Async(word.address, 2, 1, nullptr));  // after `blocking`, before `other`
    snapshot.take(word, other);
    OK(driver.cuStreamSynchronize(other));
    EQUAL(2U, *snapshot.value);
    EQUAL(2U, word.get());
    OK(driver.cuStreamDestroy(blocking));
    OK(driver.cuStreamDestroy(other));
  }
  const Session session(StreamMode::lazy);
  CUstream apart = make_stream(CU_STREAM_NON_BLOCKING);
  Word word;
  Snapshot snapshot;
  word.set(1, apart);
  snapshot.take(word, apart);
  OK(driver.cuStreamSynchronize(nullptr));
  EQUAL(0U, *snapshot.value);
  OK(driver.cuStreamSynchronize(apart));
  EQUAL(1U, *snapshot.value);
  OK(driver.cuStreamDestroy(apart));
}

void events_measure_time_and_say_when_they_cannot() {
  const Session session;
  CUstream stream = make_stream();
  CUevent start = make_event();
  CUevent end = make_event();
  CUevent untimed = make_event(CU_EVENT_DISABLE_TIMING);
  float milliseconds = -1.0F;
  OK(driver.cuEventQuery(start));  // never recorded: complete
  OK(driver.cuEventSynchronize(start));
  GIVES(CUDA_ERROR_INVALID_HANDLE, driver.cuEventElapsedTime(&milliseconds, start, end));
  OK(driver.set("delay_us", 2000));
  OK(driver.set("held", 1));
  OK(driver.cuEventRecord(start, stream));
  OK(driver.cuEventRecordWithFlags(end, stream, CU_EVENT_RECORD_DEFAULT));
  OK(driver.cuEventRecord(untimed, stream));
  GIVES(CUDA_ERROR_NOT_READY, driver.cuEventElapsedTime(&milliseconds, start, end));
  OK(driver.set("held", 0));
  OK(driver.cuEventSynchronize(end));
  OK(driver.cuEventElapsedTime(&milliseconds, start, end));
  CHECK(milliseconds >= 2.0F);
  GIVES(CUDA_ERROR_INVALID_HANDLE, driver.cuEventElapsedTime(&milliseconds, start, untimed));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuEventCreate(&start, 0x100));
  for (const CUevent event : {start, end, untimed}) OK(driver.cuEventDestroy(event));
  OK(driver.cuStreamDestroy(stream));
}

void a_destroyed_stream_finishes_its_work() {
  const Session session;
  Word word;
  Snapshot snapshot;
  CUstream stream = make_stream();
  OK(driver.set("delay_us", 2000));
  word.set(9, stream);
  snapshot.take(word, stream);
  OK(driver.cuStreamDestroy(stream));
  EQUAL(uint64_t{0}, driver.count("streams"));
  OK(driver.cuCtxSynchronize());
  EQUAL(9U, *snapshot.value);
}

void work_queued_in_one_mode_runs_in_the_next() {
  for (const StreamMode mode : {StreamMode::eager, StreamMode::threaded}) {
    const Session session(StreamMode::lazy);
    CUstream stream = make_stream();
    Word word;
    word.set(4, stream);
    OK(driver.set("stream_mode", static_cast<int64_t>(mode)));
    while (driver.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
    EQUAL(4U, word.get());
    OK(driver.cuStreamDestroy(stream));
  }
}

void streams_never_capture() {
  const Session session;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  OK(driver.cuStreamIsCapturing(nullptr, &status));
  EQUAL(CU_STREAM_CAPTURE_STATUS_NONE, status);
  CUstream stream = nullptr;
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuStreamCreate(&stream, 2));
  OK(driver.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -100));
  OK(driver.cuStreamDestroy(stream));
}

void many_threads_share_the_driver() {
  for (const StreamMode mode : kModes) {
    const Session session(mode);
    Saxpy shared(64);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&session, &shared, t] {
        OK(driver.cuCtxSetCurrent(session.context));
        for (uint32_t round = 0; round < 20; ++round) {
          CUstream stream = make_stream(t % 2 == 0 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
          CUstream second = make_stream();
          CUevent event = make_event();
          Word word;
          Snapshot snapshot;
          word.set(round, stream);
          OK(driver.cuEventRecord(event, stream));
          OK(driver.cuStreamWaitEvent(second, event, 0));
          snapshot.take(word, second);
          OK(driver.cuStreamDestroy(stream));
          OK(driver.cuStreamSynchronize(second));
          EQUAL(round, *snapshot.value);
          CUdeviceptr y = 0;
          OK(driver.cuMemAlloc(&y, 256));
          OK(driver.cuMemsetD8Async(y, 0, 256, second));
          float a = 1.0F;
          uint32_t n = 64;
          void *arguments[] = {&shared.x, &y, &a, &n};
          OK(driver.cuLaunchKernel(shared.function, 1, 1, 1, 64, 1, 1, 0, second, arguments,
                                   nullptr));
          float values[64];
          OK(driver.cuMemcpyDtoHAsync(values, y, sizeof values, second));
          EQUAL(63.0F, values[63]);
          OK(driver.cuMemFree(y));
          OK(driver.cuEventDestroy(event));
          OK(driver.cuStreamDestroy(second));
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
  }
}

}  // namespace

int main(int argc, char **argv) {
  CHECK(argc == 2);
  open_driver(argv[1]);
  saxpy_runs_in_every_mode();
  eager_work_is_done_when_the_call_returns();
  lazy_work_advances_one_operation_a_query();
  threaded_work_goes_on_behind_the_call();
  an_event_orders_two_streams();
  a_word_orders_two_streams();
  the_default_stream_orders_blocking_streams_only();
  events_measure_time_and_say_when_they_cannot();
  a_destroyed_stream_finishes_its_work();
  work_queued_in_one_mode_runs_in_the_next();
  streams_never_capture();
  many_threads_share_the_driver();
  return 0;
}
