// Captures: begin, end, joining by events, and what invalidates them.
#include "capture.h"

#include <algorithm>

#include "state.h"

namespace emulator {

std::atomic<int> open_captures;

namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

uint64_t next_id = 0;  // State::mutex guards it

// Ongoing captures. State::mutex guards it.
std::vector<std::shared_ptr<Capture>> &captures() {
  static auto *const instance = new std::vector<std::shared_ptr<Capture>>;
  return *instance;
}

// Calls that may wait for a device or touch what a capture holds in flight.
bool is_unsafe(Call id) {
  switch (id) {
  case Call::cuMemAlloc:
  case Call::cuMemFree:
  case Call::cuMemHostAlloc:
  case Call::cuMemFreeHost:
  case Call::cuMemHostRegister:
  case Call::cuMemHostUnregister:
  case Call::cuMemGetInfo:
  case Call::cuMemcpyHtoD:
  case Call::cuMemcpyDtoH:
  case Call::cuCtxEnablePeerAccess:
  case Call::cuCtxDisablePeerAccess:
  case Call::cuIpcGetMemHandle:
  case Call::cuIpcOpenMemHandle:
  case Call::cuIpcCloseMemHandle:
  case Call::cuModuleLoadData:
  case Call::cuModuleLoadDataEx:
  case Call::cuModuleUnload:
  case Call::cuModuleGetFunction:
  case Call::cuFuncSetAttribute:
  case Call::cuLinkCreate:
  case Call::cuLinkAddData:
  case Call::cuLinkComplete:
  case Call::cuLinkDestroy:
  case Call::cuStreamCreate:
  case Call::cuStreamCreateWithPriority:
  case Call::cuStreamDestroy:
  case Call::cuStreamSynchronize:
  case Call::cuStreamQuery:
  case Call::cuEventQuery:
  case Call::cuEventSynchronize:
  case Call::cuGraphInstantiateWithFlags:
  case Call::cuGraphExecDestroy: return true;
  default: return false;
  }
}

bool forbids(const Capture &capture) {
  const bool own = capture.thread == std::this_thread::get_id();
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (own && capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED) return true;
  return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
         capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

bool is_legacy(State &s, const std::shared_ptr<Stream> &where) {
  return where == s.engine.default_stream(where->device);
}

// Ends every capture that a use of the device's legacy default stream would have to be ordered
// with.
bool invalidate_blocking(int device) {
  bool found = false;
  for (const auto &capture : captures()) {
    for (const auto &stream : capture->streams) {
      if (stream->blocking && stream->device == device) capture->invalid = found = true;
    }
  }
  return found;
}

// `into`: nullptr for a graph of its own; else what is captured follows these nodes of it.
CUresult begin(CUstream handle, CUstreamCaptureMode mode, CUgraph into = nullptr,
               const Frontier &behind = {}) {
  if (number(mode) < 0 || number(mode) > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  State &s = state();
  Lock lock(s.mutex);
  const auto where = s.stream_of(handle);
  const auto target = into == nullptr ? nullptr : s.graphs.find(into);
  if (into != nullptr && (target == nullptr || target->is_captured))
    return CUDA_ERROR_INVALID_VALUE;
  for (const CUgraphNode node : behind) {
    const auto found = s.nodes.find(node);
    if (found == nullptr || found->graph != target.get()) return CUDA_ERROR_INVALID_VALUE;
  }
  if (where == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (is_legacy(s, where)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (where->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = where;
  capture->streams.push_back(where);
  if (into != nullptr) {
    if (target->device != where->device) return CUDA_ERROR_INVALID_VALUE;
    target->is_captured = true;
    capture->graph = into;
    capture->is_given = true;
    capture->frontiers[where.get()] = behind;
  } else {
    auto graph = std::make_shared<Graph>();
    graph->device = where->device;
    graph->is_captured = true;
    capture->graph = s.graphs.add(std::move(graph));
  }
  capture->id = ++next_id;
  where->capture = capture;
  captures().push_back(std::move(capture));
  ++open_captures;
  return CUDA_SUCCESS;
}

// The graph is left to the caller.
void close(const std::shared_ptr<Capture> &capture) {
  for (const auto &stream : capture->streams) stream->capture.reset();
  capture->origin.reset();
  auto &all = captures();
  all.erase(std::remove(all.begin(), all.end(), capture), all.end());
  --open_captures;
}

// The graph of a capture that failed; one that was given stays, with the nodes it has got.
void drop(const Capture &capture) {
  if (!capture.is_given) return destroy_graph(capture.graph);
  if (const auto graph = state().graphs.find(capture.graph)) graph->is_captured = false;
}

// Every stream that joined must have been joined again.
bool is_joined(Capture &capture) {
  const Clock &seen = capture.clocks[capture.origin.get()];
  for (const auto &[stream, clock] : capture.clocks) {
    if (stream == capture.origin.get()) continue;
    const auto own = clock.find(stream);
    const auto reached = seen.find(stream);
    if (own != clock.end() && (reached == seen.end() || reached->second < own->second))
      return false;
  }
  return true;
}

CUresult end(CUstream handle, CUgraph *graph) {
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *graph = nullptr;
  State &s = state();
  Lock lock(s.mutex);
  const auto where = s.stream_of(handle);
  if (where == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<Capture> capture = where->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id()) {
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  if (capture->origin != where) {
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  const bool joined = is_joined(*capture);
  close(capture);
  if (capture->invalid || !joined) {
    drop(*capture);
    return capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                            : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  const auto object = s.graphs.find(capture->graph);
  if (object == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  object->is_captured = false;
  *graph = capture->graph;
  return CUDA_SUCCESS;
}

void add_to(Frontier &frontier, const Frontier &more) {
  for (const CUgraphNode node : more)
    if (std::find(frontier.begin(), frontier.end(), node) == frontier.end())
      frontier.push_back(node);
}

CUresult update(CUstream handle, const CUgraphNode *nodes, size_t count, unsigned flags) {
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (nodes == nullptr && count != 0))
    return CUDA_ERROR_INVALID_VALUE;
  State &s = state();
  Lock lock(s.mutex);
  std::shared_ptr<Stream> where;
  if (const CUresult result = enter_stream(s, handle, &where)) return result;
  if (where->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  Capture &capture = *where->capture;
  const Frontier given(nodes, nodes + count);
  for (const CUgraphNode node : given) {
    const auto found = s.nodes.find(node);
    if (found == nullptr || found->graph != s.graphs.find(capture.graph).get())
      return CUDA_ERROR_INVALID_VALUE;
  }
  Frontier &frontier = capture.frontiers[where.get()];
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) frontier.clear();
  add_to(frontier, given);
  ++capture.clocks[where.get()][where.get()];
  return CUDA_SUCCESS;
}

// The caller holds State::mutex.
CUresult status_of(State &s, const std::shared_ptr<Stream> &where, CUstreamCaptureStatus *status) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (where == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (is_legacy(s, where)) {
    for (const auto &capture : captures()) {
      for (const auto &stream : capture->streams) {
        if (stream->blocking && stream->device == where->device)
          return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
    }
  }
  const auto &capture = where->capture;
  *status = capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
            : capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                               : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult capture_verdict(Call id) {
  if (id == Call::cuCtxSynchronize) {
    State &s = state();
    Lock lock(s.mutex);
    const int device = current_device();
    bool found = false;
    for (const auto &capture : captures()) {
      if (capture->origin->device == device) capture->invalid = found = true;
    }
    return found ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
  }
  if (!is_unsafe(id)) return CUDA_SUCCESS;
  State &s = state();
  Lock lock(s.mutex);
  bool forbidden = false;
  for (const auto &capture : captures()) {
    if (forbids(*capture)) capture->invalid = forbidden = true;
  }
  return forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult enter_stream(State &s, CUstream handle, std::shared_ptr<Stream> *where) {
  *where = s.stream_of(handle);
  if (*where == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (open_captures == 0) return CUDA_SUCCESS;
  if (is_legacy(s, *where) && invalidate_blocking((*where)->device))
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  const auto &capture = (*where)->capture;
  return capture != nullptr && capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                                : CUDA_SUCCESS;
}

CUresult enter_stream_idle(State &s, CUstream handle, std::shared_ptr<Stream> *where) {
  if (const CUresult result = enter_stream(s, handle, where)) return result;
  return refuse_in_capture(**where);
}

void capture_work(Stream &where, std::shared_ptr<const Work> work) {
  Capture &capture = *where.capture;
  Frontier &frontier = capture.frontiers[&where];
  auto node = std::make_shared<Node>();
  node->work = std::move(work);
  CUgraphNode handle = nullptr;
  insert_node(&handle, capture.graph, frontier.data(), frontier.size(), std::move(node));
  frontier.assign(1, handle);
  ++capture.clocks[&where][&where];
}

CUresult refuse_in_capture(Stream &where) {
  if (where.capture == nullptr) return CUDA_SUCCESS;
  where.capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

void capture_event(const std::shared_ptr<Stream> &where, Event &event) {
  event.record.reset();
  event.captured = std::make_shared<CapturedPoint>(CapturedPoint{
      where->capture, where->capture->clocks[where.get()], where->capture->frontiers[where.get()]});
}

CUresult wait_in_capture(const std::shared_ptr<Stream> &where, const Event &event) {
  if (event.captured == nullptr) {
    if (event.record == nullptr) return CUDA_SUCCESS;
    where->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  const std::shared_ptr<Capture> &capture = event.captured->capture;
  if (capture->origin == nullptr) { // it has ended
    if (where->capture != nullptr) where->capture->invalid = true;
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (where->capture != nullptr && where->capture != capture) {
    where->capture->invalid = capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (where->capture == nullptr) {
    State &s = state();
    if (is_legacy(s, where)) {
      capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    where->capture = capture;
    capture->streams.push_back(where);
  }
  Clock &clock = capture->clocks[where.get()];
  for (const auto &[stream, nodes] : event.captured->clock)
    clock[stream] = std::max(clock[stream], nodes);
  add_to(capture->frontiers[where.get()], event.captured->frontier);
  return CUDA_SUCCESS;
}

void abandon_capture(Stream &where) {
  const std::shared_ptr<Capture> capture = where.capture;
  if (capture == nullptr) return;
  capture->invalid = true;
  if (capture->origin.get() != &where) return;
  close(capture);
  drop(*capture);
}

CUstreamCaptureMode exchange_thread_mode(CUstreamCaptureMode mode) {
  std::swap(mode, thread_mode);
  return mode;
}

CUresult CUDAAPI stream_get_capture_info(CUstream stream, CUstreamCaptureStatus *status,
                                         cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
                                         size_t *count) {
  return call(Call::cuStreamGetCaptureInfo, Need::context, [&]() -> CUresult {
    if ((nodes == nullptr) != (count == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    State &s = state();
    Lock lock(s.mutex);
    const auto where = s.stream_of(stream);
    if (const CUresult result = status_of(s, where, status)) return result;
    if (number(*status) != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
    const Frontier &frontier = where->capture->frontiers[where.get()];
    if (id != nullptr) *id = where->capture->id;
    if (graph != nullptr) *graph = where->capture->graph;
    if (nodes != nullptr) *nodes = frontier.data();
    if (count != nullptr) *count = frontier.size();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI stream_update_capture_dependencies(CUstream stream, CUgraphNode *nodes,
                                                    size_t count, unsigned int flags) {
  return call(Call::cuStreamUpdateCaptureDependencies, Need::context,
              [&] { return update(stream, nodes, count, flags); });
}

}  // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  return call(Call::cuStreamBeginCapture, Need::context, [&] { return begin(stream, mode); });
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                             const CUgraphNode *behind, const CUgraphEdgeData *data,
                                             size_t count, CUstreamCaptureMode mode) {
  return call(Call::cuStreamBeginCaptureToGraph, Need::context, [&]() -> CUresult {
    if (graph == nullptr || data != nullptr || (behind == nullptr && count != 0))
      return CUDA_ERROR_INVALID_VALUE;
    return begin(stream, mode, graph, Frontier(behind, behind + count));
  });
}

CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  return call(Call::cuStreamEndCapture, Need::context, [&] { return end(stream, graph); });
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  return call(Call::cuStreamIsCapturing, Need::context, [&] {
    State &s = state();
    Lock lock(s.mutex);
    return status_of(s, s.stream_of(stream), status);
  });
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  return call(Call::cuThreadExchangeStreamCaptureMode, Need::process, [&]() -> CUresult {
    if (mode == nullptr || number(*mode) > CU_STREAM_CAPTURE_MODE_RELAXED)
      return CUDA_ERROR_INVALID_VALUE;
    *mode = exchange_thread_mode(*mode);
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
