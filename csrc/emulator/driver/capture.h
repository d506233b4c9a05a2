// Stream captures: what a capturing stream records instead of running, and which calls end one.
//
// Modelled on the CUDA driver API's text on cuStreamBeginCapture and
// cuThreadExchangeStreamCaptureMode; where that leaves open which calls are "potentially unsafe",
// every call that may allocate, free, load, wait or ask counts as one, so that code which passes
// here passes on a driver that is more lenient. State::mutex guards everything but the count.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "graph.h"

namespace emulator {

struct State;

// The nodes that the next one of a stream follows.
using Frontier = std::vector<CUgraphNode>;

// How many nodes of each stream of the capture a point in it comes after.
using Clock = std::map<const Stream *, uint64_t>;

struct Capture {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  std::shared_ptr<Stream> origin;
  std::vector<std::shared_ptr<Stream>> streams;
  CUgraph graph = nullptr;
  uint64_t id = 0;
  std::map<const Stream *, Clock> clocks;
  std::map<const Stream *, Frontier> frontiers;
  bool invalid = false;
  bool is_given = false;  // the graph existed before
};

// A point inside a capture; what an event holds that was recorded there.
struct CapturedPoint {
  std::shared_ptr<Capture> capture;
  Clock clock;
  Frontier frontier;
};

// Captures that have begun and not ended; read without the lock by calls that need to know only
// whether there is any.
extern std::atomic<int> open_captures;

// The gate's question: CUDA_SUCCESS, or the error of a call that this thread may not make now, and
// which has ended the captures that forbid it.
CUresult capture_verdict(Call id);

// What a stream operation begins with: CUDA_SUCCESS and the stream, or why it cannot be used.
CUresult enter_stream(State &s, CUstream handle, std::shared_ptr<Stream> *where);
// The same for waiting for or asking after a stream: no capture survives that.
CUresult enter_stream_idle(State &s, CUstream handle, std::shared_ptr<Stream> *where);

// Appends to the capture of a stream.
void capture_work(Stream &where, std::shared_ptr<const Work> work);
// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the end of the stream's capture, if it has one.
CUresult refuse_in_capture(Stream &where);
void capture_event(const std::shared_ptr<Stream> &where, Event &event);
CUresult wait_in_capture(const std::shared_ptr<Stream> &where, const Event &event);
void abandon_capture(Stream &where);

CUstreamCaptureMode exchange_thread_mode(CUstreamCaptureMode mode);

// The ABIs of CUDA 11.3, without the data of edges.
CUresult CUDAAPI stream_get_capture_info(CUstream stream, CUstreamCaptureStatus *status,
                                         cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
                                         size_t *count);
CUresult CUDAAPI stream_update_capture_dependencies(CUstream stream, CUgraphNode *nodes,
                                                    size_t count, unsigned int flags);

}  // namespace emulator
