/* Counters: what is counted, that no thread loses a count, resets, and states of the context. */
#define _POSIX_C_SOURCE 200809L
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dispatch_test.h"

#define CUDA_ERROR_INVALID_VALUE 1

enum { MOST = 256 };

static uint32_t row_of(const char *name) {
  for (uint32_t row = 0;; row++) {
    const char *found = NULL, *help = NULL;
    uint32_t kind = 0;
    OK(vyc_stats_row(&found, &help, &kind, row));
    CHECK(kind >= VYC_STATS_TOTAL && kind <= VYC_STATS_MOST && help[0] != '\0');
    if (strcmp(found, name) == 0) return row;
  }
}

static uint64_t value_of(vyc_context *context, const char *name) {
  uint64_t values[MOST];
  OK(vyc_context_stats(context, values, MOST));
  return values[row_of(name)];
}

static void rows_end(void) {
  const char *name = NULL, *help = NULL;
  uint32_t kind = 0, row = 0;
  while (vyc_stats_row(&name, &help, &kind, row) == VYC_OK) row++;
  CHECK(row > 40 && row < MOST);
  CHECK(vyc_stats_row(&name, &help, &kind, UINT32_MAX) == VYC_E_INVALID);
  CHECK(vyc_stats_row(NULL, &help, &kind, 0) == VYC_E_INVALID);
}

static void a_caller_gets_the_rows_that_it_asks_for(void) {
  vyc_context *context = open_context();
  uint64_t values[MOST];
  memset(values, 0xff, sizeof values);
  OK(vyc_context_stats(context, values, 2));
  CHECK(values[0] == 0 && values[1] == 0 && values[2] == UINT64_MAX);
  OK(vyc_context_stats(context, values, MOST));
  CHECK(values[MOST - 1] == 0);
  OK(vyc_context_stats(context, NULL, 0));
  CHECK(vyc_context_stats(context, NULL, 1) == VYC_E_INVALID);
  CHECK(vyc_context_stats(NULL, values, 1) == VYC_E_INVALID);
  vyc_context_release(context);
}

static void copies_are_counted_and_a_reset_begins_anew(void) {
  vyc_context *context = open_context();
  vyc_buffer *buffer = NULL;
  char data[300] = {0};
  OK(vyc_buffer_alloc(&buffer, context, sizeof data));
  OK(vyc_copy_in(buffer, 0, data, sizeof data));
  OK(vyc_copy_out(buffer, 0, data, 100));
  CHECK(value_of(context, "host_to_device_bytes") == 300);
  CHECK(value_of(context, "device_to_host_bytes") == 100);
  CHECK(value_of(context, "live_bytes") == 512);
  OK(vyc_context_reset_stats(context));
  CHECK(value_of(context, "host_to_device_bytes") == 0);
  CHECK(value_of(context, "live_bytes") == 512);
  OK(vyc_copy_in(buffer, 0, data, 7));
  CHECK(value_of(context, "host_to_device_bytes") == 7);
  vyc_buffer_release(buffer);
  vyc_context_release(context);
}

static void the_host_counts_its_own_rows(void) {
  vyc_context *context = open_context();
  const uint32_t row = row_of("kernel_cache_bytes");
  OK(vyc_context_count(context, row, 10));
  OK(vyc_context_count(context, row, UINT64_MAX - 2)); /* -3 */
  CHECK(value_of(context, "kernel_cache_bytes") == 7);
  CHECK(vyc_context_count(context, MOST, 1) == VYC_E_INVALID);
  CHECK(vyc_context_count(context, row_of("timed_device_ns_max"), 1) == VYC_E_INVALID);
  CHECK(vyc_context_count(NULL, row, 1) == VYC_E_INVALID);
  vyc_context_release(context);
}

static void the_host_counts_what_it_timed(void) {
  vyc_context *context = open_context();
  vyc_timing timing = {.struct_size = sizeof timing, .wall_ns = 7, .enqueue_ns = 3, .wait_ns = 4};
  for (timing.device_ns = 1; timing.device_ns <= 2; timing.device_ns++)
    OK(vyc_context_count_timing(context, &timing));
  CHECK(value_of(context, "timed_dispatches") == 2);
  CHECK(value_of(context, "timed_wall_ns_total") == 14);
  CHECK(value_of(context, "timed_device_ns_total") == 3);
  CHECK(value_of(context, "timed_device_ns_max") == 2);
  timing.struct_size = 8;
  CHECK(vyc_context_count_timing(context, &timing) == VYC_E_INVALID);
  vyc_context_release(context);
}

