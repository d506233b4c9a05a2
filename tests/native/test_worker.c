/* Workers from C, out of the bundle worker.vyre: `adding` has the kernels add_to (h[i] += d[i]) and
 * saxpy (out[i] = a * x[i] + y[i]). */
#define _POSIX_C_SOURCE 200809L
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/driver.h" /* in front of what takes short names */

#include "bundle_test.h"

#define THREADS 4
#define TURNS 60
#define ELEMENTS 100u

enum { ADD, SAXPY, KERNELS };

static vyc_driver *driver;
static vyc_context *context;
static vyc_bundle *bundle;
static vyc_worker *worker;
static vyc_bundled_kernel *kernels[KERNELS];

static const vyc_worker_desc DESC = {
    .struct_size = sizeof(vyc_worker_desc), .idle_ns = 200000000, .busy_ns = 2000000, .first = 5};

static void begin(uint32_t blocks) {
  vyc_worker_desc desc = DESC;
  desc.blocks = blocks;
  OK(vyc_driver_open(&driver, emulator_path));
  OK(vyc_context_open(&context, driver, 0));
  OK(vyc_bundle_open(&bundle, path_beside("worker.vyre"), NULL, 0));
  OK(vyc_bundled_worker_load(&worker, kernels, KERNELS, context, bundle, "adding", &desc));
}

static void end(void) {
  vyc_worker_release(worker);
  for (uint32_t i = 0; i < KERNELS; i++) vyc_bundled_kernel_release(kernels[i]);
  vyc_bundle_release(bundle);
  OK(vyc_context_close(context));
  vyc_context_release(context);
  vyc_driver_release(driver);
  check_nothing_lives();
}

static vyc_buffer *many_numbers(int32_t value, uint32_t count) {
  vyc_buffer *buffer = NULL;
  OK(vyc_buffer_alloc(&buffer, context, count * 4));
  OK(vyc_fill(buffer, 0, (uint32_t)value, 4, count * 4));
  return buffer;
}

static vyc_buffer *numbers(int32_t value) { return many_numbers(value, ELEMENTS); }

static void check_numbers(vyc_buffer *buffer, int32_t value) {
  int32_t found[ELEMENTS];
  OK(vyc_copy_out(buffer, 0, found, sizeof found));
  for (uint32_t i = 0; i < ELEMENTS; i++) CHECK(found[i] == value);
}

/* h += d */
static vyc_status add_many(vyc_buffer *h, vyc_buffer *d, uint32_t count, int64_t timeout_ns) {
  const vyc_argument arguments[] = {{.kind = VYC_ARGUMENT_BUFFER, .count = count, .buffer = h},
                                    {.kind = VYC_ARGUMENT_BUFFER, .count = count, .buffer = d}};
  vyc_run run = {.struct_size = sizeof run,
                 .argument_count = 2,
                 .arguments = arguments,
                 .timeout_ns = timeout_ns};
  OK(vyc_bundled_kernel_resolve(kernels[ADD], &run));
  return vyc_worker_run(worker, NULL, ADD, &run);
}

static vyc_status add(vyc_buffer *h, vyc_buffer *d, int64_t timeout_ns) {
  return add_many(h, d, ELEMENTS, timeout_ns);
}

typedef struct host_call {
  float x[ELEMENTS], out[ELEMENTS];
  vyc_argument arguments[3];
  uint64_t scalars[1];
  vyc_run run;
} host_call;

/* out = a * x + x */
static void prepare_call(host_call *call, float a) {
  for (uint32_t i = 0; i < ELEMENTS; i++) call->x[i] = (float)i;
  memset(call->out, 0xff, sizeof call->out);
  memset(call->arguments, 0, sizeof call->arguments);
  for (uint32_t i = 0; i < 3; i++) {
    call->arguments[i].kind = VYC_ARGUMENT_HOST;
    call->arguments[i].count = ELEMENTS;
    if (i < 2) call->arguments[i].data = call->x;
  }
  call->arguments[2].result = call->out;
  call->scalars[0] = vyc_bits_f32(a);
  call->run = (vyc_run){.struct_size = sizeof call->run,
                        .argument_count = 3,
                        .scalar_count = 1,
                        .arguments = call->arguments,
                        .scalars = call->scalars,
                        .timeout_ns = -1};
  OK(vyc_bundled_kernel_resolve(kernels[SAXPY], &call->run));
}

static void check_call(const host_call *call, float a) {
  for (uint32_t i = 0; i < ELEMENTS; i++) CHECK(call->out[i] == a * call->x[i] + call->x[i]);
}

