// Stream captures of the emulator: what is recorded, what joins, what ends a capture, thread modes.
#include <thread>

#include "emulator_test.h"

namespace {

struct Stream {
  explicit Stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    OK(driver.cuStreamCreate(&handle, flags));
  }
  ~Stream() { OK(driver.cuStreamDestroy(handle)); }
  void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    OK(driver.cuStreamBeginCapture(handle, mode));
  }
  CUresult end() { return driver.cuStreamEndCapture(handle, &graph); }
  int status() {
    CUstreamCaptureStatus value;
    OK(driver.cuStreamIsCapturing(handle, &value));
    return value;
  }
  CUstream handle = nullptr;
  CUgraph graph = nullptr;
};

void replay(CUgraph graph, CUstream stream) {
  CUgraphExec exec = nullptr;
  OK(driver.cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(driver.cuGraphLaunch(exec, stream));
  OK(driver.cuStreamSynchronize(stream));
  OK(driver.cuGraphExecDestroy(exec));
  OK(driver.cuGraphDestroy(graph));
}

void captured_work_runs_when_its_graph_does() {
  Session session;
  Saxpy saxpy(100);
  Stream stream;
  stream.begin();
  EQUAL(CU_STREAM_CAPTURE_STATUS_ACTIVE, stream.status());
  OK(driver.cuMemsetD8Async(saxpy.y, 0, 400, stream.handle));
  OK(saxpy.launch(stream.handle));
  OK(stream.end());
  EQUAL(CU_STREAM_CAPTURE_STATUS_NONE, stream.status());
  CHECK(saxpy.holds(0.0F));
  replay(stream.graph, stream.handle);
  const std::vector<float> values = saxpy.result();
  for (uint32_t i = 0; i < 100; ++i) EQUAL(2.0F * static_cast<float>(i), values[i]);
}

void a_stream_joins_by_an_event_and_must_be_joined_again() {
  Session session;
  Saxpy saxpy(100);
  Stream first, second;
  CUevent fork = nullptr, join = nullptr;
  OK(driver.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  OK(driver.cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
  for (const bool joins : {true, false}) {
    first.begin();
    OK(driver.cuEventRecord(fork, first.handle));
    OK(driver.cuStreamWaitEvent(second.handle, fork, 0));
    EQUAL(CU_STREAM_CAPTURE_STATUS_ACTIVE, second.status());
    OK(saxpy.launch(second.handle));
    OK(driver.cuEventRecord(join, second.handle));
    if (joins) OK(driver.cuStreamWaitEvent(first.handle, join, 0));
    GIVES(joins ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED, first.end());
    EQUAL(CU_STREAM_CAPTURE_STATUS_NONE, second.status());
    if (joins) replay(first.graph, first.handle);
  }
  CHECK(saxpy.holds(2.0F));
  OK(driver.cuEventDestroy(fork));
  OK(driver.cuEventDestroy(join));
}

// What a capturing stream cannot do, and that its capture is over then.
void conflicts_end_the_capture() {
  Session session;
  Saxpy saxpy(100);
  Stream stream, other;
  CUevent outside = nullptr, inside = nullptr;
  OK(driver.cuEventCreate(&outside, CU_EVENT_DISABLE_TIMING));
  OK(driver.cuEventCreate(&inside, CU_EVENT_DISABLE_TIMING));
  OK(driver.cuEventRecord(outside, other.handle));
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  OK(driver.cuGraphCreate(&graph, 0));
  OK(driver.cuGraphInstantiateWithFlags(&exec, graph, 0));
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  OK(driver.cuThreadExchangeStreamCaptureMode(&mode));
  for (int kind = 0; kind < 7; ++kind) {
    stream.begin();
    OK(driver.cuEventRecord(inside, stream.handle));
    const CUresult unsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (kind == 0) GIVES(unsupported, driver.cuStreamSynchronize(stream.handle));
    if (kind == 1) GIVES(unsupported, driver.cuStreamQuery(stream.handle));
    if (kind == 2) GIVES(unsupported, driver.cuGraphLaunch(exec, stream.handle));
    if (kind == 3) GIVES(unsupported, driver.cuCtxSynchronize());
    if (kind == 4) {
      GIVES(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
            driver.cuStreamWaitEvent(stream.handle, outside, 0));
    }
    if (kind == 5) GIVES(CUDA_ERROR_CAPTURED_EVENT, driver.cuEventQuery(inside));
    if (kind == 6) GIVES(CUDA_ERROR_CAPTURED_EVENT, driver.cuEventSynchronize(inside));
    EQUAL(CU_STREAM_CAPTURE_STATUS_INVALIDATED, stream.status());
    GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, saxpy.launch(stream.handle));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream.end());
    CHECK(stream.graph == nullptr);
    OK(saxpy.launch(stream.handle));
  }
  OK(driver.cuThreadExchangeStreamCaptureMode(&mode));
  OK(driver.cuGraphExecDestroy(exec));
  OK(driver.cuGraphDestroy(graph));
  OK(driver.cuEventDestroy(outside));
  OK(driver.cuEventDestroy(inside));
}

CUresult allocate_in(CUstreamCaptureMode mode) {
  OK(driver.cuThreadExchangeStreamCaptureMode(&mode));
  CUdeviceptr memory = 0;
  const CUresult result = driver.cuMemAlloc(&memory, 256);
  if (result == CUDA_SUCCESS) OK(driver.cuMemFree(memory));
  OK(driver.cuThreadExchangeStreamCaptureMode(&mode));
  return result;
}

// Rows: mode of the capture; columns: mode of a thread that allocates, another or the capture's.
void unsafe_calls_are_forbidden_by_mode_and_thread() {
  Session session;
  Stream stream;
  constexpr CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                           CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                           CU_STREAM_CAPTURE_MODE_RELAXED};
  for (const CUstreamCaptureMode capture : modes) {
    for (const CUstreamCaptureMode thread_mode : modes) {
      for (const bool own : {true, false}) {
        const bool relaxed = thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED;
        const bool forbidden = !relaxed && (own ? capture != CU_STREAM_CAPTURE_MODE_RELAXED
                                                : capture == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                                      thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
        CUresult result = CUDA_ERROR_UNKNOWN;
        stream.begin(capture);
        if (own) {
          result = allocate_in(thread_mode);
        } else {
          std::thread([&] {
            OK(driver.cuCtxSetCurrent(session.context));
            result = allocate_in(thread_mode);
          }).join();
        }
        GIVES(forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS, result);
        GIVES(forbidden ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS, stream.end());
        if (!forbidden) OK(driver.cuGraphDestroy(stream.graph));
      }
    }
  }
}

void the_legacy_stream_ends_captures_of_blocking_streams_only() {
  Session session;
  Saxpy saxpy(100);
  Stream blocking(CU_STREAM_DEFAULT), apart;
  CUstreamCaptureStatus status;
  GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        driver.cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED));
  apart.begin();
  OK(saxpy.launch(nullptr));
  OK(apart.end());
  OK(driver.cuGraphDestroy(apart.graph));
  blocking.begin();
  GIVES(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, driver.cuStreamIsCapturing(nullptr, &status));
  EQUAL(CU_STREAM_CAPTURE_STATUS_ACTIVE, blocking.status());
  GIVES(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, saxpy.launch(nullptr));
  GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, blocking.end());
}

