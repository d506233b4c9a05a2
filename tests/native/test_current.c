/* Every entry leaves the thread's current context and capture mode as it found them: no context, or
 * the one that another library has made current; also when a driver call of the entry fails. */
#include "dispatch_test.h"

#define UNKNOWN 999
enum { GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2 }; /* CUstreamCaptureMode */

static int (*get_current)(void **context);
static int (*set_current)(void *context);
static int (*exchange_mode)(int *mode);

/* What the thread has as current when an entry is called, and must have after it. */
static void *found;
static int found_mode = GLOBAL;

static int mode_now(void) {
  int mode = RELAXED;
  CHECK(exchange_mode(&mode) == 0);
  int again = mode;
  CHECK(exchange_mode(&again) == 0);
  return mode;
}

static vyc_status kept(vyc_status status, int line) {
  void *left = NULL;
  CHECK(get_current(&left) == 0);
  if (left != found) {
    fprintf(stderr, "line %d: current %p, left %p\n", line, found, left);
    exit(1);
  }
  if (mode_now() != found_mode) {
    fprintf(stderr, "line %d: capture mode %d, left %d\n", line, found_mode, mode_now());
    exit(1);
  }
  return status;
}
#define KEEPS(call) kept((call), __LINE__)
#define KEEPS_OK(call) CHECK(KEEPS(call) == VYC_OK)
#define RELEASED(call) ((call), (void)kept(VYC_OK, __LINE__))

typedef struct session {
  vyc_context *context;
  vyc_module *module;
  vyc_prepared *prepared;
  vyc_buffer *in, *out;
  vyc_stream *stream;
  vyc_event *event, *later;
  vyc_fence *fence;
  vyc_pinned *pinned;
  vyc_call *call;
  vyc_ticket *ticket;
} session;

static void make(session *s, task *t) {
  vyc_driver *driver = NULL;
  const vyc_prepared_desc desc = scale_desc(COPIED);
  char log[64];
  OK(vyc_driver_open(&driver, emulator_path));
  KEEPS_OK(vyc_context_open(&s->context, driver, 0));
  vyc_driver_release(driver);
  KEEPS_OK(vyc_module_load(&s->module, log, sizeof log, s->context, PTX, strlen(PTX) + 1));
  KEEPS_OK(vyc_prepared_create(&s->prepared, s->module, &desc));
  KEEPS_OK(vyc_buffer_alloc(&s->in, s->context, N * 4));
  KEEPS_OK(vyc_buffer_alloc(&s->out, s->context, N * 4));
  KEEPS_OK(vyc_stream_create(&s->stream, s->context));
  KEEPS_OK(vyc_pinned_alloc(&s->pinned, s->context, 64));
  prepare(t, 2.0f);
  on_buffers(t, s->in, s->out);
  KEEPS_OK(vyc_call_create(&s->call, s->prepared, &t->run));
}

static void use_memory(const session *s, task *t) {
  vyc_memory_stats stats = {.struct_size = sizeof stats};
  vyc_function_info info = {.struct_size = sizeof info};
  uint64_t word = 0;
  void *data = NULL, *image = NULL;
  size_t bytes = 0;
  KEEPS_OK(vyc_copy_in(s->in, 0, t->in, N * 4));
  KEEPS_OK(vyc_fill_zero(s->out, 0, N * 4));
  KEEPS_OK(vyc_copy(s->out, 0, s->in, 0, N * 4));
  KEEPS_OK(vyc_copy_out(s->out, 0, t->out, N * 4));
  KEEPS_OK(vyc_buffer_synchronize_for(s->out, 1, -1));
  KEEPS_OK(vyc_buffer_address(s->out, &word));
  KEEPS_OK(vyc_pinned_data(s->pinned, &data));
  KEEPS_OK(vyc_context_memory_stats(s->context, &stats));
  KEEPS_OK(vyc_context_trim(s->context));
  KEEPS_OK(vyc_prepared_function(s->prepared, &info));
  KEEPS_OK(vyc_module_link(&image, &bytes, NULL, 0, s->context, PTX, strlen(PTX) + 1));
  free(image);
}