/* ---- one thread ------------------------------------------------------------------------------ */

static void calls_with_host_arrays_and_buffers(void) {
  static host_call call;
  vyc_buffer *h = numbers(7), *d = numbers(2);
  for (int32_t turn = 1; turn <= TURNS; turn++) {
    prepare_call(&call, (float)turn);
    OK(vyc_worker_run(worker, NULL, SAXPY, &call.run));
    check_call(&call, (float)turn);
    OK(add(h, d, -1));
  }
  check_numbers(h, 7 + 2 * TURNS);
  vyc_buffer_release(h);
  vyc_buffer_release(d);
}

static void tickets(void) {
  static host_call calls[100];
  vyc_ticket *given[100];
  for (uint32_t i = 0; i < 100; i++) {
    prepare_call(&calls[i], (float)i);
    OK(vyc_worker_submit(worker, &given[i], SAXPY, &calls[i].run));
  }
  for (uint32_t i = 100; i-- > 0;) {
    if (i % 7 != 0) OK(vyc_ticket_wait(given[i], -1));
    vyc_ticket_release(given[i]);
    if (i % 7 != 0) check_call(&calls[i], (float)i);
  }
}

static uint32_t told_in_flight(char *text, size_t bytes) {
  uint32_t count = 0;
  OK(vyc_context_in_flight(context, text, bytes, &count));
  return count;
}

static void calls_that_have_ended_are_not_told(void) {
  static host_call calls[6];
  vyc_ticket *given[6];
  char text[1024];
  for (uint32_t i = 0; i < 6; i++) prepare_call(&calls[i], (float)i);
  for (uint32_t i = 0; i < 5; i++) OK(vyc_worker_submit(worker, &given[i], SAXPY, &calls[i].run));
  for (uint32_t i = 0; i < 3; i++) vyc_ticket_release(given[i]);
  OK(vyc_context_synchronize(context));
  CHECK(told_in_flight(NULL, 0) == 0);
  OK(vyc_worker_pause(worker, -1));
  OK(vyc_worker_submit(worker, &given[5], SAXPY, &calls[5].run));
  CHECK(told_in_flight(text, sizeof text) == 1);
  CHECK(strstr(text, ", a call of a worker") != NULL);
  OK(vyc_worker_resume(worker));
  for (uint32_t i = 3; i < 6; i++) {
    OK(vyc_ticket_wait(given[i], -1));
    check_call(&calls[i], (float)i);
    vyc_ticket_release(given[i]);
  }
}

static void a_forked_child_may_close_it(void) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0)
    _exit(vyc_worker_close(worker, -1) == VYC_OK &&
                  vyc_worker_pause(worker, -1) == VYC_E_UNAVAILABLE
              ? 0
              : 1);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Its grid has 16 blocks, enough for parts in three blocks of the worker. */
static void a_call_with_many_blocks(void) {
  static int32_t found[4096];
  vyc_buffer *h = many_numbers(0, 4096), *d = many_numbers(3, 4096);
  for (int turn = 0; turn < TURNS; turn++) OK(add_many(h, d, 4096, -1));
  OK(vyc_copy_out(h, 0, found, sizeof found));
  for (uint32_t i = 0; i < 4096; i++) CHECK(found[i] == 3 * TURNS);
  vyc_buffer_release(h);
  vyc_buffer_release(d);
}

/* Those before a fence are waited for, by each of its waits, and no later ones. */
static void a_fence_is_between_calls(void) {
  static host_call calls[2];
  vyc_ticket *given[2];
  vyc_fence *fences[2];
  OK(vyc_worker_pause(worker, -1)); /* so that a launch is needed */
  OK(vyc_worker_resume(worker));
  OK(vyc_context_synchronize(
      context)); /* and none for a stop that came too late for the last one */
  CHECK(emulator_set("held", 1) == 0);
  for (uint32_t i = 0; i < 2; i++) {
    OK(vyc_fence_create(&fences[i], context));
    prepare_call(&calls[i], (float)i);
    OK(vyc_worker_submit(worker, &given[i], SAXPY, &calls[i].run));
  }
  OK(vyc_fence_wait(fences[0], 0));
  CHECK(vyc_fence_wait(fences[1], 1000000) == VYC_NOT_READY);
  CHECK(emulator_set("held", 0) == 0);
  OK(vyc_fence_wait(fences[1], -1));
  OK(vyc_ticket_query(given[0]));
  OK(vyc_ticket_wait(given[1], -1));
  OK(vyc_fence_wait(fences[1], 0));
  for (uint32_t i = 0; i < 2; i++) {
    check_call(&calls[i], (float)i);
    vyc_ticket_release(given[i]);
    vyc_fence_release(fences[i]);
  }
}

