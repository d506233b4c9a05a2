// Everything the emulated driver holds: handles, memory, streams, the primary contexts.
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

// The primary context of a device. It lives while it has references.
struct PrimaryContext {
  std::atomic<uint32_t> references{0};
  uint64_t id = 0;  // of the life that it has or had last
  std::atomic<uint32_t> peers{0};  // a bit for each device whose memory its work may touch
  PrintBuffer prints;  // has its own lock
  std::map<std::thread::id, std::shared_ptr<Stream>> per_thread;  // default streams of threads
};

// The device of this thread's current context, whether that lives or not; -1: none is current.
int current_device();

struct State {
  std::mutex mutex;
  Engine engine{mutex};
  Heap heap;
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
  PrimaryContext contexts[kMaxDevices];
  uint64_t context_id = 0;    // of the context that began last
  std::string fault_message;  // of the fault that lost the first device

  // nullptr: no such stream. NULL and CU_STREAM_LEGACY are the default stream of the current
  // context, CU_STREAM_PER_THREAD is the calling thread's own there, made at its first use.
  std::shared_ptr<Stream> stream_of(CUstream handle) {
    const bool legacy = handle == nullptr || handle == CU_STREAM_LEGACY;
    if (!legacy && handle != CU_STREAM_PER_THREAD) return streams.find(handle);
    const int device = current_device();
    if (device < 0) return nullptr;
    if (legacy) return engine.default_stream(device);
    std::shared_ptr<Stream> &own = contexts[device].per_thread[std::this_thread::get_id()];
    if (own == nullptr) {
      own = std::make_shared<Stream>();
      own->device = device;
      engine.open(own);
    }
    return own;
  }
};

State &state();

// The handle of a device's context, whether it lives or not.
CUcontext primary_context(int device);
// The device of a context's handle, -1 if there is no such context.
int device_of(CUcontext context);
// One of the devices that there are.
bool is_device(CUdevice device);
// CUDA_SUCCESS when this thread has a current context and that one lives.
CUresult check_current_context();

// Stops the threads of all streams; every later driver call answers CUDA_ERROR_DEINITIALIZED.
void shut_down();

}  // namespace emulator
