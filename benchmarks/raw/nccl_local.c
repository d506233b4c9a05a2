/* NCCL from C, all GPUs in one process and one thread, beside which bench_distributed.py measures:
 *
 *   nccl_local LIBNCCL GPUS      prints "row bytes median_us pipelined_us", one line each
 *
 * Rows: all_reduce, waited for and in a row; graph, the same captured once; further, what each
 * all-reduce of a graph costs beyond the first; copy, cuMemcpyPeerAsync from GPU 1 to GPU 0. The
 * driver and NCCL are opened, so that neither's headers are needed to build. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 8, FLOAT = 7, SUM = 0, ROUNDS = 200, IN_GRAPH = 21 };
typedef void *handle;
typedef struct id {
  char bytes[128];
} id;

static struct {
  int (*init)(unsigned), (*device)(int *, int), (*retain)(handle *, int), (*current)(handle);
  int (*alloc)(uint64_t *, size_t), (*zero)(uint64_t, unsigned char, size_t, handle);
  int (*stream)(handle *, unsigned), (*wait)(handle), (*enable)(handle, unsigned);
  int (*copy)(uint64_t, handle, uint64_t, handle, size_t, handle);
  int (*begin)(handle, int), (*end)(handle, handle *);
  int (*instantiate)(handle *, handle, unsigned long long), (*launch)(handle, handle);
  int (*drop_graph)(handle), (*drop_exec)(handle);
} cu;
static struct {
  int (*unique)(id *), (*start)(void), (*finish)(void), (*init)(handle *, int, id, int);
  int (*reduce)(const void *, void *, size_t, int, int, handle, handle), (*destroy)(handle);
} nccl;
static int gpus;
static handle contexts[MOST], streams[MOST], comms[MOST];
static uint64_t memory[MOST];

static void need(int result, const char *what) {
  if (result == 0) return;
  fprintf(stderr, "%s gave %d\n", what, result);
  exit(1);
}
#define NEED(call) need(call, #call)

static void find(handle library, const char *name, void *to) {
  void *found = dlsym(library, name);
  need(found == NULL, name);
  memcpy(to, &found, sizeof found);
}

static void open_libraries(const char *path) {
  handle driver = dlopen("libcuda.so.1", RTLD_NOW), library = dlopen(path, RTLD_NOW);
  need(driver == NULL || library == NULL, "dlopen");
  find(driver, "cuInit", &cu.init);
  find(driver, "cuDeviceGet", &cu.device);
  find(driver, "cuDevicePrimaryCtxRetain", &cu.retain);
  find(driver, "cuCtxSetCurrent", &cu.current);
  find(driver, "cuMemAlloc_v2", &cu.alloc);
  find(driver, "cuMemsetD8Async", &cu.zero);
  find(driver, "cuStreamCreate", &cu.stream);
  find(driver, "cuStreamSynchronize", &cu.wait);
  find(driver, "cuCtxEnablePeerAccess", &cu.enable);
  find(driver, "cuMemcpyPeerAsync", &cu.copy);
  find(driver, "cuStreamBeginCapture_v2", &cu.begin);
  find(driver, "cuStreamEndCapture", &cu.end);
  find(driver, "cuGraphInstantiateWithFlags", &cu.instantiate);
  find(driver, "cuGraphLaunch", &cu.launch);
  find(driver, "cuGraphDestroy", &cu.drop_graph);
  find(driver, "cuGraphExecDestroy", &cu.drop_exec);
  find(library, "ncclGetUniqueId", &nccl.unique);
  find(library, "ncclGroupStart", &nccl.start);
  find(library, "ncclGroupEnd", &nccl.finish);
  find(library, "ncclCommInitRank", &nccl.init);
  find(library, "ncclAllReduce", &nccl.reduce);
  find(library, "ncclCommDestroy", &nccl.destroy);
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void wait_all(void) {
  for (int d = 0; d < gpus; d++) {
    NEED(cu.current(contexts[d]));
    NEED(cu.wait(streams[d]));
  }
}

static size_t bytes_now;
static handle execs[MOST];

static void reduce(void) {
  NEED(nccl.start());
  for (int d = 0; d < gpus; d++)
    NEED(nccl.reduce((void *)memory[d], (void *)memory[d], bytes_now / 4, FLOAT, SUM, comms[d],
                     streams[d]));
  NEED(nccl.finish());
}

static void play(void) {
  for (int d = 0; d < gpus; d++) {
    NEED(cu.current(contexts[d]));
    NEED(cu.launch(execs[d], streams[d]));
  }
}

static void copy(void) {
  NEED(cu.copy(memory[0], contexts[0], memory[1], contexts[1], bytes_now, streams[0]));
}

static void measure(double *median, double *pipelined, void (*once)(void)) {
  double times[ROUNDS];
  const int rounds = bytes_now > (4u << 20) ? 20 : ROUNDS;
  for (int i = 0; i < 5; i++) once();
  wait_all();
  for (int i = 0; i < rounds; i++) {
    const double begin = now_us();
    once();
    wait_all();
    times[i] = now_us() - begin;
  }
  qsort(times, (size_t)rounds, sizeof *times, by_size);
  *median = times[rounds / 2];
  const double begin = now_us();
  for (int i = 0; i < rounds; i++) once();
  wait_all();
  *pipelined = (now_us() - begin) / rounds;
}

static void row(const char *name, void (*once)(void)) {
  double median, pipelined;
  measure(&median, &pipelined, once);
  printf("%s %zu %.3f %.3f\n", name, bytes_now, median, pipelined);
}

/* One graph for each GPU, of `count` all-reduces. */
static void record(int count) {
  handle graphs[MOST];
  for (int d = 0; d < gpus; d++) {
    NEED(cu.current(contexts[d]));
    NEED(cu.begin(streams[d], 2));
  }
  for (int i = 0; i < count; i++) reduce();
  for (int d = 0; d < gpus; d++) {
    NEED(cu.current(contexts[d]));
    NEED(cu.end(streams[d], &graphs[d]));
    NEED(cu.instantiate(&execs[d], graphs[d], 0));
    NEED(cu.drop_graph(graphs[d]));
  }
}