static void a_pause_holds_calls_up(void) {
  vyc_buffer *h = numbers(1), *d = numbers(1);
  vyc_worker_stats stats = {.struct_size = sizeof stats};
  OK(vyc_context_synchronize(context)); /* the call is late, not its arrays */
  CHECK(vyc_worker_pause_wait(worker, 0) == VYC_E_INVALID);
  OK(vyc_worker_pause(worker, -1));
  OK(vyc_worker_pause_wait(worker, -1));
  OK(vyc_worker_stats_get(worker, &stats));
  CHECK(stats.running == 0);
  CHECK(add(h, d, 1000000) == VYC_E_TIMEOUT);
  OK(vyc_worker_resume(worker));
  CHECK(vyc_worker_resume(worker) == VYC_E_INVALID);
  OK(add(h, d, -1));
  check_numbers(h, 3); /* the one that was late, too */
  vyc_buffer_release(h);
  vyc_buffer_release(d);
}

static int ends_with(const char *text, const char *end) {
  const size_t bytes = strlen(text), of_end = strlen(end);
  return bytes >= of_end && strcmp(text + bytes - of_end, end) == 0;
}

static void what_is_refused(void) {
  static host_call call;
  uint32_t number = 0;
  vyc_worker *none = NULL;
  vyc_bundled_kernel *one = NULL, *some[3];
  vyc_worker_desc desc = DESC;
  CHECK(vyc_bundled_kernel_load(&one, NULL, 0, context, bundle, "adding", 0) == VYC_E_UNSUPPORTED);
  CHECK(vyc_bundled_worker_load(&none, some, 2, context, bundle, "saxpy", &desc) == VYC_E_INVALID);
  CHECK(vyc_bundled_worker_load(&none, some, 2, context, bundle, "x", &desc) == VYC_E_INVALID);
  CHECK(ends_with(vyc_last_message(), "there is no worker x; there are: adding"));
  CHECK(vyc_bundled_kernel_load(&one, NULL, 0, context, bundle, "x", 0) == VYC_E_INVALID);
  CHECK(ends_with(vyc_last_message(), "there is no kernel x; there are: add_to, saxpy"));
  CHECK(vyc_bundle_kernel_find(bundle, &number, "x") == VYC_E_INVALID);
  CHECK(ends_with(vyc_last_message(), "there is no kernel x; there are: add_to, adding, saxpy"));

  CHECK(vyc_bundled_worker_load(&none, some, 1, context, bundle, "adding", &desc) == VYC_E_INVALID);
  CHECK(vyc_bundled_worker_load(&none, some, 3, context, bundle, "adding", &desc) == VYC_E_INVALID);
  desc.blocks = 33;
  CHECK(vyc_bundled_worker_load(&none, some, 2, context, bundle, "adding", &desc) == VYC_E_INVALID);
  static const struct {
    uint64_t idle_ns, busy_ns;
  } times[] = {{0, 0}, {1, 1}, {1, 9999}, {1, UINT64_MAX}, {UINT64_C(1) << 63, 0}};
  for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
    desc = DESC;
    desc.idle_ns = times[i].idle_ns;
    desc.busy_ns = times[i].busy_ns;
    CHECK(vyc_bundled_worker_load(&none, some, 2, context, bundle, "adding", &desc) ==
          VYC_E_INVALID);
  }
  CHECK(none == NULL && one == NULL && some[0] == NULL && some[1] == NULL);
  prepare_call(&call, 1.0f);
  CHECK(vyc_worker_run(worker, NULL, KERNELS, &call.run) == VYC_E_INVALID);
  call.run.iterations = 2;
  CHECK(vyc_worker_run(worker, NULL, SAXPY, &call.run) == VYC_E_UNSUPPORTED);
}

static void a_closed_worker_takes_no_call(void) {
  static host_call call, late;
  vyc_ticket *ticket = NULL;
  prepare_call(&call, 1.0f);
  prepare_call(&late, 1.0f);
  OK(vyc_worker_pause(worker, -1));
  OK(vyc_worker_submit(worker, &ticket, SAXPY, &call.run));
  CHECK(vyc_worker_close(worker, 0) == VYC_NOT_READY); /* the call could begin only now */
  CHECK(vyc_worker_run(worker, NULL, SAXPY, &late.run) == VYC_E_UNAVAILABLE);
  OK(vyc_worker_close(worker, -1));
  OK(vyc_ticket_query(ticket));
  check_call(&call, 1.0f);
  vyc_ticket_release(ticket);
  OK(vyc_worker_close(worker, -1));
  CHECK(vyc_worker_run(worker, NULL, SAXPY, &late.run) == VYC_E_UNAVAILABLE);
}

