/* What the place of a graph in memory makes of its launch: GRAPHS one-kernel graphs, alike in all
 * but where the driver has put them, launched on one stream in blocks that take turns.
 *
 *   places LIBCUDA
 *
 * One line of JSON for each graph: the median and the best of its blocks, in ns a call. The stream
 * is drained between blocks, outside of the timing. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../raw/support.h"
#include "saxpy_ptx.h"

enum { GRAPHS = 32, CALLS = 100, BLOCKS = 400, WORDS = 1024 };

static int compare(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static void instantiate(CUgraphExec *execs) {
  static CUdeviceptr buffers[3];
  static float a = 2;
  static uint32_t n = WORDS;
  static void *pointers[] = {&buffers[0], &buffers[1], &buffers[2], &a, &n};
  CUmodule module;
  CUDA_KERNEL_NODE_PARAMS params = {.gridDimX = WORDS / 256,
                                    .gridDimY = 1,
                                    .gridDimZ = 1,
                                    .blockDimX = 256,
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .kernelParams = pointers};
  CU(cuModuleLoadData(&module, PTX));
  CU(cuModuleGetFunction(&params.func, module, "k"));
  for (uint32_t i = 0; i < 3; i++) CU(cuMemAlloc(&buffers[i], WORDS * 4));
  for (uint32_t i = 0; i < GRAPHS; i++) {
    CUgraph graph;
    CUgraphNode node;
    CU(cuGraphCreate(&graph, 0));
    CU(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    execs[i] = raw_instantiate(graph);
  }
}

static uint64_t time_block(CUgraphExec exec, CUstream stream) {
  const uint64_t begin = raw_now_ns();
  for (uint32_t i = 0; i < CALLS; i++) CU(cuGraphLaunch(exec, stream));
  const uint64_t end = raw_now_ns();
  CU(cuStreamSynchronize(stream));
  return end - begin;
}

int main(int count, char **words) {
  static uint64_t samples[GRAPHS][BLOCKS];
  CUgraphExec execs[GRAPHS];
  CUcontext context;
  CUstream stream;
  raw_open(count > 1 ? words[1] : "libcuda.so.1");
  raw_open_device(&context);
  CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  instantiate(execs);
  raw_use_core((int)sysconf(_SC_NPROCESSORS_ONLN) - 1);
  for (uint32_t i = 0; i < GRAPHS; i++) time_block(execs[i], stream); /* the warm-up */
  for (uint32_t block = 0; block < BLOCKS; block++)
    for (uint32_t i = 0; i < GRAPHS; i++) {
      const uint32_t graph = (i + block) % GRAPHS;
      samples[graph][block] = time_block(execs[graph], stream);
    }
  for (uint32_t i = 0; i < GRAPHS; i++) {
    qsort(samples[i], BLOCKS, sizeof samples[i][0], compare);
    printf("{\"graph\": %u, \"calls\": %u, \"median_ns\": %.1f, \"best_ns\": %.1f}\n", i, CALLS,
           (double)samples[i][BLOCKS / 2] / CALLS, (double)samples[i][0] / CALLS);
  }
  return 0;
}
