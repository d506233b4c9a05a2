/* Launches a second over threads: each has a stream, an output and a one-kernel graph of its own,
 * launches in blocks and drains after each block. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <string.h>

#include "twins.h"

enum { MOST = 8 };

typedef struct worker {
  pthread_t thread;
  pthread_barrier_t *gate;
  const raw_options *options;
  CUcontext context;
  CUstream stream;
  CUgraphExec exec;
  CUdeviceptr buffers[3];
  raw_block block;
} worker;

static void open_worker(worker *w, const raw_kernel *kernel, const raw_set *set) {
  const size_t bytes = kernel->n * sizeof(float);
  CUDA_KERNEL_NODE_PARAMS params = kernel->params;
  CUgraph graph;
  CUgraphNode node;
  CU(cuStreamCreate(&w->stream, CU_STREAM_NON_BLOCKING));
  for (uint32_t j = 0; j < 3; j++) CU(cuMemAlloc(&w->buffers[j], bytes));
  for (uint32_t j = 0; j < 2; j++) CU(cuMemcpyHtoD(w->buffers[j], set->inputs[j], bytes));
  raw_fill_block(&w->block, &kernel->layout, w->buffers, set->a, kernel->n);
  params.kernelParams = w->block.pointers;
  CU(cuGraphCreate(&graph, 0));
  CU(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
  w->exec = raw_instantiate(graph);
}

static void run_blocks(const worker *w, uint32_t blocks) {
  for (uint32_t i = 0; i < blocks; i++) {
    for (uint32_t j = 0; j < w->options->block_calls; j++) CU(cuGraphLaunch(w->exec, w->stream));
    CU(cuStreamSynchronize(w->stream));
  }
}

static void *work(void *argument) {
  const worker *w = argument;
  CU(cuCtxSetCurrent(w->context));
  run_blocks(w, (w->options->thread_blocks + 9) / 10); /* warm-up */
  pthread_barrier_wait(w->gate);
  run_blocks(w, w->options->thread_blocks);
  pthread_barrier_wait(w->gate);
  return NULL;
}

static void measure(worker *workers, uint32_t threads) {
  pthread_barrier_t gate;
  if (pthread_barrier_init(&gate, NULL, threads + 1) != 0) raw_fail("no barrier");
  for (uint32_t i = 0; i < threads; i++) {
    workers[i].gate = &gate;
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) raw_fail("no thread");
  }
  pthread_barrier_wait(&gate);
  const uint64_t begin = raw_now_ns();
  pthread_barrier_wait(&gate);
  const uint64_t elapsed = raw_now_ns() - begin;
  for (uint32_t i = 0; i < threads; i++) pthread_join(workers[i].thread, NULL);
  pthread_barrier_destroy(&gate);
  const raw_options *o = workers[0].options;
  const double launches = (double)threads * o->thread_blocks * o->block_calls;
  raw_report_rate(RAW_THREADS_ID, threads, launches / ((double)elapsed / 1e9));
}

void raw_measure_threads(const raw_options *options, CUcontext context) {
  static worker workers[MOST];
  raw_kernel kernel;
  raw_load_kernel(&kernel, options->folder, "saxpy", options->elements);
  raw_set *sets = raw_read_sets(options->folder, "saxpy", options->sets, options->elements, 2);
  const size_t bytes = options->elements * sizeof(float);
  for (uint32_t i = 0; i < MOST; i++) {
    workers[i].options = options;
    workers[i].context = context;
    open_worker(&workers[i], &kernel, &sets[i % options->sets]);
  }
  for (uint32_t threads = 1; threads <= MOST; threads *= 2) {
    for (uint32_t i = 0; i < threads; i++) {
      CU(cuMemsetD8Async(workers[i].buffers[2], RAW_POISON, bytes, workers[i].stream));
      CU(cuStreamSynchronize(workers[i].stream));
    }
    measure(workers, threads);
    for (uint32_t i = 0; i < threads; i++) {
      raw_set *set = &sets[i % options->sets];
      CU(cuMemcpyDtoH(set->result, workers[i].buffers[2], bytes));
      if (memcmp(set->result, set->expected, bytes) != 0)
        raw_fail("%s: wrong result of thread %u", RAW_THREADS_ID, i);
    }
  }
}