static void use_runs(session *s, task *t) {
  KEEPS_OK(vyc_call_run(s->call));
  KEEPS_OK(vyc_call_run(s->call));
  KEEPS_OK(vyc_call_set_run(s->call, &t->run));
  KEEPS_OK(vyc_call_set(s->call, &t->run));
  for (int i = 0; i < 2; i++) KEEPS_OK(vyc_prepared_launch(s->prepared, &t->run));
  task *host = malloc(sizeof *host);
  CHECK(host != NULL);
  prepare(host, 3.0f);
  KEEPS_OK(vyc_prepared_run(s->prepared, NULL, &host->run));
  verify(host);
  KEEPS_OK(vyc_prepared_submit(s->prepared, &s->ticket, &host->run));
  CHECK(KEEPS(vyc_ticket_query(s->ticket)) != VYC_E_DRIVER);
  KEEPS_OK(vyc_ticket_wait(s->ticket, -1));
  RELEASED(vyc_ticket_release(s->ticket));
  KEEPS_OK(vyc_prepared_submit(s->prepared, &s->ticket, &host->run));
  RELEASED(vyc_ticket_release(s->ticket)); /* abandoned */
  free(host);
}

static void use_streams(session *s, task *t) {
  float milliseconds = 0;
  uint64_t word = 0;
  KEEPS_OK(vyc_stream_record(s->stream, &s->event));
  t->run.stream = s->stream;
  KEEPS_OK(vyc_prepared_launch(s->prepared, &t->run));
  t->run.stream = NULL;
  KEEPS_OK(vyc_fence_create(&s->fence, s->context));
  KEEPS_OK(vyc_stream_record(s->stream, &s->later));
  KEEPS_OK(vyc_stream_wait(s->stream, s->later));
  KEEPS(vyc_stream_query(s->stream));
  KEEPS(vyc_event_query(s->later));
  KEEPS_OK(vyc_stream_handle(s->stream, &word));
  KEEPS_OK(vyc_fence_wait(s->fence, -1));
  KEEPS_OK(vyc_event_synchronize(s->later));
  KEEPS_OK(vyc_event_elapsed(s->later, &milliseconds, s->event));
  KEEPS_OK(vyc_stream_synchronize(s->stream));
  KEEPS_OK(vyc_context_synchronize(s->context));
}

static vyc_status launch_again(const session *s, task *t, vyc_stream **stream_out) {
  (void)stream_out;
  return vyc_prepared_launch(s->prepared, &t->run);
}

static vyc_status fill(const session *s, task *t, vyc_stream **stream_out) {
  (void)t, (void)stream_out;
  return vyc_fill_zero(s->out, 0, 4);
}

static vyc_status settle(const session *s, task *t, vyc_stream **stream_out) {
  (void)t, (void)stream_out;
  return vyc_context_synchronize(s->context);
}

static vyc_status make_stream(const session *s, task *t, vyc_stream **stream_out) {
  (void)t;
  return vyc_stream_create(stream_out, s->context);
}

/* A driver call fails that some entry makes once it is inside, or as it leaves. */
static void use_with_failures(const session *s, task *t) {
  static const struct {
    const char *call;
    uint64_t nth;
  } FAULTS[] = {
      {"cuStreamQuery", 1},
      {"cuMemsetD8Async", 1},
      {"cuGraphLaunch", 1},
      {"cuStreamCreate", 1},
      {"cuCtxGetCurrent", 1},
      {"cuCtxSetCurrent", 2},
      {"cuThreadExchangeStreamCaptureMode", 1},
      {"cuThreadExchangeStreamCaptureMode", 2},
  };
  for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++) {
    vyc_stream *stream = NULL;
    t->scalar = bits((float)i); /* else a launch needs no current context */
    vyc_status (*const uses[])(const session *, task *, vyc_stream **) = {launch_again, fill,
                                                                          settle, make_stream};
    for (size_t use = 0; use < sizeof uses / sizeof uses[0]; use++) {
      CHECK(emulator_fail(FAULTS[i].call, FAULTS[i].nth, UNKNOWN, 0) == 0);
      const vyc_status status = uses[use](s, t, &stream);
      CHECK(emulator_reset() == 0); /* what has not failed by now fails in no look of ours */
      KEEPS(status);
    }
    RELEASED(vyc_stream_release(stream));
  }
}

