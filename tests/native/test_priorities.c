/* A waiter of real-time priority lends it to the holder of the claim, so that no thread in between
 * keeps the holder from a processor that they share. Which thread goes on is settled by priorities
 * on one processor; a hog there would keep it for half a second.
 *
 * Without the right to real-time priorities those scenes are left out, and say so. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/driver.h" /* in front of what takes short names */

#include "claims_test.h"

#define HOG_NS UINT64_C(500000000)
#define HOLD_NS UINT64_C(5000000) /* of a driver call: longer than a waiter sleeps at a time */
enum { LOWEST = 5, LOW = 10, MIDDLE = 20, HIGH = 30 };

/* ---- what waiters do ------------------------------------------------------------------------- */

static _Atomic uint32_t sleeps, loans; /* begun */

int nanosleep(const struct timespec *pause, struct timespec *left) {
  atomic_fetch_add(&sleeps, 1);
  return clock_nanosleep(CLOCK_MONOTONIC, 0, pause, left);
}

static _Atomic bool refuses_futexes, refuses_reading; /* what the kernel does, or its guards */

ssize_t process_vm_readv(pid_t process, const struct iovec *to, unsigned long to_count,
                         const struct iovec *from, unsigned long from_count, unsigned long flags) {
  if (!atomic_load(&refuses_reading))
    return syscall(SYS_process_vm_readv, process, to, to_count, from, from_count, flags);
  errno = EPERM;
  return -1;
}

long syscall(long number, ...) {
  static long (*real)(long, ...);
  long (*call)(long, ...) = __atomic_load_n(&real, __ATOMIC_RELAXED);
  if (call == NULL) {
    *(void **)&call = dlsym(RTLD_NEXT, "syscall");
    __atomic_store_n(&real, call, __ATOMIC_RELAXED);
  }
  long a[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_LOCK_PI) {
    if (atomic_load(&refuses_futexes)) {
      errno = ENOSYS;
      return -1;
    }
    atomic_fetch_add(&loans, 1);
  }
  return call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- threads --------------------------------------------------------------------------------- */

static cpu_set_t shared, others; /* one processor, and the rest of those that we may use */

static void find_processors(void) {
  cpu_set_t all;
  CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
  CPU_ZERO(&shared);
  others = all;
  for (int i = CPU_SETSIZE - 1; i >= 0 && CPU_COUNT(&shared) == 0; i--)
    if (CPU_ISSET(i, &all)) CPU_SET(i, &shared);
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &shared)) CPU_CLR(i, &others);
}

/* Priority 0: not a real-time thread. The error number. */
static int begin(pthread_t *thread, int priority, const cpu_set_t *where, void *(*run)(void *)) {
  const struct sched_param parameters = {.sched_priority = priority};
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED) == 0);
  CHECK(pthread_attr_setschedpolicy(&attributes, priority == 0 ? SCHED_OTHER : SCHED_FIFO) == 0);
  CHECK(pthread_attr_setschedparam(&attributes, &parameters) == 0);
  if (where != NULL) CHECK(pthread_attr_setaffinity_np(&attributes, sizeof *where, where) == 0);
  const int error = pthread_create(thread, &attributes, run, NULL);
  CHECK(pthread_attr_destroy(&attributes) == 0);
  return error;
}

static void start(pthread_t *thread, int priority, const cpu_set_t *where, void *(*run)(void *)) {
  CHECK(begin(thread, priority, where, run) == 0);
}

static void end(pthread_t thread) { CHECK(pthread_join(thread, NULL) == 0); }

static void *nothing(void *unused) { return unused; }

static bool may_have_priority(void) {
  pthread_t thread;
  const int error = begin(&thread, HIGH, &shared, nothing);
  if (error == 0) end(thread);
  return error == 0;
}

/* Use the processor for so long. */
static void work(uint64_t ns, const _Atomic bool *stop) {
  struct timespec used;
  do {
    CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0);
  } while ((uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec < ns &&
           !(stop != NULL && atomic_load(stop)));
}

/* ---- the scene ------------------------------------------------------------------------------- */

static CUresult (*real_launch)(CUgraphExec, CUstream);
static CUresult (*real_record)(CUevent, CUstream);
static void (*_Atomic in_launch)(void); /* what a launch does instead of launching */
static void (*_Atomic in_record)(void); /* what the next record of an event does */

static CUresult other_launch(CUgraphExec exec, CUstream stream) {
  void (*act)(void) = atomic_load(&in_launch);
  if (act == NULL) return real_launch(exec, stream);
  act();
  return CUDA_SUCCESS;
}

