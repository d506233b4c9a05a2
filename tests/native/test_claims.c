/* Who waits for a claim that another thread holds goes to sleep before long: under SCHED_FIFO the
 * holder may need this very processor, and then a yield lets it run no instruction.
 *
 * The holder stands still in the driver until the other thread has been seen to sleep. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "driver.h" /* in front of what takes short names */

#include "dispatch_test.h"

#define MOST_YIELDS 1000000u

static _Atomic uint32_t yields, sleeps;
static _Atomic bool is_holding, stands_still;

int sched_yield(void) {
  atomic_fetch_add(&yields, 1);
  return 0;
}

int nanosleep(const struct timespec *pause, struct timespec *left) {
  if (atomic_load(&is_holding)) atomic_fetch_add(&sleeps, 1);
  return clock_nanosleep(CLOCK_MONOTONIC, 0, pause, left);
}

static CUresult (*real_launch)(CUgraphExec, CUstream);

static CUresult slow_launch(CUgraphExec exec, CUstream stream) {
  if (atomic_exchange(&stands_still, false)) {
    atomic_store(&is_holding, true);
    while (atomic_load(&sleeps) == 0) CHECK(atomic_load(&yields) < MOST_YIELDS);
    atomic_store(&is_holding, false);
  }
  return real_launch(exec, stream);
}

typedef struct scene {
  vyc_context *context;
  vyc_module *module;
  vyc_plan *plan;
  vyc_buffer *in, *out;
  task t;
  vyc_call *call;
  vyc_graph *graph;
} scene;

static scene s;

static void set_up(void) {
  vyc_driver *driver = NULL;
  OK(vyc_driver_open(&driver, emulator_path));
  real_launch = driver->cuGraphLaunch;
  driver->cuGraphLaunch = slow_launch;
  OK(vyc_context_open(&s.context, driver, 0));
  vyc_driver_release(driver);
  s.module = load_module(s.context);
  s.plan = scale_plan(s.module, STREAMED);
  s.in = filled(s.context, 1.0f);
  s.out = new_buffer(s.context, BYTES);
  prepare(&s.t, 2.0f);
  on_buffers(&s.t, s.in, s.out);
  OK(vyc_call_create(&s.call, s.plan, &s.t.run));
  uint32_t step = 0;
  OK(vyc_graph_create(&s.graph, s.context));
  OK(vyc_graph_add_launch(s.graph, &step, s.plan, &s.t.run));
  OK(vyc_graph_finish(s.graph));
  for (int i = 0; i < 2; i++) {
    OK(vyc_call_run(s.call));
    OK(vyc_graph_launch(s.graph, NULL, 0, NULL));
  }
}

static void tear_down(void) {
  vyc_call_release(s.call);
  vyc_graph_release(s.graph);
  vyc_buffer_release(s.in);
  vyc_buffer_release(s.out);
  vyc_plan_release(s.plan);
  vyc_module_release(s.module);
  vyc_context_release(s.context);
  check_nothing_lives();
}

static void *run_call(void *unused) {
  OK(vyc_call_run(s.call));
  return unused;
}
static void *rebind_call(void *unused) {
  OK(vyc_call_set_run(s.call, &s.t.run));
  return unused;
}
static void *launch_graph(void *unused) {
  OK(vyc_graph_launch(s.graph, NULL, 0, NULL));
  return unused;
}

static void meets(void *(*holder)(void *), void *(*waiter)(void *)) {
  pthread_t thread;
  atomic_store(&yields, 0);
  atomic_store(&sleeps, 0);
  atomic_store(&stands_still, true);
  CHECK(pthread_create(&thread, NULL, holder, NULL) == 0);
  while (!atomic_load(&is_holding) && atomic_load(&stands_still)) {
  }
  waiter(NULL);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(atomic_load(&sleeps) > 0);
  OK(vyc_context_synchronize(s.context));
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  set_up();
  meets(run_call, run_call);
  meets(run_call, rebind_call);
  meets(rebind_call, run_call);
  meets(launch_graph, launch_graph);
  tear_down();
  return 0;
}
