// What the native tests of the emulator share: the library opened as the C layer opens it, checks
// that end the process with the numbers, a session that must leave no object behind, PTX kernels.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../../csrc/emulator/control.h"
#include "../../csrc/emulator/driver/call.h"

[[noreturn]] inline void fail(const char *file, int line, const char *what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what);
  std::_Exit(1);
}

[[noreturn]] inline void fail(const char *file, int line, const std::string &what) {
  fail(file, line, what.c_str());
}

// A function, because a thousand copies of what it does took most of the compiler's time.
template <class Expected, class Actual>
void check_equal(const char *file, int line, const char *text, const Expected &expected,
                 const Actual &actual) {
  if (expected == actual) return;
  fail(file, line,
       std::string(text) + " is " + std::to_string(actual) + ", not " + std::to_string(expected));
}

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) fail(__FILE__, __LINE__, "false: " #condition);                              \
  } while (0)

#define EQUAL(expected, actual) check_equal(__FILE__, __LINE__, #actual, (expected), (actual))

// The first argument is the CUresult that the call must give.
#define GIVES(expected, call) EQUAL(static_cast<int>(expected), static_cast<int>(call))
#define OK(call) GIVES(CUDA_SUCCESS, call)

struct Driver {
#define ROW(name, since) decltype(&::name) name;
  VYC_DRIVER_TABLE(ROW)
  VYC_DRIVER_OPTIONAL_TABLE(ROW)
  VYRE_EMULATOR_EXTRA_TABLE(ROW)
#undef ROW
#define ROW(name, since, type) type name;
  VYC_DRIVER_VERSIONED_TABLE(ROW)
#undef ROW
  decltype(&::cuGetProcAddress_v2) get_proc_address;
  decltype(&vyre_emulator_set) set;
  decltype(&vyre_emulator_fail) fail_call;
  decltype(&vyre_emulator_reset) reset;
  decltype(&vyre_emulator_count) count_into;
  decltype(&vyre_emulator_fault_message) fault_message;

  uint64_t count(const char *key) const {
    uint64_t value = 0;
    if (count_into(key, &value) != 0)
      fail(__FILE__, __LINE__, std::string("no count named ") + key);
    return value;
  }
};

inline Driver driver;

template <class Pointer>
void symbol(void *library, Pointer *pointer, const char *name) {
  *pointer = reinterpret_cast<Pointer>(dlsym(library, name));
  if (*pointer == nullptr) fail(__FILE__, __LINE__, std::string("not exported: ") + name);
}

template <class Pointer>
void entry(Pointer *pointer, const char *name, int since) {
  void *address = nullptr;
  CUdriverProcAddressQueryResult status;
  const CUresult result =
      driver.get_proc_address(name, &address, since, CU_GET_PROC_ADDRESS_DEFAULT, &status);
  if (result != CUDA_SUCCESS || status != CU_GET_PROC_ADDRESS_SUCCESS || address == nullptr) {
    fail(__FILE__, __LINE__, std::string("no entry for ") + name);
  }
  *pointer = reinterpret_cast<Pointer>(address);
}

inline void open_driver(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(__FILE__, __LINE__, dlerror());
  symbol(library, &driver.get_proc_address, "cuGetProcAddress_v2");
  symbol(library, &driver.set, "vyre_emulator_set");
  symbol(library, &driver.fail_call, "vyre_emulator_fail");
  symbol(library, &driver.reset, "vyre_emulator_reset");
  symbol(library, &driver.count_into, "vyre_emulator_count");
  symbol(library, &driver.fault_message, "vyre_emulator_fault_message");
#define ROW(name, since) entry(&driver.name, #name, since);
  VYC_DRIVER_TABLE(ROW)
  VYC_DRIVER_OPTIONAL_TABLE(ROW)
  VYRE_EMULATOR_EXTRA_TABLE(ROW)
#undef ROW
#define ROW(name, since, type) entry(&driver.name, #name, since);
  VYC_DRIVER_VERSIONED_TABLE(ROW)
#undef ROW
}

// A retained and current context with default settings; at its end nothing may be left.
class Session {
 public:
  explicit Session(emulator::StreamMode mode = emulator::StreamMode::threaded) {
    OK(driver.reset());
    OK(driver.set("stream_mode", static_cast<int64_t>(mode)));
    OK(driver.cuInit(0));
    OK(driver.cuDevicePrimaryCtxRetain(&context, 0));
    OK(driver.cuCtxSetCurrent(context));
  }
  ~Session() {
    for (const char *kind : {"allocations", "bytes", "pinned", "pinned_bytes", "modules", "streams",
                             "events", "graphs", "execs", "links", "user_objects"}) {
      if (driver.count(kind) != 0) {
        fail(__FILE__, __LINE__, std::to_string(driver.count(kind)) + " left of " + kind);
      }
    }
    OK(driver.reset());
    OK(driver.cuDevicePrimaryCtxRelease(0));
    OK(driver.cuCtxSetCurrent(nullptr));
  }
  CUcontext context = nullptr;
};