/* How many bytes of inputs a run took to the device. */
static uint64_t copied_by(vyc_context *context, vyc_prepared *prepared, const task *t) {
  const uint64_t before = value_of(context, "host_to_device_bytes");
  OK(vyc_prepared_run(prepared, NULL, &t->run));
  verify(t);
  return value_of(context, "host_to_device_bytes") - before;
}

static void contents_of_the_same_number_are_copied_once(void) {
  vyc_context *context = open_context();
  vyc_module *module = load_module(context);
  vyc_prepared *prepared = scale_prepared(module, COPIED);
  task *one = malloc(sizeof *one), *other = malloc(sizeof *other);
  CHECK(one != NULL && other != NULL);
  prepare(one, 2.0f);
  prepare(other, 3.0f);
  uint64_t numbers[2] = {7, 7}, none[2] = {0, 0};
  one->run.contents = numbers;
  CHECK(copied_by(context, prepared, one) == BYTES);
  CHECK(copied_by(context, prepared, one) == 0);
  CHECK(copied_by(context, prepared, other) == BYTES); /* says nothing, and lies over it */
  CHECK(copied_by(context, prepared, one) == BYTES);
  one->in[5] = 17.0f;
  numbers[0] = 8;
  CHECK(copied_by(context, prepared, one) == BYTES);
  CHECK(copied_by(context, prepared, one) == 0);
  one->run.contents = none;
  for (int turn = 0; turn < 2; turn++) CHECK(copied_by(context, prepared, one) == BYTES);
  one->run.contents = numbers;
  one->run.struct_size = (uint32_t)offsetof(vyc_run, contents); /* of an earlier version */
  for (int turn = 0; turn < 2; turn++) CHECK(copied_by(context, prepared, one) == BYTES);
  free(one);
  free(other);
  vyc_prepared_release(prepared);
  vyc_module_release(module);
  vyc_context_release(context);
}

static void *count_some(void *argument) {
  vyc_context *context = argument;
  const uint32_t row = row_of("compiles");
  for (int i = 0; i < 100; i++) OK(vyc_context_count(context, row, 1));
  return NULL;
}

/* More threads, one after the other and at the same time, than there are shards. */
static void no_thread_loses_a_count(void) {
  enum { WAVES = 150, WIDTH = 8 };
  vyc_context *context = open_context();
  for (int wave = 0; wave < WAVES; wave++) {
    pthread_t threads[WIDTH];
    for (int i = 0; i < WIDTH; i++)
      CHECK(pthread_create(&threads[i], NULL, count_some, context) == 0);
    (void)value_of(context, "compiles");
    for (int i = 0; i < WIDTH; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  }
  CHECK(value_of(context, "compiles") == 100u * WAVES * WIDTH);
  vyc_context_release(context);
}

typedef struct gate {
  vyc_context *context;
  pthread_mutex_t lock;
  pthread_cond_t open;
  int waiting, wanted;
} gate;

static void *count_together(void *argument) {
  gate *g = argument;
  pthread_mutex_lock(&g->lock);
  OK(vyc_context_count(g->context, row_of("compiles"), 1)); /* takes a number */
  g->waiting++;
  pthread_cond_broadcast(&g->open);
  while (g->waiting < g->wanted) pthread_cond_wait(&g->open, &g->lock);
  pthread_mutex_unlock(&g->lock);
  count_some(g->context);
  return NULL;
}

/* All alive at once: those without a number of their own share a shard. */
static void threads_beyond_the_shards_lose_no_count(void) {
  enum { WIDTH = 1100 };
  static pthread_t threads[WIDTH];
  gate g = {open_context(), PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, WIDTH};
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstacksize(&attributes, 256 * 1024) == 0);
  for (int i = 0; i < WIDTH; i++)
    CHECK(pthread_create(&threads[i], &attributes, count_together, &g) == 0);
  for (int i = 0; i < WIDTH; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(value_of(g.context, "compiles") == 101u * WIDTH);
  pthread_attr_destroy(&attributes);
  vyc_context_release(g.context);
}

static void a_closed_context_tells_and_a_forked_one_does_not(void) {
  vyc_context *context = open_context();
  OK(vyc_context_count(context, row_of("compiles"), 3));
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    uint64_t values[MOST];
    const int wrong = (vyc_context_stats(context, values, MOST) != VYC_E_UNAVAILABLE) |
                      (vyc_context_reset_stats(context) != VYC_E_UNAVAILABLE) << 1 |
                      (vyc_context_count(context, 0, 1) != VYC_E_UNAVAILABLE) << 2;
    _exit(wrong);
  }
  int outcome = 0;
  CHECK(waitpid(child, &outcome, 0) == child);
  if (outcome != 0) fprintf(stderr, "the wait status of the child is 0x%x\n", (unsigned)outcome);
  CHECK(outcome == 0);
  OK(vyc_context_close(context));
  CHECK(value_of(context, "compiles") == 3);
  vyc_context_release(context);
}

