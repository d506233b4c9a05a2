/* What stands around an enqueue: a one-kernel graph launched as it is and with its arguments
 * changed, by a thread with and without a current context, beside a thread that computes, and after
 * the thread has slept.
 *
 *   enqueue LIBCUDA [without]
 *
 * One line of JSON for each: the median and the best of blocks, in ns a call. The stream is drained
 * between blocks, outside of the timing. With a second word, arguments are changed without a
 * current context at last: drivers of CUDA 13 end the process there. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../raw/support.h"
#include "saxpy_ptx.h"

enum { CALLS = 100, BLOCKS = 2000, SLEPT_BLOCKS = 200, SETS = 8, WORDS = 1024 };

static struct {
  CUcontext context;
  CUstream stream;
  CUgraphExec exec;
  CUgraphNode node;
  CUDA_KERNEL_NODE_PARAMS params;
  struct {
    CUdeviceptr buffers[3];
    float a;
    uint32_t n;
    void *pointers[5];
  } sets[SETS];
} s;

static void open_all(const char *path) {
  raw_open(path);
  raw_open_device(&s.context);
  CUmodule module;
  CUfunction function;
  CUgraph graph;
  CU(cuModuleLoadData(&module, PTX));
  CU(cuModuleGetFunction(&function, module, "k"));
  CU(cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
  for (uint32_t i = 0; i < SETS; i++) {
    for (uint32_t j = 0; j < 3; j++) {
      CU(cuMemAlloc(&s.sets[i].buffers[j], WORDS * 4));
      s.sets[i].pointers[j] = &s.sets[i].buffers[j];
    }
    s.sets[i].a = (float)i;
    s.sets[i].n = WORDS;
    s.sets[i].pointers[3] = &s.sets[i].a;
    s.sets[i].pointers[4] = &s.sets[i].n;
  }
  s.params.func = function;
  s.params.gridDimX = WORDS / 256;
  s.params.gridDimY = s.params.gridDimZ = 1;
  s.params.blockDimX = 256;
  s.params.blockDimY = s.params.blockDimZ = 1;
  s.params.kernelParams = s.sets[0].pointers;
  CU(cuGraphCreate(&graph, 0));
  CU(cuGraphAddKernelNode(&s.node, graph, NULL, 0, &s.params));
  s.exec = raw_instantiate(graph);
}

/* ---- one call -------------------------------------------------------------------------------- */

static void same(uint32_t i) {
  (void)i;
  CU(cuGraphLaunch(s.exec, s.stream));
}

static void changed(uint32_t i) {
  s.params.kernelParams = s.sets[i % SETS].pointers;
  CU(cuGraphExecKernelNodeSetParams(s.exec, s.node, &s.params));
  CU(cuGraphLaunch(s.exec, s.stream));
}

static void patch(uint32_t i) {
  s.params.kernelParams = s.sets[i % SETS].pointers;
  CU(cuGraphExecKernelNodeSetParams(s.exec, s.node, &s.params));
}

/* As a library does whose caller may have another context current, or none. */
static void changed_entered(uint32_t i) {
  CUcontext saved;
  CU(cuCtxGetCurrent(&saved));
  if (saved != s.context) CU(cuCtxSetCurrent(s.context));
  changed(i);
  if (saved != s.context) CU(cuCtxSetCurrent(saved));
}

static void look(uint32_t i) {
  (void)i;
  CUcontext saved;
  CU(cuCtxGetCurrent(&saved));
}

static void exchange(uint32_t i) {
  (void)i;
  CU(cuCtxSetCurrent(s.context));
  CU(cuCtxSetCurrent(NULL));
}

