// Device memory that other processes of this user open, by a file of the process that has it.
//
// As on a GPU the memory lives until the last process that has opened it closes it or ends, also if
// the process that allocated it is killed. A handle says where the file is: /proc/PID/fd/FILE.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <random>

#include "state.h"

namespace emulator {
namespace {

constexpr uint64_t kMagic = 0x3163706965727976; // "vyreipc1"

struct Shared {
  uint64_t magic, nonce, size;
  int32_t pid, file, device;
};
static_assert(sizeof(Shared) <= sizeof(CUipcMemHandle));

uint64_t new_nonce() {
  std::random_device source;
  return static_cast<uint64_t>(source()) << 32 | source();
}

// The file of a handle, which this process owns from now on; -1: there is none any more.
int open_file(const Shared &shared) {
  char path[64], name[128];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", shared.pid, shared.file);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return -1;
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(path, name, sizeof name);
  const std::string expected = "/memfd:" + shared_name(shared.nonce) + " ";
  const bool is_it =
      length > 0 && std::string(name, static_cast<size_t>(length)).rfind(expected, 0) == 0;
  if (is_it) return file;
  close(file);
  return -1;
}

CUresult give_access(int device, int peer) {
  if (device == peer) return CUDA_SUCCESS;
  if (!settings().peer_access || !is_device(peer)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  state().contexts[device].peers.fetch_or(1u << peer);
  return CUDA_SUCCESS;
}

} // namespace
} // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer) {
  return call(Call::cuIpcGetMemHandle, Need::context, [&]() -> CUresult {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    State &s = state();
    Lock lock(s.mutex);
    const std::shared_ptr<Block> block = s.heap.find(pointer, 1);
    if (block == nullptr || block->kind != Kind::device || block->importer >= 0)
      return CUDA_ERROR_INVALID_VALUE;
    s.engine.finish(lock, s.engine.pending(block->device));
    const uint64_t nonce = block->nonce != 0 ? block->nonce : new_nonce();
    if (!s.heap.share(*block, nonce)) return CUDA_ERROR_NOT_SUPPORTED;
    block->nonce = nonce;
    const Shared shared{kMagic,
                        nonce,
                        block->size,
                        static_cast<int32_t>(getpid()),
                        block->storage.get_deleter().file,
                        block->device};
    std::memset(handle, 0, sizeof *handle);
    std::memcpy(handle, &shared, sizeof shared);
    return outcome(block->device);
  });
}

CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle,
                                    unsigned int flags) {
  return call(Call::cuIpcOpenMemHandle, Need::context, [&]() -> CUresult {
    Shared shared;
    std::memcpy(&shared, &handle, sizeof shared);
    if (pointer == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
      return CUDA_ERROR_INVALID_VALUE;
    if (shared.magic != kMagic) return CUDA_ERROR_INVALID_HANDLE;
    if (shared.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
    const int device = current_device();
    const CUresult access = give_access(device, shared.device);
    if (access != CUDA_SUCCESS) return access;
    const int file = open_file(shared);
    if (file < 0) return CUDA_ERROR_INVALID_HANDLE;
    const auto block = state().heap.import(shared.device, device, file, shared.size);
    close(file);
    if (block == nullptr) return CUDA_ERROR_MAP_FAILED;
    *pointer = block->begin;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr pointer) {
  return call(Call::cuIpcCloseMemHandle, Need::release, [&]() -> CUresult {
    const int device = current_device();
    State &s = state();
    Lock lock(s.mutex);
    s.engine.finish(lock, s.engine.pending(device));
    return s.heap.close_import(device, pointer) ? outcome(device) : CUDA_ERROR_INVALID_VALUE;
  });
}

} // extern "C"