typedef struct reading {
  vyc_context *context;
  _Atomic int ended;
} reading;

static void *reset_again_and_again(void *argument) {
  reading *r = argument;
  while (!r->ended) OK(vyc_context_reset_stats(r->context));
  return NULL;
}

static void *read_again_and_again(void *argument) {
  reading *r = argument;
  for (int i = 0; i < 3000; i++) CHECK(value_of(r->context, "compiles") < UINT64_C(1) << 32);
  r->ended = 1;
  return NULL;
}

static void a_reset_during_a_read_makes_no_count_negative(void) {
  reading r = {open_context(), 0};
  pthread_t resetter, reader;
  const uint32_t row = row_of("compiles");
  CHECK(pthread_create(&resetter, NULL, reset_again_and_again, &r) == 0);
  CHECK(pthread_create(&reader, NULL, read_again_and_again, &r) == 0);
  while (!r.ended) OK(vyc_context_count(r.context, row, 1));
  CHECK(pthread_join(resetter, NULL) == 0);
  CHECK(pthread_join(reader, NULL) == 0);
  vyc_context_release(r.context);
}

typedef struct calling {
  vyc_context *context;
  vyc_prepared *prepared;
  _Atomic int ended;
} calling;

static void *make_calls(void *argument) {
  calling *c = argument;
  vyc_buffer *in = new_buffer(c->context, BYTES), *out = new_buffer(c->context, BYTES);
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  prepare(t, 2.0f);
  on_buffers(t, in, out);
  for (int i = 0; i < 300; i++) {
    vyc_call *call = NULL;
    OK(vyc_call_create(&call, c->prepared, &t->run));
    for (int launch = 0; launch < 5; launch++) OK(vyc_call_run(call));
    vyc_call_release(call);
  }
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  free(t);
  c->ended = 1;
  return NULL;
}

static void launches_of_a_call_stay_counted_while_it_is_released(void) {
  vyc_context *context = open_context();
  vyc_module *module = load_module(context);
  calling c = {context, scale_prepared(module, COPIED), 0};
  pthread_t caller;
  uint64_t before = 0;
  CHECK(pthread_create(&caller, NULL, make_calls, &c) == 0);
  while (!c.ended) {
    const uint64_t launches = value_of(context, "kernel_launches");
    CHECK(launches >= before);
    before = launches;
  }
  CHECK(pthread_join(caller, NULL) == 0);
  CHECK(value_of(context, "kernel_launches") == 1500);
  OK(vyc_context_synchronize(context)); /* which its release waits for only so long */
  vyc_prepared_release(c.prepared);
  vyc_module_release(module);
  vyc_context_release(context);
}

static void failed_driver_calls_are_counted(void) {
  vyc_context *context = open_context();
  vyc_buffer *buffer = NULL;
  OK(vyc_buffer_alloc(&buffer, context, 16));
  CHECK(emulator_fail("cuMemsetD8Async", 1, CUDA_ERROR_INVALID_VALUE, 0) == 0);
  CHECK(vyc_fill_zero(buffer, 0, 16) == VYC_E_DRIVER);
  CHECK(value_of(context, "driver_errors") == 1);
  vyc_buffer_release(buffer);
  vyc_context_release(context);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  /* First: a child forked beside threads of the emulator leaks them, says the thread sanitizer. */
  a_closed_context_tells_and_a_forked_one_does_not();
  rows_end();
  a_caller_gets_the_rows_that_it_asks_for();
  copies_are_counted_and_a_reset_begins_anew();
  the_host_counts_its_own_rows();
  the_host_counts_what_it_timed();
  contents_of_the_same_number_are_copied_once();
  no_thread_loses_a_count();
  threads_beyond_the_shards_lose_no_count();
  a_reset_during_a_read_makes_no_count_negative();
  launches_of_a_call_stay_counted_while_it_is_released();
  failed_driver_calls_are_counted();
  check_nothing_lives();
  return 0;
}
