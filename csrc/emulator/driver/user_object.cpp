// References to user objects: those of callers are counted, those of graphs are shared pointers.
#include "user_object.h"

#include <climits>

#include "state.h"

namespace emulator {
namespace {

thread_local int ending = 0;
std::atomic<uint64_t> live;

CUresult create(CUuserObject *handle, void *argument, CUhostFn destroy, unsigned count,
                unsigned flags) {
  if (handle == nullptr || destroy == nullptr || count == 0 || count > INT_MAX ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  State &s = state();
  Lock lock(s.mutex);
  auto owned = std::make_shared<OwnedObject>();
  owned->object = std::make_shared<UserObject>(argument, destroy);
  owned->count = count;
  *handle = s.user_objects.add(std::move(owned));
  return CUDA_SUCCESS;
}

// The caller holds State::mutex.
CUresult give_up(State &s, CUuserObject handle, unsigned count) {
  const auto owned = s.user_objects.find(handle);
  if (owned == nullptr || count == 0 || count > owned->count) return CUDA_ERROR_INVALID_VALUE;
  owned->count -= count;
  if (owned->count == 0) s.user_objects.remove(handle);
  return CUDA_SUCCESS;
}

CUresult release(CUuserObject handle, unsigned count) {
  State &s = state();
  Lock lock(s.mutex);
  return give_up(s, handle, count);
}

CUresult retain(CUgraph graph, CUuserObject handle, unsigned count, unsigned flags) {
  if ((flags & ~unsigned{CU_GRAPH_USER_OBJECT_MOVE}) != 0 || count == 0 || count > INT_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  State &s = state();
  Lock lock(s.mutex);
  const auto object = s.graphs.find(graph);
  const auto owned = s.user_objects.find(handle);
  if (object == nullptr || owned == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (flags == CU_GRAPH_USER_OBJECT_MOVE) {
    if (const CUresult result = give_up(s, handle, count)) return result;
  }
  object->user_objects.push_back(owned->object);  // nothing takes single references from a graph
  return CUDA_SUCCESS;
}

}  // namespace

UserObject::UserObject(void *argument, CUhostFn destroy) : argument_(argument), destroy_(destroy) {
  ++live;
}

UserObject::~UserObject() {
  ++ending;
  destroy_(argument_);
  --ending;
  --live;
}

bool is_ending_user_object() noexcept { return ending != 0; }

uint64_t live_user_objects() noexcept { return live; }

}  // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuUserObjectCreate(CUuserObject *object, void *argument, CUhostFn destroy,
                                    unsigned int count, unsigned int flags) {
  return call(Call::cuUserObjectCreate, Need::driver,
              [&] { return create(object, argument, destroy, count, flags); });
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int count) {
  return call(Call::cuUserObjectRelease, Need::driver, [&] { return release(object, count); });
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                         unsigned int flags) {
  return call(Call::cuGraphRetainUserObject, Need::context,
              [&] { return retain(graph, object, count, flags); });
}

}  // extern "C"
