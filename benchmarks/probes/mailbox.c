/* The least that a resident kernel costs: a mailbox in page-locked memory, without a library around
 * it.
 *
 *     gcc -O2 mailbox.c -o mailbox -I$CUDA/include -lcuda && ./mailbox 100000
 *
 * Prints, in microseconds, the median, the 99th and 99.9th percentile and the worst round trip: of
 * an empty call, and of out = 2 x + y for 1,024 f32 in host memory, with the copies to and from
 * page-locked memory. */
#define _POSIX_C_SOURCE 199309L
#include <cuda.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N 1024
#define BYTES (N * sizeof(float))
#define STOP 0xffffffffu

static const char *const source =
    ".version 7.8\n.target sm_75\n.address_size 64\n"
    ".visible .entry mailbox(.param .u64 ask, .param .u64 answer, .param .u64 data, .param .u32 "
    "work)\n"
    "{\n"
    "  .reg .pred %p, %first, %works; .reg .b32 %n, %last, %t, %w; .reg .b64 %ask, %answer, %at; "
    ".reg .f32 %x, %y;\n"
    "  .shared .u32 number;\n"
    "  ld.param.u64 %ask, [ask]; ld.param.u64 %answer, [answer]; ld.param.u64 %at, [data]; "
    "ld.param.u32 %w, [work];\n"
    "  mov.u32 %t, %tid.x; setp.eq.u32 %first, %t, 0; setp.ne.u32 %works, %w, 0; mov.u32 %last, "
    "0;\n"
    "  mad.wide.u32 %at, %t, 4, %at;\n"
    "next:\n"
    "  @!%first bra taken;\n"
    "poll:\n"
    "  ld.acquire.sys.global.u32 %n, [%ask]; setp.eq.u32 %p, %n, %last; @%p bra poll;\n"
    "  st.shared.u32 [number], %n;\n"
    "taken:\n"
    "  bar.sync 0; ld.shared.u32 %last, [number]; setp.eq.u32 %p, %last, 0xffffffff; @%p ret;\n"
    "  @!%works bra done;\n"
    "  ld.relaxed.sys.global.f32 %x, [%at]; ld.relaxed.sys.global.f32 %y, [%at+4096];\n"
    "  fma.rn.f32 %x, %x, 0f40000000, %y; st.global.f32 [%at+8192], %x;\n"
    "done:\n"
    "  bar.sync 0; @%first st.release.sys.global.u32 [%answer], %last; bra next;\n"
    "}\n";

static void check(CUresult result, const char *what) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "%s: %d\n", what, (int)result);
  exit(1);
}
#define CU(call) check(call, #call)

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void measure(const char *name, CUfunction function, CUstream stream, size_t count,
                    uint32_t work) {
  uint8_t *memory = NULL;
  CUdeviceptr at = 0;
  double *times = malloc(count * sizeof *times);
  float *x = malloc(3 * BYTES), *y = x + N, *out = y + N;
  CU(cuMemHostAlloc((void **)&memory, 256 + 3 * BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
  CU(cuMemHostGetDevicePointer(&at, memory, 0));
  memset(memory, 0, 256);
  for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = 1;
  _Atomic uint32_t *ask = (_Atomic uint32_t *)memory, *answer = (_Atomic uint32_t *)(memory + 128);
  float *data = (float *)(memory + 256);
  CUdeviceptr ask_at = at, answer_at = at + 128, data_at = at + 256;
  void *parameters[] = {&ask_at, &answer_at, &data_at, &work};
  CU(cuLaunchKernel(function, 1, 1, 1, work ? N : 32, 1, 1, 0, stream, parameters, NULL));
  for (size_t i = 0; i < count + 1000; i++) {
    const uint32_t number = (uint32_t)(i + 1);
    const double begin = now_us();
    if (work) memcpy(data, x, 2 * BYTES);
    atomic_store_explicit(ask, number, memory_order_release);
    while (atomic_load_explicit(answer, memory_order_acquire) != number) {
    }
    if (work) memcpy(out, data + 2 * N, BYTES);
    if (i >= 1000) times[i - 1000] = now_us() - begin;
  }
  for (int i = 0; work && i < N; i++)
    if (out[i] != 2 * x[i] + y[i]) exit(2);
  atomic_store_explicit(ask, STOP, memory_order_release);
  CU(cuStreamSynchronize(stream));
  qsort(times, count, sizeof *times, compare);
  printf("%s %.3f %.3f %.3f %.3f\n", name, times[count / 2], times[count * 99 / 100],
         times[count * 999 / 1000], times[count - 1]);
}

int main(int argc, char **argv) {
  const size_t count = argc > 1 ? (size_t)atol(argv[1]) : 100000;
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction function;
  CUstream stream;
  CU(cuInit(0));
  CU(cuDeviceGet(&device, 0));
  CU(cuDevicePrimaryCtxRetain(&context, device));
  CU(cuCtxSetCurrent(context));
  CU(cuModuleLoadData(&module, source));
  CU(cuModuleGetFunction(&function, module, "mailbox"));
  CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  measure("empty", function, stream, count, 0);
  measure("arrays", function, stream, count, 1);
  return 0;
}