/* ---- series ---------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static void drain(void) {
  CUcontext saved;
  CU(cuCtxGetCurrent(&saved));
  CU(cuCtxSetCurrent(s.context));
  CU(cuStreamSynchronize(s.stream));
  CU(cuCtxSetCurrent(saved));
}

static void series(const char *id, void (*call)(uint32_t), uint32_t blocks, uint32_t sleep_us,
                   uint32_t calls) {
  static uint64_t samples[BLOCKS];
  for (uint32_t b = 0; b < blocks + blocks / 10; b++) {
    if (sleep_us > 0) usleep(sleep_us);
    const uint64_t begin = raw_now_ns();
    for (uint32_t i = 0; i < calls; i++) call(i);
    const uint64_t end = raw_now_ns();
    if (b >= blocks / 10) samples[b - blocks / 10] = end - begin;
    drain();
  }
  qsort(samples, blocks, sizeof *samples, compare);
  printf(
      "{\"id\": \"%s\", \"calls\": %u, \"sleep_us\": %u, \"median_ns\": %.1f, \"best_ns\": %.1f}\n",
      id, calls, sleep_us, (double)samples[blocks / 2] / calls, (double)samples[0] / calls);
  fflush(stdout);
}

static void patch_without(void) {
  CU(cuCtxSetCurrent(NULL));
  for (int named = 1; named >= 0; named--) {
    s.params.ctx = named ? s.context : NULL;
    printf("{\"id\": \"patch_without_current\", \"names_context\": %d, \"result\": ", named);
    fflush(stdout);
    s.params.kernelParams = s.sets[0].pointers;
    const CUresult result = cu.call_cuGraphExecKernelNodeSetParams(s.exec, s.node, &s.params);
    printf("%d}\n", (int)result);
    if (result == CUDA_SUCCESS) series("changed_none", changed, BLOCKS, 0, CALLS);
  }
}

/* ---- another thread -------------------------------------------------------------------------- */

static _Atomic bool stop;

static void *compute(void *core) {
  raw_use_core(*(int *)core);
  volatile uint64_t total = 0;
  while (!atomic_load_explicit(&stop, memory_order_relaxed))
    for (uint32_t i = 0; i < 1000; i++) total += (uint64_t)i * i;
  return NULL;
}

static void beside(const char *suffix, int mine, int other) {
  pthread_t thread;
  char id[64];
  atomic_store(&stop, false);
  if (pthread_create(&thread, NULL, compute, &other) != 0) raw_fail("no thread");
  raw_use_core(mine);
  snprintf(id, sizeof id, "same_beside_%s", suffix);
  series(id, same, BLOCKS, 0, CALLS);
  snprintf(id, sizeof id, "changed_beside_%s", suffix);
  series(id, changed, BLOCKS, 0, CALLS);
  snprintf(id, sizeof id, "same_slept_beside_%s", suffix);
  series(id, same, SLEPT_BLOCKS, 5000, CALLS);
  snprintf(id, sizeof id, "changed_slept_beside_%s", suffix);
  series(id, changed, SLEPT_BLOCKS, 5000, CALLS);
  atomic_store(&stop, true);
  pthread_join(thread, NULL);
}

int main(int count, char **words) {
  open_all(count > 1 ? words[1] : "libcuda.so.1");
  const int last = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
  raw_use_core(last);
  for (int round = 0; round < 2; round++) {
    CU(cuCtxSetCurrent(s.context));
    series("same_current", same, BLOCKS, 0, CALLS);
    series("changed_current", changed, BLOCKS, 0, CALLS);
    series("changed_entered_current", changed_entered, BLOCKS, 0, CALLS);
    series("patch_current", patch, BLOCKS, 0, CALLS);
    series("get_current", look, BLOCKS, 0, CALLS);
    CU(cuCtxSetCurrent(NULL));
    series("same_none", same, BLOCKS, 0, CALLS);
    series("changed_entered_none", changed_entered, BLOCKS, 0, CALLS);
    series("exchange_none", exchange, BLOCKS, 0, CALLS);
    series("get_none", look, BLOCKS, 0, CALLS);
  }
  CU(cuCtxSetCurrent(s.context));
  for (uint32_t us = 100; us <= 10000; us *= 10)
    for (uint32_t calls = 1; calls <= 1000; calls *= 10) {
      series("same_slept", same, SLEPT_BLOCKS, us, calls);
      series("changed_slept", changed, SLEPT_BLOCKS, us, calls);
    }
  beside("any_core", -1, -1);
  beside("other_core", last, last / 2);
  beside("next_core", last, last - 1);
  if (count > 2) patch_without();
  return 0;
}
