// Streams and events: creation, destruction, recording, waiting, querying, timing.
#include <algorithm>
#include <chrono>

#include "state.h"

namespace emulator {
namespace {

constexpr int kLowestPriority = 0;
constexpr int kHighestPriority = -5;

CUresult create_stream(CUstream *stream, unsigned flags, int priority) {
  if (stream == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto object = std::make_shared<Stream>();
  object->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  object->priority = std::min(kLowestPriority, std::max(kHighestPriority, priority));
  object->device = current_device();
  State &s = state();
  Lock lock(s.mutex);
  s.engine.open(object);
  *stream = s.streams.add(std::move(object));
  return CUDA_SUCCESS;
}

CUresult record(CUevent event, CUstream stream, unsigned flags) {
  if (flags != CU_EVENT_RECORD_DEFAULT) return CUDA_ERROR_INVALID_VALUE; // external: captures only
  State &s = state();
  Lock lock(s.mutex);
  const auto object = s.events.find(event);
  std::shared_ptr<Stream> where;
  if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult result = enter_stream(s, stream, &where)) return result;
  if (where->device != object->device) return CUDA_ERROR_INVALID_HANDLE;
  if (where->capture != nullptr) {
    capture_event(where, *object);
    return CUDA_SUCCESS;
  }
  object->captured.reset();
  object->record = s.engine.prepare(where, nullptr);
  s.engine.submit(lock, std::shared_ptr<Operation>(object->record));
  return CUDA_SUCCESS;
}

// An event that a capture has recorded stands for no point in time.
CUresult ask_in_capture(Event &event) {
  event.captured->capture->invalid = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

} // namespace
} // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned int flags) {
  return call(Call::cuStreamCreate, Need::context,
              [&] { return create_stream(stream, flags, kLowestPriority); });
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority) {
  return call(Call::cuStreamCreateWithPriority, Need::context,
              [&] { return create_stream(stream, flags, priority); });
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
  return call(Call::cuStreamDestroy, Need::release, [&]() -> CUresult {
    State &s = state();
    Lock lock(s.mutex);
    const auto object = s.streams.remove(stream);
    if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    abandon_capture(*object);
    s.engine.close(lock, object);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
  return call(Call::cuStreamSynchronize, Need::context, [&]() -> CUresult {
    State &s = state();
    Lock lock(s.mutex);
    std::shared_ptr<Stream> object;
    if (const CUresult result = enter_stream_idle(s, stream, &object)) return result;
    s.engine.finish(lock, s.engine.pending(object));
    s.contexts[object->device].prints.show();
    return outcome(object->device);
  });
}

CUresult CUDAAPI cuStreamQuery(CUstream stream) {
  return call(Call::cuStreamQuery, Need::context, [&]() -> CUresult {
    State &s = state();
    Lock lock(s.mutex);
    std::shared_ptr<Stream> object;
    if (const CUresult result = enter_stream_idle(s, stream, &object)) return result;
    const bool done = s.engine.query(lock, s.engine.pending(object));
    if (const CUresult result = outcome(object->device)) return result;
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  return call(Call::cuStreamWaitEvent, Need::context, [&]() -> CUresult {
    if (flags != CU_EVENT_WAIT_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
    State &s = state();
    Lock lock(s.mutex);
    std::shared_ptr<Stream> where;
    const auto object = s.events.find(event);
    if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = enter_stream(s, stream, &where)) return result;
    if (where->capture != nullptr || object->captured != nullptr)
      return wait_in_capture(where, *object);
    if (object->record && !object->record->done)
      s.engine.submit(lock, where, nullptr, {object->record});
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                     unsigned int flags) {
  return call(Call::cuStreamWaitValue32, Need::context, [&]() -> CUresult {
    if (flags != CU_STREAM_WAIT_VALUE_GEQ) return CUDA_ERROR_NOT_SUPPORTED;
    State &s = state();
    Lock lock(s.mutex);
    std::shared_ptr<Stream> where;
    if (const CUresult result = enter_stream(s, stream, &where)) return result;
    if (where->capture != nullptr) return refuse_in_capture(*where);
    const AwaitWork work{where->device, address, value};
    if (const CUresult result = check(work)) return result;
    s.engine.submit(lock, where, [work] { run(work); });
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                      unsigned int flags) {
  return call(Call::cuStreamWriteValue32, Need::context, [&]() -> CUresult {
    if (flags != CU_STREAM_WRITE_VALUE_DEFAULT) return CUDA_ERROR_NOT_SUPPORTED;
    State &s = state();
    Lock lock(s.mutex);
    std::shared_ptr<Stream> where;
    if (const CUresult result = enter_stream(s, stream, &where)) return result;
    const WriteWork write{where->device, address, value};
    if (const CUresult result = check(write)) return result;
    const auto work = std::make_shared<const Work>(write);
    if (where->capture != nullptr) {
      capture_work(*where, work);
      return CUDA_SUCCESS;
    }
    s.engine.submit(lock, where, [work] { run(*work); });
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned int flags) {
  return call(Call::cuEventCreate, Need::context, [&]() -> CUresult {
    constexpr unsigned known =
        CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if (event == nullptr || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_EVENT_INTERPROCESS) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    auto object = std::make_shared<Event>();
    object->flags = flags;
    object->device = current_device();
    State &s = state();
    Lock lock(s.mutex);
    *event = s.events.add(std::move(object));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuEventDestroy(CUevent event) {
  return call(Call::cuEventDestroy, Need::release, [&]() -> CUresult {
    State &s = state();
    Lock lock(s.mutex);
    return s.events.remove(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream) {
  return call(Call::cuEventRecord, Need::context,
              [&] { return record(event, stream, CU_EVENT_RECORD_DEFAULT); });
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  return call(Call::cuEventRecordWithFlags, Need::context,
              [&] { return record(event, stream, flags); });
}

CUresult CUDAAPI cuEventQuery(CUevent event) {
  return call(Call::cuEventQuery, Need::context, [&]() -> CUresult {
    State &s = state();
    Lock lock(s.mutex);
    const auto object = s.events.find(event);
    if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (object->captured != nullptr) return ask_in_capture(*object);
    const bool done = object->record == nullptr || s.engine.query(lock, {object->record});
    if (const CUresult result = outcome(object->device)) return result;
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult CUDAAPI cuEventSynchronize(CUevent event) {
  return call(Call::cuEventSynchronize, Need::context, [&]() -> CUresult {
    State &s = state();
    Lock lock(s.mutex);
    const auto object = s.events.find(event);
    if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (object->captured != nullptr) return ask_in_capture(*object);
    if (const std::shared_ptr<Operation> operation = object->record)
      s.engine.finish(lock, operation);
    s.contexts[object->device].prints.show();
    return outcome(object->device);
  });
}

CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  return call(Call::cuEventElapsedTime, Need::context, [&]() -> CUresult {
    if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
    State &s = state();
    Lock lock(s.mutex);
    const auto first = s.events.find(start);
    const auto second = s.events.find(end);
    if (first == nullptr || second == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (first->device != second->device) return CUDA_ERROR_INVALID_HANDLE;
    if (first->record == nullptr || second->record == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (((first->flags | second->flags) & CU_EVENT_DISABLE_TIMING) != 0)
      return CUDA_ERROR_INVALID_HANDLE;
    if (!first->record->done || !second->record->done) return CUDA_ERROR_NOT_READY;
    const std::chrono::duration<float, std::milli> elapsed =
        second->record->finished_at - first->record->finished_at;
    *milliseconds = elapsed.count();
    return CUDA_SUCCESS;
  });
}

} // extern "C"