/* The shortest and the longest times that are taken: each launch takes a call. */
static void the_ends_of_its_times(void) {
  static const struct {
    uint64_t idle_ns, busy_ns;
  } times[] = {{1, 10000}, {INT64_MAX, INT64_MAX}};
  for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
    vyc_worker *const first = worker;
    vyc_bundled_kernel *own[KERNELS];
    vyc_worker_desc desc = DESC;
    desc.idle_ns = times[i].idle_ns;
    desc.busy_ns = times[i].busy_ns;
    OK(vyc_bundled_worker_load(&worker, own, KERNELS, context, bundle, "adding", &desc));
    calls_with_host_arrays_and_buffers();
    vyc_worker_release(worker);
    worker = first;
    for (uint32_t k = 0; k < KERNELS; k++) vyc_bundled_kernel_release(own[k]);
  }
}

/* Its buffers would be given to others while the call still runs. */
static void a_release_waits_for_a_call_whose_stream_cannot_be_queried(void) {
  enum { MANY = 1 << 18 };
  static const int32_t results[] = {2, 999};
  for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
    vyc_worker *const first = worker;
    vyc_bundled_kernel *own[KERNELS];
    vyc_buffer *h = many_numbers(1, MANY), *d = many_numbers(2, MANY);
    int32_t last = 0;
    OK(vyc_bundled_worker_load(&worker, own, KERNELS, context, bundle, "adding", &DESC));
    OK(vyc_context_synchronize(context));
    CHECK(add_many(h, d, MANY, 1000000) == VYC_E_TIMEOUT);
    CHECK(emulator_fail("cuStreamQuery", 1, results[i], 1) == 0);
    vyc_worker_release(worker);
    worker = first;
    CHECK(emulator_reset() == 0);
    OK(vyc_copy_out(h, (MANY - 1) * sizeof last, &last, sizeof last));
    CHECK(last == 3);
    for (uint32_t k = 0; k < KERNELS; k++) vyc_bundled_kernel_release(own[k]);
    vyc_buffer_release(h);
    vyc_buffer_release(d);
  }
}

static CUresult(CUDAAPI *launch_kernel)(CUfunction, unsigned int, unsigned int, unsigned int,
                                        unsigned int, unsigned int, unsigned int, unsigned int,
                                        CUstream, void **, void **);
static CUresult(CUDAAPI *wait_for_all)(void);
static uint64_t held_up;

/* As the driver does while another library loads code. */
static CUresult CUDAAPI launch_behind_all(CUfunction function, unsigned int x, unsigned int y,
                                          unsigned int z, unsigned int block_x,
                                          unsigned int block_y, unsigned int block_z,
                                          unsigned int shared_bytes, CUstream stream,
                                          void **parameters, void **extra) {
  held_up++;
  CHECK(wait_for_all() == CUDA_SUCCESS);
  return launch_kernel(function, x, y, z, block_x, block_y, block_z, shared_bytes, stream,
                       parameters, extra);
}

static uint64_t seconds(void) {
  struct timespec now;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return (uint64_t)now.tv_sec;
}

static uint32_t running(void) {
  vyc_worker_stats stats = {.struct_size = sizeof stats};
  OK(vyc_worker_stats_get(worker, &stats));
  return stats.running;
}

/* Before a call that needs a launch, two other blocks are idle, and may stay so for a minute. */
static void idle_blocks_leave_for_a_launch_that_is_held_up(void) {
  enum { CALLS = 60 };
  static host_call calls[CALLS];
  vyc_ticket *given[CALLS];
  vyc_worker *const first = worker;
  vyc_bundled_kernel *own[KERNELS];
  vyc_worker_desc desc = DESC;
  desc.blocks = 3;
  desc.idle_ns = UINT64_C(60000000000);
  desc.busy_ns = 50000000;
  OK(vyc_bundled_worker_load(&worker, own, KERNELS, context, bundle, "adding", &desc));
  held_up = 0;
  while (running() < 2) {
    OK(vyc_worker_pause(worker, -1));
    for (uint32_t i = 0; i < CALLS; i++) {
      prepare_call(&calls[i], (float)i);
      OK(vyc_worker_submit(worker, &given[i], SAXPY, &calls[i].run));
    }
    OK(vyc_worker_resume(worker));
    for (uint32_t i = 0; i < CALLS; i++) {
      OK(vyc_ticket_wait(given[i], -1));
      vyc_ticket_release(given[i]);
    }
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL); /* longer than busy_ns */
  }
  const uint64_t begun = seconds();
  *(void **)&launch_kernel = *(void **)&driver->cuLaunchKernel;
  driver->cuLaunchKernel = launch_behind_all;
  while (held_up == 0) {
    prepare_call(&calls[0], 3.0f);
    OK(vyc_worker_run(worker, NULL, SAXPY, &calls[0].run));
    check_call(&calls[0], 3.0f);
  }
  *(void **)&driver->cuLaunchKernel = *(void **)&launch_kernel;
  CHECK(running() <= 1);
  CHECK(seconds() < begun + 30);
  vyc_worker_release(worker);
  worker = first;
  for (uint32_t k = 0; k < KERNELS; k++) vyc_bundled_kernel_release(own[k]);
}