static CUresult other_record(CUevent event, CUstream stream) {
  void (*act)(void) = atomic_exchange(&in_record, NULL);
  if (act != NULL) act();
  return real_record(event, stream);
}

/* On the stream of somebody else. */
static struct {
  vyc_stream *stream;
  task t;
  vyc_call *call;
} there;

static void set_up(void) {
  vyc_driver *driver = NULL;
  OK(vyc_driver_open(&driver, emulator_path));
  real_launch = driver->cuGraphLaunch;
  real_record = driver->cuEventRecord;
  driver->cuGraphLaunch = other_launch;
  driver->cuEventRecord = other_record;
  set_up_on(driver);
  OK(vyc_stream_adopt(&there.stream, s.context, 0));
  prepare(&there.t, 2.0f);
  on_buffers(&there.t, s.in, s.out);
  there.t.run.stream = there.stream;
  OK(vyc_call_create(&there.call, s.prepared, &there.t.run));
  for (int i = 0; i < 2; i++) {
    OK(vyc_call_run(there.call));
    OK(vyc_prepared_launch(s.prepared, &there.t.run));
  }
}

static void end_all(void) {
  atomic_store(&in_launch, NULL);
  vyc_call_release(there.call);
  vyc_stream_release(there.stream);
  tear_down();
}

static void *run_call_there(void *unused) {
  OK(vyc_call_run(there.call));
  return unused;
}
static void *launch_there(void *unused) {
  OK(vyc_prepared_launch(s.prepared, &there.t.run));
  return unused;
}

/* ---- a hog in between ------------------------------------------------------------------------ */

static void *(*await)(void *);
static pthread_t waiter, hog, between;
static int priority_between;
static _Atomic bool hog_is_there, hog_has_ended, waiter_is_through;

static void *be_hog(void *unused) {
  work(HOG_NS, &waiter_is_through);
  atomic_store(&hog_has_ended, true);
  return unused;
}

static void *be_waiter(void *unused) {
  await(NULL);
  CHECK(atomic_load(&hog_is_there) && !atomic_load(&hog_has_ended));
  atomic_store(&waiter_is_through, true);
  return unused;
}

/* By the holder, in the driver: whoever begins with a higher priority runs at once. */
static void be_held_up(void) {
  atomic_store(&in_launch, NULL);
  start(&waiter, HIGH, &shared, be_waiter);
  start(&hog, MIDDLE, &shared, be_hog);
  atomic_store(&hog_is_there, true);
  work(HOLD_NS, NULL);
}

static void end_hog(pthread_t holder) {
  end(holder);
  end(waiter);
  end(hog);
  CHECK(atomic_load(&loans) > 0);
}

static void begin_scene(void) {
  atomic_store(&hog_is_there, false);
  atomic_store(&hog_has_ended, false);
  atomic_store(&waiter_is_through, false);
  atomic_store(&loans, 0);
}

static void a_hog_does_not_come_between(void *(*holder)(void *), void *(*waits)(void *)) {
  pthread_t thread;
  begin_scene();
  await = waits;
  atomic_store(&in_launch, be_held_up);
  start(&thread, LOW, &shared, holder);
  end_hog(thread);
}

/* The holder of what is waited for waits itself, for what a thread of the lowest priority has. */
static void hold_up_who_waits(void) {
  atomic_store(&sleeps, 0);
  start(&between, priority_between, priority_between == 0 ? &others : &shared, run_call_there);
  while (priority_between == 0 && atomic_load(&sleeps) == 0) {
  }
  await = run_call_there;
  be_held_up();
}

static void a_hog_does_not_come_between_three(int priority) {
  pthread_t thread;
  begin_scene();
  priority_between = priority;
  atomic_store(&in_record, hold_up_who_waits);
  start(&thread, LOWEST, &shared, launch_there);
  end_hog(thread);
  end(between);
}

/* ---- many ------------------------------------------------------------------------------------ */

#define CROWD 32
#define ROUNDS 400u

static uint64_t launched; /* guarded by the claim */

static void count_and_rest(void) {
  const struct timespec moment = {0, 100000};
  if (++launched % 16 == 0) clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
}

static void *run_often(void *unused) {
  for (uint32_t i = 0; i < ROUNDS; i++) OK(vyc_call_run(s.call));
  return unused;
}

static void everybody_in_a_crowd_ends(int priority) {
  pthread_t threads[CROWD];
  launched = 0;
  atomic_store(&in_launch, count_and_rest);
  for (int i = 0; i < CROWD; i++)
    start(&threads[i], priority == 0 ? 0 : priority + i, NULL, run_often);
  for (int i = 0; i < CROWD; i++) end(threads[i]);
  atomic_store(&in_launch, NULL);
  CHECK(launched == CROWD * ROUNDS);
}