inline CUDA_KERNEL_NODE_PARAMS kernel_node(CUfunction function, unsigned grid, unsigned block,
                                           void **arguments) {
  CUDA_KERNEL_NODE_PARAMS parameters{};
  parameters.func = function;
  parameters.gridDimX = grid;
  parameters.gridDimY = parameters.gridDimZ = 1;
  parameters.blockDimX = block;
  parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.kernelParams = arguments;
  return parameters;
}

inline CUDA_MEMSET_NODE_PARAMS memset_node(CUdeviceptr to, unsigned value, unsigned element_bytes,
                                           size_t width, size_t height = 1, size_t pitch = 0) {
  return {to, pitch, value, element_bytes, width, height};
}

inline CUDA_MEMCPY3D copy_to_host(void *to, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = to;
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

constexpr emulator::StreamMode kModes[] = {
    emulator::StreamMode::eager, emulator::StreamMode::threaded, emulator::StreamMode::lazy};

constexpr char kSaxpy[] = R"(.version 8.0
.target sm_80
.address_size 64

.visible .entry saxpy(
    .param .u64 saxpy_x,
    .param .u64 saxpy_y,
    .param .f32 saxpy_a,
    .param .u32 saxpy_n
)
{
    .reg .pred %p<2>;
    .reg .f32 %f<5>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<6>;

    ld.param.u64 %rd1, [saxpy_x];
    ld.param.u64 %rd2, [saxpy_y];
    ld.param.f32 %f1, [saxpy_a];
    ld.param.u32 %r1, [saxpy_n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra done;
    mul.wide.u32 %rd3, %r5, 4;
    add.u64 %rd4, %rd1, %rd3;
    add.u64 %rd5, %rd2, %rd3;
    ld.global.f32 %f2, [%rd4];
    ld.global.f32 %f3, [%rd5];
    fma.rn.f32 %f4, %f1, %f2, %f3;
    st.global.f32 [%rd5], %f4;
done:
    ret;
}
)";

// saxpy from PTX, its arguments, and two device arrays of n floats: x[i] = i, y[i] = 1.
struct Saxpy {
  explicit Saxpy(uint32_t size) : n(size) {
    OK(driver.cuModuleLoadDataEx(&module, kSaxpy, 0, nullptr, nullptr));
    OK(driver.cuModuleGetFunction(&function, module, "saxpy"));
    OK(driver.cuMemAlloc(&x, n * sizeof(float)));
    OK(driver.cuMemAlloc(&y, n * sizeof(float)));
    std::vector<float> values(n);
    for (uint32_t i = 0; i < n; ++i) values[i] = static_cast<float>(i);
    OK(driver.cuMemcpyHtoD(x, values.data(), n * sizeof(float)));
    OK(driver.cuMemcpyHtoD(y, std::vector<float>(n, 1.0F).data(), n * sizeof(float)));
  }
  ~Saxpy() {
    OK(driver.cuMemFree(x));
    OK(driver.cuMemFree(y));
    OK(driver.cuModuleUnload(module));
  }
  CUresult launch(CUstream stream) {
    return driver.cuLaunchKernel(function, (n + 63) / 64, 1, 1, 64, 1, 1, 0, stream, arguments,
                                 nullptr);
  }
  std::vector<float> result() {
    std::vector<float> values(n);
    OK(driver.cuMemcpyDtoH(values.data(), y, n * sizeof(float)));
    return values;
  }
  // Whether y[i] == factor * i + 1 everywhere.
  bool holds(float factor) {
    const std::vector<float> values = result();
    for (uint32_t i = 0; i < n; ++i) {
      if (values[i] != factor * static_cast<float>(i) + 1.0F) return false;
    }
    return true;
  }

  uint32_t n;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr x = 0, y = 0;
  float a = 2.0F;
  void *arguments[4] = {&x, &y, &a, &n};
};

// Never ends by itself.
constexpr char kSpin[] = R"(.version 8.0
.target sm_80
.address_size 64

.visible .entry spin()
{
again:
    bra again;
}
)";
