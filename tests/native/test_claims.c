/* A thread that waits for a claim of another one goes to sleep before long: under SCHED_FIFO the
 * holder may need this very processor, and then a yield lets it run no instruction.
 *
 * The holder stands still in the driver until the other thread has been seen to sleep. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "base/driver.h" /* in front of what takes short names */

#include "claims_test.h"

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

static void set_up(void) {
  vyc_driver *driver = NULL;
  OK(vyc_driver_open(&driver, emulator_path));
  real_launch = driver->cuGraphLaunch;
  driver->cuGraphLaunch = slow_launch;
  set_up_on(driver);
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