/* ---- several threads ------------------------------------------------------------------------- */

static vyc_buffer *shared, *ones;
static _Atomic int working;

/* Calls beside launches, copies and fills of the same buffers. */
static void *work(void *argument) {
  const int32_t number = (int32_t)(intptr_t)argument;
  host_call *call = malloc(sizeof *call);
  CHECK(call != NULL);
  vyc_buffer *own = numbers(0);
  for (int32_t turn = 1; turn <= TURNS; turn++) {
    OK(add(shared, ones, -1));
    OK(add(own, ones, -1));
    if (turn % 4 == 0) {
      check_numbers(own, turn);
      OK(vyc_fill(own, 0, (uint32_t)turn, 4, ELEMENTS * 4));
    }
    if (turn % 4 == 1) {
      vyc_ticket *ticket = NULL;
      prepare_call(call, (float)(number + turn));
      OK(vyc_worker_submit(worker, &ticket, SAXPY, &call->run));
      OK(vyc_ticket_wait(ticket, -1));
      vyc_ticket_release(ticket);
      check_call(call, (float)(number + turn));
    }
  }
  check_numbers(own, TURNS);
  vyc_buffer_release(own);
  free(call);
  working--;
  return NULL;
}

/* And what takes the worker from the device meanwhile, or asks what runs, also while calls come and
 * go with another worker. */
static void *disturb(void *unused) {
  static host_call call;
  vyc_bundled_kernel *own[KERNELS];
  vyc_worker *another;
  while (working > 0) {
    OK(vyc_bundled_worker_load(&another, own, KERNELS, context, bundle, "adding", &DESC));
    prepare_call(&call, 2.0f);
    OK(vyc_worker_run(another, NULL, SAXPY, &call.run));
    check_call(&call, 2.0f);
    for (uint32_t k = 0; k < KERNELS; k++) vyc_bundled_kernel_release(own[k]);
    vyc_worker_release(another);
    CHECK(told_in_flight(NULL, 0) <= THREADS);
    const vyc_status status = vyc_worker_pause(worker, 0);
    CHECK(status == VYC_OK || status == VYC_NOT_READY);
    if (working % 2 == 0) OK(vyc_worker_pause_wait(worker, -1));
    OK(vyc_worker_resume(worker));
    OK(vyc_context_trim(context));
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  }
  return unused;
}

static void calls_of_many_threads(void) {
  pthread_t threads[THREADS], other;
  shared = numbers(0);
  ones = numbers(1);
  working = THREADS;
  for (intptr_t i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
  CHECK(pthread_create(&other, NULL, disturb, NULL) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(pthread_join(other, NULL) == 0);
  check_numbers(shared, THREADS * TURNS);
  vyc_buffer_release(shared);
  vyc_buffer_release(ones);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  *(void **)&wait_for_all = symbol(dlopen(emulator_path, RTLD_NOW), "cuCtxSynchronize");
  static const uint32_t BLOCKS[] = {0, 1, 3};
  for (size_t i = 0; i < sizeof BLOCKS / sizeof BLOCKS[0]; i++) {
    begin(BLOCKS[i]);
    calls_with_host_arrays_and_buffers();
    tickets();
    calls_that_have_ended_are_not_told();
    a_forked_child_may_close_it();
    a_call_with_many_blocks();
    a_fence_is_between_calls();
    a_pause_holds_calls_up();
    what_is_refused();
    the_ends_of_its_times();
    a_release_waits_for_a_call_whose_stream_cannot_be_queried();
    idle_blocks_leave_for_a_launch_that_is_held_up();
    calls_of_many_threads();
    a_closed_worker_takes_no_call();
    end();
  }
  return 0;
}