static void drop(void) {
  for (int d = 0; d < gpus; d++) {
    NEED(cu.current(contexts[d]));
    NEED(cu.drop_exec(execs[d])); /* before the communicator, which waits for it */
  }
}

static void begin(const char *path) {
  id unique;
  open_libraries(path);
  NEED(cu.init(0));
  for (int d = 0; d < gpus; d++) {
    int device;
    NEED(cu.device(&device, d));
    NEED(cu.retain(&contexts[d], device));
    NEED(cu.current(contexts[d]));
    NEED(cu.alloc(&memory[d], (size_t)1 << 28));
    NEED(cu.stream(&streams[d], 1));
    NEED(cu.zero(memory[d], 0, (size_t)1 << 28, streams[d]));
  }
  NEED(nccl.unique(&unique));
  NEED(nccl.start());
  for (int d = 0; d < gpus; d++) {
    NEED(cu.current(contexts[d]));
    NEED(nccl.init(&comms[d], gpus, unique, d));
  }
  NEED(nccl.finish());
}

int main(int argc, char **argv) {
  static const size_t sizes[] = {4096, 65536, 1 << 18, 1 << 20, 1 << 24, 1 << 28};
  if (argc != 3 || (gpus = atoi(argv[2])) < 2 || gpus > MOST) return 2;
  begin(argv[1]);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    bytes_now = sizes[i];
    row("all_reduce", reduce);
  }
  bytes_now = 4096;
  double one, many, ignored;
  record(1);
  measure(&one, &ignored, play);
  drop();
  record(IN_GRAPH);
  measure(&many, &ignored, play);
  drop();
  printf("graph %zu %.3f %.3f\n", bytes_now, one, ignored);
  printf("further %zu %.3f %.3f\n", bytes_now, (many - one) / (IN_GRAPH - 1), 0.0);
  NEED(cu.current(contexts[0]));
  (void)cu.enable(contexts[1], 0);
  bytes_now = (size_t)1 << 28;
  row("copy", copy);
  for (int d = 0; d < gpus; d++) NEED(nccl.destroy(comms[d]));
  return 0;
}