/* ---- a holder that ends ---------------------------------------------------------------------- */

static _Atomic bool is_holding;

static void hold_until_lent(void) {
  atomic_store(&in_launch, NULL);
  atomic_store(&is_holding, true);
  while (atomic_load(&loans) == 0) {
  }
}

static void the_holder_ends_when_it_has_let_go(void) {
  for (int i = 0; i < 50; i++) {
    pthread_t holder, waits;
    atomic_store(&loans, 0);
    atomic_store(&is_holding, false);
    atomic_store(&in_launch, hold_until_lent);
    start(&holder, 0, &others, run_call);
    while (!atomic_load(&is_holding)) {
    }
    start(&waits, HIGH, &shared, run_call);
    end(holder);
    end(waits);
  }
}

/* ---- a kernel that does not lend ------------------------------------------------------------- */

static void hold_until_somebody_sleeps(void) {
  atomic_store(&in_launch, NULL);
  atomic_store(&is_holding, true);
  while (atomic_load(&sleeps) == 0) {
  }
}

static void a_waiter_sleeps_where_it_cannot_lend(_Atomic bool *refusal) {
  pthread_t holder, waits;
  atomic_store(refusal, true);
  atomic_store(&loans, 0);
  atomic_store(&sleeps, 0);
  atomic_store(&is_holding, false);
  atomic_store(&in_launch, hold_until_somebody_sleeps);
  start(&holder, 0, &others, run_call);
  while (!atomic_load(&is_holding)) {
  }
  start(&waits, HIGH, &shared, run_call);
  end(holder);
  end(waits);
  CHECK(atomic_load(&loans) == 0);
  atomic_store(refusal, false);
}

/* ---- a fork ---------------------------------------------------------------------------------- */

#define MANY 70 /* more than can lend at a time */

static _Atomic bool may_go_on;

static void hold_until_told(void) {
  atomic_store(&in_launch, NULL);
  atomic_store(&is_holding, true);
  while (!atomic_load(&may_go_on)) {
  }
}

static void check_child(pid_t child) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_forked_child_waits_for_nobody(void) {
  pthread_t holder, waits[MANY];
  atomic_store(&is_holding, false);
  atomic_store(&loans, 0);
  atomic_store(&in_launch, hold_until_told);
  start(&holder, 0, &others, run_call);
  while (!atomic_load(&is_holding)) {
  }
  for (int i = 0; i < MANY; i++) start(&waits[i], HIGH, &shared, run_call);
  while (atomic_load(&loans) < CROWD) {
  }
  const pid_t child = fork();
  const uint32_t before = atomic_load(&loans);
  CHECK(child >= 0);
  if (child == 0) {
    CHECK(vyc_call_run(s.call) == VYC_E_UNAVAILABLE);
    CHECK(vyc_call_set_run(s.call, &s.t.run) == VYC_E_UNAVAILABLE);
    CHECK(vyc_prepared_launch(s.prepared, &s.t.run) == VYC_E_UNAVAILABLE);
    CHECK(atomic_load(&loans) == before);
    _exit(0);
  }
  check_child(child);
  atomic_store(&may_go_on, true);
  end(holder);
  for (int i = 0; i < MANY; i++) end(waits[i]);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  /* No threads of the emulator: they would have the priority and processor of the thread whose call
   * begins them, and the thread sanitizer lets that call wait until they run. */
  CHECK(emulator_set("stream_mode", LAZY) == 0);
  find_processors();
  set_up();
  everybody_in_a_crowd_ends(0);
  if (!may_have_priority()) {
    puts("real-time priorities are refused here: lending them is not tested");
    end_all();
    return 0;
  }
  a_hog_does_not_come_between(run_call, run_call);
  a_hog_does_not_come_between(run_call, rebind_call);
  a_hog_does_not_come_between(rebind_call, run_call);
  a_hog_does_not_come_between(launch_graph, launch_graph);
  a_hog_does_not_come_between_three(LOW);
  everybody_in_a_crowd_ends(LOWEST);
  if (CPU_COUNT(&others) == 0) {
    puts("one processor: holders that run beside their waiters are not tested");
  } else {
    a_hog_does_not_come_between_three(0);
    the_holder_ends_when_it_has_let_go();
    a_waiter_sleeps_where_it_cannot_lend(&refuses_futexes);
    a_waiter_sleeps_where_it_cannot_lend(&refuses_reading);
    a_forked_child_waits_for_nobody();
  }
  end_all();
  return 0;
}
