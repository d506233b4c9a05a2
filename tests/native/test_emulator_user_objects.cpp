// User objects of graphs: who holds them, when and where the call comes that ends one, what it may
// do.
#include <atomic>
#include <thread>

#include "emulator_test.h"

namespace {

constexpr auto kMove = CU_GRAPH_USER_OBJECT_MOVE;
constexpr auto kFlags = CU_USER_OBJECT_NO_DESTRUCTOR_SYNC;

struct Ended {
  std::atomic<int> times{0};
  std::thread::id thread;
};

void end(void *argument) {
  auto *ended = static_cast<Ended *>(argument);
  ended->thread = std::this_thread::get_id();
  ++ended->times;
}

CUuserObject make(Ended &ended, unsigned count = 1) {
  CUuserObject object = nullptr;
  OK(driver.cuUserObjectCreate(&object, &ended, end, count, kFlags));
  return object;
}

CUgraph make_graph() {
  CUgraph graph = nullptr;
  OK(driver.cuGraphCreate(&graph, 0));
  return graph;
}

void callers_count_their_references() {
  const Session session;
  Ended ended;
  const CUuserObject object = make(ended, 3);
  EQUAL(uint64_t{1}, driver.count("user_objects"));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuUserObjectRelease(object, 4));
  OK(driver.cuUserObjectRelease(object, 2));
  EQUAL(0, ended.times.load());
  OK(driver.cuUserObjectRelease(object, 1));
  EQUAL(1, ended.times.load());
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuUserObjectRelease(object, 1));
  EQUAL(uint64_t{0}, driver.count("user_objects"));
}

void graphs_hold_what_is_moved_or_given_to_them() {
  const Session session;
  Ended moved, given;
  const CUgraph graph = make_graph();
  const CUuserObject first = make(moved), second = make(given);
  OK(driver.cuGraphRetainUserObject(graph, first, 1, kMove));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuUserObjectRelease(first, 1));
  OK(driver.cuGraphRetainUserObject(graph, second, 1, 0));
  OK(driver.cuGraphDestroy(graph));
  EQUAL(1, moved.times.load());
  EQUAL(0, given.times.load());
  OK(driver.cuUserObjectRelease(second, 1));
  EQUAL(1, given.times.load());
}

void clones_and_execs_hold_them_too() {
  const Session session;
  Ended ended;
  CUgraph graph = make_graph(), clone = nullptr;
  CUgraphExec exec = nullptr;
  OK(driver.cuGraphRetainUserObject(graph, make(ended), 1, kMove));
  OK(driver.cuGraphClone(&clone, graph));
  OK(driver.cuGraphDestroy(graph));
  OK(driver.cuGraphInstantiateWithFlags(&exec, clone, 0));
  OK(driver.cuGraphDestroy(clone));
  EQUAL(0, ended.times.load());
  OK(driver.cuGraphExecDestroy(exec));
  EQUAL(1, ended.times.load());
}

