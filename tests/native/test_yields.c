/* A wait gives its core to other threads when that costs little: early on the emulator, whose
 * threads may want it, and on a GPU after many times what a request takes. It looks once more
 * behind its time limit.
 *
 * The clock is this program's while it waits: it goes on by so much with each look at the stream.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/driver.h" /* in front of what takes short names */

#include "dispatch_test.h"

static _Thread_local bool is_timed; /* this thread waits */
static uint64_t now_ns, end_ns, look_ns;
static uint32_t yields, looks;

int sched_yield(void) {
  if (is_timed) yields++;
  return (int)syscall(SYS_sched_yield);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (!is_timed) return (int)syscall(SYS_clock_gettime, clock, time);
  *time = (struct timespec){(time_t)(now_ns / 1000000000u), (long)(now_ns % 1000000000u)};
  return 0;
}

static CUresult (*real_query)(CUstream);

static CUresult query(CUstream stream) {
  if (!is_timed) return real_query(stream);
  looks++;
  now_ns += look_ns;
  return now_ns < end_ns ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

/* For work that ends after so long, all in microseconds but the limit. */
static vyc_status wait_for(vyc_stream *stream, int64_t limit_ns, uint64_t of_a_look,
                           uint64_t microseconds) {
  look_ns = of_a_look * 1000;
  now_ns = 1000000000;
  end_ns = now_ns + microseconds * 1000;
  is_timed = true;
  const vyc_status status = vyc_stream_synchronize_for(stream, limit_ns);
  is_timed = false;
  return status;
}

/* How often a wait yields that takes so long. */
static uint32_t yields_in(vyc_driver *driver, vyc_stream *stream, bool is_emulator,
                          uint64_t microseconds) {
  const int32_t before = driver->is_emulator;
  driver->is_emulator = is_emulator;
  yields = 0;
  OK(wait_for(stream, -1, 10, microseconds));
  driver->is_emulator = before;
  return yields;
}

/* As one may be whose process stood still for a while. */
static void a_look_that_began_in_time_is_not_the_last_one(vyc_stream *stream) {
  OK(wait_for(stream, 1000000, 2000, 5000));
  looks = 0;
  CHECK(wait_for(stream, 1000000, 2000, 1000000) == VYC_NOT_READY);
  CHECK(looks == 3); /* in front of the wait, in time, and behind the limit */
  looks = 0;
  CHECK(wait_for(stream, 0, 2000, 1000000) == VYC_NOT_READY);
  CHECK(looks <= 2);
}

int main(int argc, char **argv) {
  vyc_driver *driver = NULL;
  vyc_context *context = NULL;
  vyc_stream *stream = NULL;
  emulator_open(argc, argv);
  OK(vyc_driver_open(&driver, emulator_path));
  real_query = driver->cuStreamQuery;
  driver->cuStreamQuery = query;
  OK(vyc_context_open(&context, driver, 0));
  OK(vyc_stream_create(&stream, context));
  CHECK(yields_in(driver, stream, true, 40) == 0);
  CHECK(yields_in(driver, stream, true, 400) > 20);
  CHECK(yields_in(driver, stream, false, 40) == 0);
  CHECK(yields_in(driver, stream, false, 400) == 0);
  CHECK(yields_in(driver, stream, false, 900) == 0);
  CHECK(yields_in(driver, stream, false, 3000) > 100);
  a_look_that_began_in_time_is_not_the_last_one(stream);
  vyc_stream_release(stream);
  vyc_context_release(context);
  vyc_driver_release(driver);
  check_nothing_lives();
  return 0;
}
