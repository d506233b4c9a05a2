// JIT options, and the linker, whose output is PTX in an envelope that only the emulator takes.
//
// Format of an image: the ImageHeader below in the byte order of the host, then text_bytes bytes of
// PTX, then a NUL. The first byte of the magic begins neither PTX, nor ELF, nor a fat binary, so a
// real driver refuses an image, and a stale cache entry differs from text in its first byte.
#include <algorithm>
#include <cstring>

#include "state.h"

namespace emulator {
namespace {

constexpr char kMagic[8] = {'\x01', 'v', 'y', 'r', 'e', 'E', 'M', 'U'};
constexpr uint32_t kImageVersion = 1;

struct ImageHeader {
  char magic[8];
  uint32_t version;
  uint32_t target; // compute capability * 10
  uint64_t text_bytes;
  uint64_t digest; // FNV-1a of the text
};

uint64_t digest_of(std::string_view text) {
  uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

} // namespace

void JitOptions::Log::put(const std::string &text) {
  if (buffer == nullptr || capacity == 0) {
    if (length != nullptr) *length = nullptr;
    return;
  }
  const size_t bytes = std::min(text.size(), capacity - 1);
  std::memcpy(buffer, text.data(), bytes);
  buffer[bytes] = '\0';
  if (length != nullptr) *length = reinterpret_cast<void *>(bytes);
}

CUresult JitOptions::read(unsigned count, const CUjit_option *options, void **values) {
  if (count != 0 && (options == nullptr || values == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    const auto value = reinterpret_cast<uintptr_t>(values[i]);
    const int64_t option = number(options[i]);
    if (option < 0 || option >= CU_JIT_NUM_OPTIONS) return CUDA_ERROR_INVALID_VALUE;
    switch (option) {
    case CU_JIT_INFO_LOG_BUFFER: info_.buffer = static_cast<char *>(values[i]); break;
    case CU_JIT_ERROR_LOG_BUFFER: error_.buffer = static_cast<char *>(values[i]); break;
    case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      info_.capacity = value & UINT32_MAX;
      info_.length = &values[i];
      break;
    case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
      error_.capacity = value & UINT32_MAX;
      error_.length = &values[i];
      break;
    case CU_JIT_WALL_TIME: wall_time_ = &values[i]; break;
    case CU_JIT_LOG_VERBOSE: verbose = value != 0; break;
    case CU_JIT_OPTIMIZATION_LEVEL:
      if (value > 4) return CUDA_ERROR_INVALID_VALUE;
      break;
    case CU_JIT_TARGET: // architecture-specific targets are numbered above their plain one
      target = static_cast<int>(value & 0xffff);
      break;
    default: // tuning that does not change what a program means
      break;
    }
  }
  return CUDA_SUCCESS;
}

void JitOptions::write(const std::string &error_log, const std::string &info_log,
                       float milliseconds) {
  error_.put(error_log);
  info_.put(info_log);
  if (wall_time_ != nullptr) std::memcpy(wall_time_, &milliseconds, sizeof milliseconds);
}

std::vector<uint8_t> pack_image(const std::string &text, int target) {
  ImageHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kImageVersion;
  header.target = static_cast<uint32_t>(target);
  header.text_bytes = text.size();
  header.digest = digest_of(text);
  std::vector<uint8_t> image(sizeof header + text.size() + 1);
  std::memcpy(image.data(), &header, sizeof header);
  std::memcpy(image.data() + sizeof header, text.c_str(), text.size() + 1);
  return image;
}

CUresult unpack_image(const void *image, std::string_view *text, int *target) {
  // Byte by byte, because text may end before the magic does.
  const auto *bytes = static_cast<const char *>(image);
  for (size_t i = 0; i < sizeof kMagic; ++i) {
    if (bytes[i] != kMagic[i]) return CUDA_SUCCESS;
  }
  ImageHeader header;
  std::memcpy(&header, image, sizeof header);
  if (header.version != kImageVersion) return CUDA_ERROR_INVALID_IMAGE;
  const char *begin = bytes + sizeof header;
  if (std::strlen(begin) != header.text_bytes) return CUDA_ERROR_INVALID_IMAGE;
  *text = std::string_view(begin, header.text_bytes);
  *target = static_cast<int>(header.target);
  return digest_of(*text) == header.digest ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

} // namespace emulator

using namespace emulator;

extern "C" {

CUresult CUDAAPI cuLinkCreate(unsigned int count, CUjit_option *options, void **values,
                              CUlinkState *link) {
  return call(Call::cuLinkCreate, Need::context, [&]() -> CUresult {
    if (link == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto object = std::make_shared<Link>();
    object->device = current_device();
    if (const CUresult result = object->options.read(count, options, values)) return result;
    State &s = state();
    Lock lock(s.mutex);
    *link = s.links.add(std::move(object));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLinkAddData(CUlinkState link, CUjitInputType type, void *data, size_t bytes,
                               const char *, unsigned int count, CUjit_option *options,
                               void **values) {
  return call(Call::cuLinkAddData, Need::context, [&]() -> CUresult {
    State &s = state();
    Lock lock(s.mutex);
    const auto object = s.links.find(link);
    if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (data == nullptr || bytes == 0 || !object->image.empty()) return CUDA_ERROR_INVALID_VALUE;
    if (number(type) != CU_JIT_INPUT_PTX) return CUDA_ERROR_NOT_SUPPORTED;
    if (!object->text.empty()) return CUDA_ERROR_NOT_SUPPORTED; // an image holds one text
    const auto *begin = static_cast<const char *>(data);
    std::string text(begin, strnlen(begin, bytes));
    JitOptions own = object->options;
    if (const CUresult result = own.read(count, options, values)) return result;
    std::unique_ptr<Module> module;
    if (const CUresult result = compile(text, own, &module)) return result;
    object->text = std::move(text);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLinkComplete(CUlinkState link, void **image, size_t *bytes) {
  return call(Call::cuLinkComplete, Need::context, [&]() -> CUresult {
    if (image == nullptr || bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    State &s = state();
    Lock lock(s.mutex);
    const auto object = s.links.find(link);
    if (object == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (object->text.empty()) return CUDA_ERROR_INVALID_VALUE;
    if (object->image.empty()) object->image = pack_image(object->text, object->options.target);
    *image = object->image.data();
    *bytes = object->image.size();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLinkDestroy(CUlinkState link) {
  return call(Call::cuLinkDestroy, Need::release, [&]() -> CUresult {
    State &s = state();
    Lock lock(s.mutex);
    return s.links.remove(link) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

} // extern "C"