/* What the driver does not take back is given back by the next entry, where it does. */
static void the_mode_is_given_back_later(const session *s) {
  vyc_stream *stream = NULL;
  CHECK(emulator_fail("cuThreadExchangeStreamCaptureMode", 2, UNKNOWN, 1) == 0);
  OK(vyc_stream_create(&stream, s->context));
  vyc_stream_release(stream);
  CHECK(emulator_reset() == 0);
  CHECK(mode_now() == RELAXED);
  KEEPS_OK(vyc_context_synchronize(s->context));
}

static void give_back(session *s, int close_first) {
  if (close_first) KEEPS_OK(vyc_context_close(s->context));
  RELEASED(vyc_fence_release(s->fence));
  RELEASED(vyc_event_release(s->event));
  RELEASED(vyc_event_release(s->later));
  RELEASED(vyc_call_release(s->call));
  RELEASED(vyc_buffer_release(s->in));
  RELEASED(vyc_buffer_release(s->out));
  RELEASED(vyc_pinned_release(s->pinned));
  RELEASED(vyc_stream_release(s->stream));
  RELEASED(vyc_prepared_release(s->prepared));
  RELEASED(vyc_module_release(s->module));
  RELEASED(vyc_context_release(s->context));
}

static void everything(int close_first) {
  session s = {0};
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  make(&s, t);
  use_memory(&s, t);
  use_runs(&s, t);
  use_streams(&s, t);
  use_with_failures(&s, t);
  the_mode_is_given_back_later(&s);
  give_back(&s, close_first);
  free(t);
}

static int32_t started(const char *path) {
  int32_t answer = -1;
  OK(vyc_driver_started(&answer, path));
  return answer;
}

/* Between both the context is current, as a call finds it; a close does not change what was. */
static void entered(void) {
  vyc_driver *driver = NULL;
  vyc_context *context = NULL;
  void *const outside = found;
  uint64_t before = 1;
  OK(vyc_driver_open(&driver, emulator_path));
  OK(vyc_context_open(&context, driver, 0));
  vyc_driver_release(driver);
  OK(vyc_context_enter(context, &before));
  CHECK(before == (uint64_t)(uintptr_t)outside);
  CHECK(get_current(&found) == 0 && found != NULL);
  vyc_buffer *buffer = NULL;
  KEEPS_OK(vyc_buffer_alloc(&buffer, context, 16));
  RELEASED(vyc_buffer_release(buffer));
  KEEPS_OK(vyc_context_close(context));
  CHECK(vyc_context_enter(context, &before) == VYC_E_UNAVAILABLE && before == 0);
  OK(vyc_context_leave(context, (uint64_t)(uintptr_t)outside));
  found = outside;
  RELEASED(vyc_context_release(context));
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  void *library = dlopen(emulator_path, RTLD_NOW);
  *(void **)&get_current = symbol(library, "cuCtxGetCurrent");
  *(void **)&set_current = symbol(library, "cuCtxSetCurrent");
  *(void **)&exchange_mode = symbol(library, "cuThreadExchangeStreamCaptureMode");
  int (*retain)(void **context, int device);
  *(void **)&retain = symbol(library, "cuDevicePrimaryCtxRetain");
  vyc_driver *driver = NULL;
  int32_t answer = -1;
  CHECK(started("libnothing_of_this_name.so") == 0);
  CHECK(vyc_driver_started(&answer, "libc.so.6") == VYC_E_UNAVAILABLE && answer == 0);
  CHECK(started(emulator_path) == 0); /* loaded, and nothing else */
  OK(vyc_driver_open(&driver, emulator_path)); /* cuInit */
  CHECK(started(emulator_path) == 1);
  for (int close_first = 0; close_first < 2; close_first++) everything(close_first);
  entered();
  CHECK(retain(&found, 0) == 0 && set_current(found) == 0);
  found_mode = THREAD_LOCAL;
  int mode = found_mode;
  CHECK(exchange_mode(&mode) == 0 && mode == GLOBAL);
  for (int close_first = 0; close_first < 2; close_first++) everything(close_first);
  entered();
  vyc_driver_release(driver);
  puts("current: passed");
  return 0;
}