void an_end_on_another_thread_or_stream_is_refused() {
  Session session;
  Stream first, second;
  CUevent fork = nullptr;
  OK(driver.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  first.begin();
  std::thread([&] {
    OK(driver.cuCtxSetCurrent(session.context));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, first.end());
  }).join();
  GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, first.end());
  first.begin();
  OK(driver.cuEventRecord(fork, first.handle));
  OK(driver.cuStreamWaitEvent(second.handle, fork, 0));
  GIVES(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, second.end());
  GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, first.end());
  GIVES(CUDA_ERROR_ILLEGAL_STATE, first.end());
  OK(driver.cuEventDestroy(fork));
}

void each_thread_has_a_default_stream() {
  Session session(emulator::StreamMode::lazy);
  Saxpy saxpy(100);
  OK(saxpy.launch(CU_STREAM_PER_THREAD));
  std::thread([&] {
    OK(driver.cuCtxSetCurrent(session.context));
    OK(driver.cuStreamQuery(CU_STREAM_PER_THREAD));
  }).join();
  GIVES(CUDA_ERROR_NOT_READY, driver.cuStreamQuery(CU_STREAM_PER_THREAD));
  OK(driver.cuStreamSynchronize(CU_STREAM_PER_THREAD));
  CHECK(saxpy.holds(2.0F));
}

struct CaptureInfo {
  explicit CaptureInfo(CUstream stream) {
    OK(driver.cuStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &count));
  }
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode *nodes = nullptr;
  size_t count = 0;
};

