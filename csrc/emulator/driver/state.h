// Everything the emulated driver holds: handles, memory, streams, the one primary context.
//
// There is one State in a process. It is never destroyed, so that calls made late at exit find it.
// State::mutex guards all of it but the heap, which has its own lock (taken last).
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture.h"
#include "graph.h"
#include "memory.h"
#include "module.h"
#include "print.h"
#include "registry.h"
#include "stream.h"

namespace emulator {

struct State {
  std::mutex mutex;
  Engine engine{mutex};
  Heap heap;
  PrintBuffer prints;  // has its own lock too
  Registry<CUstream, Stream> streams{1};
  Registry<CUevent, Event> events{2};
  Registry<CUmodule, LoadedModule> modules{3};
  Registry<CUfunction, Function> functions{4};
  Registry<CUlinkState, Link> links{5};
  Registry<CUgraph, Graph> graphs{6};
  Registry<CUgraphNode, Node> nodes{7};
  Registry<CUgraphExec, Exec> execs{8};
  Registry<CUuserObject, OwnedObject> user_objects{10};
  std::unordered_map<uint64_t, Conditional> conditionals;  // by handle, of live graphs
  uint64_t next_conditional = 0;
  uint64_t bodies = 0;  // of the graphs: they belong to their nodes and are not counted
  std::atomic<uint32_t> context_references{
      0};                     // of the primary context; it lives while this is not 0
  uint64_t context_id = 0;    // of the life that it has or had last
  std::string fault_message;  // of the fault that lost the device

  std::map<std::thread::id, std::shared_ptr<Stream>> per_thread;  // default streams of threads

  // nullptr: no such stream. NULL and CU_STREAM_LEGACY are the default stream,
  // CU_STREAM_PER_THREAD is the calling thread's own, made at its first use.
  std::shared_ptr<Stream> stream_of(CUstream handle) {
    if (handle == nullptr || handle == CU_STREAM_LEGACY) return engine.default_stream();
    if (handle == CU_STREAM_PER_THREAD) {
      std::shared_ptr<Stream> &own = per_thread[std::this_thread::get_id()];
      if (own == nullptr) engine.open(own = std::make_shared<Stream>());
      return own;
    }
    return streams.find(handle);
  }
};

State &state();

// The handle of the one context, whether it lives or not.
CUcontext primary_context();
// CUDA_SUCCESS when this thread has a current context and that one lives.
CUresult check_current_context();

// Stops the threads of all streams; every later driver call answers CUDA_ERROR_DEINITIALIZED.
void shut_down();

}  // namespace emulator
