/* Calls of a worker from C, through libvyre_cuda: how long one takes, and how many a second there
 * are when several are in flight.
 *
 *   worker_calls BUNDLE CALLS [DRIVER]
 *
 * The bundle has the worker `bench` with the kernels bare (of one scalar) and saxpy (three arrays
 * of 1,024 f32). Prints lines of a name and numbers: median, 99th, 99.9th percentile and worst in
 * microseconds, or calls a second. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vyre_cuda.h"

#define N 1024u
#define IN_FLIGHT 40u /* of each block: the ring has 64 slots */
#define MOST_THREADS 8

enum { BARE, SAXPY, KERNELS };

typedef struct task {
  float x[N], y[N], out[N];
  vyc_argument arguments[3];
  uint64_t scalar;
  vyc_run run;
} task;

static vyc_context *context;
static vyc_bundle *bundle;
static vyc_bundled_kernel *kernels[KERNELS];
static vyc_worker *worker;
static uint64_t calls;

static void must(vyc_status status) {
  if (status == VYC_OK) return;
  fprintf(stderr, "%s\n", vyc_last_message());
  exit(1);
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void load(uint32_t blocks) {
  const vyc_worker_desc desc = {
      .struct_size = sizeof desc, .idle_ns = 1000000000, .first = 1, .blocks = blocks};
  must(vyc_bundled_worker_load(&worker, kernels, KERNELS, context, bundle, "bench", &desc));
}

static void unload(void) {
  vyc_worker_release(worker);
  for (int i = 0; i < KERNELS; i++) vyc_bundled_kernel_release(kernels[i]);
}

static task *make(int kernel) {
  task *t = calloc(1, sizeof *t);
  if (t == NULL) exit(1);
  for (uint32_t i = 0; i < N; i++) t->x[i] = t->y[i] = (float)i;
  t->scalar = kernel == BARE ? 0 : vyc_bits_f32(2.0f);
  for (int i = 0; i < 3; i++)
    t->arguments[i] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = N};
  t->arguments[0].data = t->x;
  t->arguments[1].data = t->y;
  t->arguments[2].result = t->out;
  t->run = (vyc_run){.struct_size = sizeof t->run,
                     .argument_count = kernel == BARE ? 0 : 3,
                     .scalar_count = 1,
                     .arguments = t->arguments,
                     .scalars = &t->scalar,
                     .timeout_ns = -1};
  if (kernel == BARE)
    t->run.grid[0] = t->run.grid[1] = t->run.grid[2] = 1;
  else
    must(vyc_bundled_kernel_resolve(kernels[kernel], &t->run));
  return t;
}

static int ascending(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static void latency(const char *name, int kernel) {
  load(1);
  task *t = make(kernel);
  uint64_t *times = malloc(calls * sizeof *times);
  if (times == NULL) exit(1);
  for (uint64_t i = 0; i < 2000 && i < calls; i++)
    must(vyc_worker_run(worker, NULL, (uint32_t)kernel, &t->run));
  for (uint64_t i = 0; i < calls; i++) {
    const uint64_t begin = now();
    must(vyc_worker_run(worker, NULL, (uint32_t)kernel, &t->run));
    times[i] = now() - begin;
  }
  qsort(times, calls, sizeof *times, ascending);
  printf("%s %.3f %.3f %.3f %.3f\n", name, times[calls / 2] / 1e3, times[calls * 99 / 100] / 1e3,
         times[calls * 999 / 1000] / 1e3, times[calls - 1] / 1e3);
  fflush(stdout);
  free(times);
  free(t);
  unload();
}

typedef struct share {
  int kernel;
  uint32_t window;
  uint64_t calls;
} share;

/* Submits calls, so many in flight; waits for the oldest. */
static void *submit(void *argument) {
  const share *s = argument;
  task **tasks = calloc(s->window, sizeof *tasks);
  vyc_ticket **tickets = calloc(s->window, sizeof *tickets);
  if (tasks == NULL || tickets == NULL) exit(1);
  for (uint32_t i = 0; i < s->window; i++) tasks[i] = make(s->kernel);
  for (uint64_t i = 0; i < s->calls + s->window; i++) {
    const uint32_t at = (uint32_t)(i % s->window);
    if (tickets[at] != NULL) must(vyc_ticket_wait(tickets[at], -1));
    vyc_ticket_release(tickets[at]);
    tickets[at] = NULL;
    if (i < s->calls)
      must(vyc_worker_submit(worker, &tickets[at], (uint32_t)s->kernel, &tasks[at]->run));
  }
  for (uint32_t i = 0; i < s->window; i++) free(tasks[i]);
  free(tasks);
  free(tickets);
  return NULL;
}

static void rate(const char *name, int kernel, uint32_t blocks, int threads) {
  pthread_t started[MOST_THREADS];
  load(blocks);
  share s = {kernel, IN_FLIGHT * blocks / (uint32_t)threads, calls / (uint64_t)threads};
  share warm = {kernel, s.window, calls < 5000 ? calls : 5000};
  submit(&warm);
  const uint64_t begin = now();
  for (int i = 0; i < threads; i++)
    if (pthread_create(&started[i], NULL, submit, &s) != 0) exit(1);
  for (int i = 0; i < threads; i++) pthread_join(started[i], NULL);
  printf("%s %.0f\n", name,
         (double)(s.calls * (uint64_t)threads) / ((double)(now() - begin) / 1e9));
  fflush(stdout);
  unload();
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  calls = strtoull(argv[2], NULL, 10);
  vyc_driver *driver = NULL;
  must(vyc_driver_open(&driver, argc > 3 ? argv[3] : NULL));
  must(vyc_context_open(&context, driver, 0));
  must(vyc_bundle_open(&bundle, argv[1], NULL, 0));
  latency("no-array", BARE);
  latency("arrays-of-4-KiB", SAXPY);
  rate("per-second,-1-block,-1-thread", BARE, 1, 1);
  rate("per-second,-8-blocks,-1-thread", BARE, 8, 1);
  rate("per-second,-8-blocks,-2-threads", BARE, 8, 2);
  rate("per-second,-8-blocks,-4-threads", BARE, 8, 4);
  rate("per-second,-8-blocks,-4-threads,-arrays", SAXPY, 8, 4);
  vyc_bundle_release(bundle);
  must(vyc_context_close(context));
  vyc_context_release(context);
  vyc_driver_release(driver);
  return 0;
}