void a_launch_in_flight_holds_them_and_ends_them_in_its_thread() {
  for (const auto mode : {emulator::StreamMode::lazy, emulator::StreamMode::threaded}) {
    const Session session(mode);
    OK(driver.set("held", 1));
    Ended ended;
    CUgraph graph = make_graph();
    CUgraphExec exec = nullptr;
    CUstream stream = nullptr;
    OK(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(driver.cuGraphRetainUserObject(graph, make(ended), 1, kMove));
    OK(driver.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(driver.cuGraphDestroy(graph));
    OK(driver.cuGraphLaunch(exec, stream));
    OK(driver.cuGraphExecDestroy(exec));
    EQUAL(0, ended.times.load());
    OK(driver.set("held", 0));
    OK(driver.cuStreamSynchronize(stream));
    EQUAL(1, ended.times.load());
    CHECK((ended.thread == std::this_thread::get_id()) == (mode == emulator::StreamMode::lazy));
    OK(driver.cuStreamDestroy(stream));
  }
}

void a_capture_that_came_to_nothing_ends_them() {
  const Session session;
  Ended ended;
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUstreamCaptureStatus status;
  OK(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(driver.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(driver.cuStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr));
  OK(driver.cuGraphRetainUserObject(graph, make(ended), 1, kMove));
  GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, driver.cuStreamSynchronize(stream));
  GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, driver.cuStreamEndCapture(stream, &graph));
  EQUAL(1, ended.times.load());
  OK(driver.cuStreamDestroy(stream));
}

void the_call_may_make_no_driver_call() {
  const Session session;
  CUresult result = CUDA_SUCCESS;
  CUuserObject object = nullptr;
  const auto ask = [](void *argument) {
    *static_cast<CUresult *>(argument) = driver.cuStreamQuery(nullptr);
  };
  OK(driver.cuUserObjectCreate(&object, &result, ask, 1, kFlags));
  OK(driver.cuUserObjectRelease(object, 1));
  GIVES(CUDA_ERROR_NOT_PERMITTED, result);
  OK(driver.cuStreamQuery(nullptr));
}

void wrong_arguments_are_refused() {
  const Session session;
  Ended ended;
  CUuserObject object = nullptr;
  const CUgraph graph = make_graph();
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuUserObjectCreate(&object, &ended, end, 0, kFlags));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuUserObjectCreate(&object, &ended, end, 1, 0));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuUserObjectCreate(&object, &ended, nullptr, 1, kFlags));
  object = make(ended);
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuGraphRetainUserObject(graph, object, 0, 0));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuGraphRetainUserObject(graph, object, 1, 2));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuGraphRetainUserObject(graph, object, 2, kMove));
  GIVES(CUDA_ERROR_INVALID_VALUE, driver.cuGraphRetainUserObject(nullptr, object, 1, 0));
  EQUAL(0, ended.times.load());
  OK(driver.cuUserObjectRelease(object, 1));
  OK(driver.cuGraphDestroy(graph));
}

void a_clone_runs_as_its_graph_does() {
  const Session session;
  CUdeviceptr word = 0;
  CUgraph graph = make_graph(), clone = nullptr;
  CUgraphNode first = nullptr, second = nullptr;
  CUgraphExec exec = nullptr;
  OK(driver.cuMemAlloc(&word, 4));
  CUDA_MEMSET_NODE_PARAMS fill{};
  fill.dst = word;
  fill.elementSize = 4;
  fill.width = fill.height = 1;
  fill.value = 1;
  OK(driver.cuGraphAddMemsetNode(&first, graph, nullptr, 0, &fill, session.context));
  fill.value = 2;
  OK(driver.cuGraphAddMemsetNode(&second, graph, &first, 1, &fill, session.context));
  OK(driver.cuGraphClone(&clone, graph));
  OK(driver.cuGraphDestroy(graph));
  OK(driver.cuGraphInstantiateWithFlags(&exec, clone, 0));
  OK(driver.cuGraphDestroy(clone));
  OK(driver.cuGraphLaunch(exec, nullptr));
  OK(driver.cuCtxSynchronize());
  uint32_t value = 0;
  OK(driver.cuMemcpyDtoH(&value, word, 4));
  EQUAL(2U, value);
  OK(driver.cuGraphExecDestroy(exec));
  OK(driver.cuMemFree(word));
}

}  // namespace

int main(int argc, char **argv) {
  CHECK(argc == 2);
  open_driver(argv[1]);
  callers_count_their_references();
  graphs_hold_what_is_moved_or_given_to_them();
  clones_and_execs_hold_them_too();
  a_launch_in_flight_holds_them_and_ends_them_in_its_thread();
  a_capture_that_came_to_nothing_ends_them();
  the_call_may_make_no_driver_call();
  wrong_arguments_are_refused();
  a_clone_runs_as_its_graph_does();
  return 0;
}
