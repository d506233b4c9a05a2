/* Threads that launch one prepared kernel at once need a parameter block each. It keeps as many
 * as have met, so from then on a launch allocates nothing, at any number of threads. */
#define _GNU_SOURCE
#include "base/driver.h" /* in front of what takes short names */

#include "dispatch_test.h"
#include "host_faults.h"

#define THREADS 64
#define ROUNDS 6
#define WARM 3 /* rounds until every thread, and every way of launching, was there */

static CUresult (*real_kernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, unsigned, CUstream, void **, void **);
static CUresult (*real_graph)(CUgraphExec, CUstream);
static pthread_barrier_t launching, begins, ends;

/* All launches of a round are in the driver at a time. */
static CUresult launch_kernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, CUstream stream,
                              void **parameters, void **extra) {
  pthread_barrier_wait(&launching);
  return real_kernel(f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);
}
static CUresult launch_graph(CUgraphExec exec, CUstream stream) {
  pthread_barrier_wait(&launching);
  return real_graph(exec, stream);
}

static vyc_context *context;
static vyc_prepared *prepared;
static vyc_buffer *in, *out[THREADS];

static void *launch_in_rounds(void *number) {
  const size_t i = (size_t)(uintptr_t)number;
  task t;
  prepare(&t, (float)i);
  on_buffers(&t, in, out[i]);
  for (int round = 0; round < ROUNDS; round++) {
    pthread_barrier_wait(&begins);
    OK(vyc_prepared_launch(prepared, &t.run));
    pthread_barrier_wait(&ends);
  }
  return NULL;
}

static void set_up(void) {
  vyc_driver *driver = NULL;
  OK(vyc_driver_open(&driver, emulator_path));
  real_kernel = driver->cuLaunchKernel;
  real_graph = driver->cuGraphLaunch;
  driver->cuLaunchKernel = launch_kernel;
  driver->cuGraphLaunch = launch_graph;
  OK(vyc_context_open(&context, driver, 0));
  vyc_driver_release(driver);
  CHECK(pthread_barrier_init(&launching, NULL, THREADS) == 0);
  CHECK(pthread_barrier_init(&begins, NULL, THREADS + 1) == 0);
  CHECK(pthread_barrier_init(&ends, NULL, THREADS + 1) == 0);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  set_up();
  vyc_module *module = load_module(context);
  prepared = scale_prepared(module, STREAMED);
  in = filled(context, 1.0f);
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++) {
    out[i] = new_buffer(context, BYTES);
    CHECK(pthread_create(&threads[i], NULL, launch_in_rounds, (void *)(uintptr_t)i) == 0);
  }
  uint64_t made = 0;
  for (int round = 0; round < ROUNDS; round++) {
    if (round == WARM) made = host_faults_made();
    pthread_barrier_wait(&begins);
    pthread_barrier_wait(&ends);
  }
  if (host_faults_made() != made) host_faults_tell(made);
  CHECK(host_faults_made() == made);
  for (size_t i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  for (size_t i = 0; i < THREADS; i++) {
    check_filled(out[i], (float)i);
    vyc_buffer_release(out[i]);
  }
  vyc_buffer_release(in);
  vyc_prepared_release(prepared);
  vyc_module_release(module);
  vyc_context_release(context);
  check_nothing_lives();
  puts("meeting: passed");
  return 0;
}