// What is captured next comes behind the nodes that were added last, and they behind what was
// captured before: y = 0, then += 2 x twice.
void the_graph_of_a_capture_takes_nodes() {
  const Session session;
  Saxpy saxpy(100);
  Stream stream;
  EQUAL(CU_STREAM_CAPTURE_STATUS_NONE, CaptureInfo(stream.handle).status);
  stream.begin();
  OK(driver.cuMemsetD8Async(saxpy.y, 7, 400, stream.handle));
  const CaptureInfo before(stream.handle);
  EQUAL(CU_STREAM_CAPTURE_STATUS_ACTIVE, before.status);
  EQUAL(size_t{1}, before.count);
  const CUDA_MEMSET_NODE_PARAMS clear{saxpy.y, 0, 0, 4, 100, 1};
  CUDA_KERNEL_NODE_PARAMS kernel{};
  kernel.func = saxpy.function;
  kernel.gridDimX = 2;
  kernel.blockDimX = 64;
  kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = saxpy.arguments;
  CUgraphNode cleared = nullptr, added = nullptr;
  OK(driver.cuGraphAddMemsetNode(&cleared, before.graph, before.nodes, before.count, &clear,
                                 nullptr));
  OK(driver.cuGraphAddKernelNode(&added, before.graph, &cleared, 1, &kernel));
  OK(driver.cuStreamUpdateCaptureDependencies(stream.handle, &added, 1,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  const CaptureInfo after(stream.handle);
  EQUAL(before.id, after.id);
  CHECK(after.count == 1 && after.nodes[0] == added);
  OK(saxpy.launch(stream.handle));
  OK(stream.end());
  replay(stream.graph, stream.handle);
  const std::vector<float> values = saxpy.result();
  for (uint32_t i = 0; i < 100; ++i) EQUAL(4.0F * static_cast<float>(i), values[i]);
}

void wrong_uses_of_a_captured_graph_are_refused() {
  const Session session;
  Saxpy saxpy(100);
  Stream stream, other;
  CUgraph apart = nullptr;
  CUgraphNode node = nullptr;
  CUstreamCaptureStatus status;
  const CUDA_MEMSET_NODE_PARAMS fill{saxpy.y, 0, 0, 4, 100, 1};
  const auto update = [&](CUstream on, unsigned flags) {
    return driver.cuStreamUpdateCaptureDependencies(on, &node, 1, flags);
  };
  OK(driver.cuGraphCreate(&apart, 0));
  OK(driver.cuGraphAddMemsetNode(&node, apart, nullptr, 0, &fill, nullptr));
  GIVES(CUDA_ERROR_ILLEGAL_STATE, update(stream.handle, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
  stream.begin();
  const CaptureInfo info(stream.handle);
  GIVES(CUDA_ERROR_INVALID_VALUE, update(stream.handle, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
  GIVES(CUDA_ERROR_INVALID_VALUE, update(stream.handle, 7));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuGraphDestroy(info.graph));
  GIVES(CUDA_ERROR_INVALID_VALUE,
        driver.cuStreamGetCaptureInfo(stream.handle, nullptr, nullptr, nullptr, nullptr, nullptr));
  OK(driver.cuStreamGetCaptureInfo(stream.handle, &status, nullptr, nullptr, nullptr, nullptr));
  OK(driver.cuGraphAddMemsetNode(&node, info.graph, nullptr, 0, &fill, nullptr));
  OK(update(stream.handle, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
  GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, driver.cuStreamSynchronize(stream.handle));
  EQUAL(CU_STREAM_CAPTURE_STATUS_INVALIDATED, CaptureInfo(stream.handle).status);
  GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream.end());
  OK(driver.cuGraphDestroy(apart));
}

} // namespace

int main(int argc, char **argv) {
  CHECK(argc == 2);
  open_driver(argv[1]);
  captured_work_runs_when_its_graph_does();
  a_stream_joins_by_an_event_and_must_be_joined_again();
  conflicts_end_the_capture();
  unsafe_calls_are_forbidden_by_mode_and_thread();
  the_legacy_stream_ends_captures_of_blocking_streams_only();
  an_end_on_another_thread_or_stream_is_refused();
  each_thread_has_a_default_stream();
  the_graph_of_a_capture_takes_nodes();
  wrong_uses_of_a_captured_graph_are_refused();
  std::puts("captures: passed");
  return 0;
}
