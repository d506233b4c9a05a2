/* The C layer as a C host uses it, on the emulator: open, load, run, submit, launch, bind, from one
 * thread and from eight, with children released in any order. Made for the sanitizers. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vyre_cuda.h"

#define N 500u
#define THREADS 8
#define TURNS 40

static const char *const PTX =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry scale(.param .u64 px, .param .u64 po, .param .f32 a, .param .u32 n)\n{\n"
    ".reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<6>; .reg .f32 %f<4>;\n"
    "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\n"
    "mad.lo.u32 %r3, %r0, %r1, %r2;\nld.param.u32 %r4, [n];\nsetp.ge.u32 %p0, %r3, %r4;\n"
    "@%p0 ret;\nld.param.u64 %rd0, [px];\nld.param.u64 %rd1, [po];\nmul.wide.u32 %rd2, %r3, 4;\n"
    "add.s64 %rd0, %rd0, %rd2;\nadd.s64 %rd1, %rd1, %rd2;\nld.param.f32 %f0, [a];\n"
    "ld.global.f32 %f1, [%rd0];\nmul.rn.f32 %f2, %f0, %f1;\nst.global.f32 [%rd1], %f2;\nret;\n}\n";

static void check(int good, int line, const char *what) {
  if (good) return;
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  fprintf(stderr, "line %d: %s\n  last error %d: %s\n", line, what, error.status, error.message);
  exit(1);
}
#define CHECK(condition) check((condition) != 0, __LINE__, #condition)
#define OK(call) CHECK((call) == VYC_OK)

static uint64_t bits(float value) {
  uint32_t word;
  memcpy(&word, &value, sizeof word);
  return word;
}

static vyc_plan *make_plan(vyc_module *module) {
  const vyc_parameter parameters[] = {{VYC_PARAMETER_POINTER, 0, 0, 8},
                                      {VYC_PARAMETER_POINTER, 1, 8, 8},
                                      {VYC_PARAMETER_SCALAR, 0, 16, 4},
                                      {VYC_PARAMETER_SIZE, 0, 20, 4}};
  const vyc_binding bindings[] = {
      {VYC_ROLE_IN, VYC_BINDING_STREAMING, 4, 0},
      {VYC_ROLE_OUT, VYC_BINDING_STREAMING | VYC_BINDING_COVERED, 4, 0}};
  const vyc_plan_desc desc = {.struct_size = sizeof desc,
                              .block = {128, 1, 1},
                              .parameter_bytes = 24,
                              .parameter_count = 4,
                              .binding_count = 2,
                              .scalar_count = 1,
                              .entry = "scale",
                              .parameters = parameters,
                              .bindings = bindings};
  vyc_plan *plan = NULL;
  OK(vyc_plan_create(&plan, module, &desc));
  return plan;
}

typedef struct task {
  vyc_run run;
  vyc_argument arguments[2];
  uint64_t scalar;
  float in[N], out[N];
  float a;
} task;

static void prepare(task *t, float a) {
  memset(t, 0, sizeof *t);
  t->a = a;
  for (uint32_t i = 0; i < N; i++) t->in[i] = (float)i + a;
  t->arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = N, .data = t->in};
  t->arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = N, .result = t->out};
  t->scalar = bits(a);
  t->run = (vyc_run){.struct_size = sizeof t->run,
                     .grid = {(N + 127) / 128, 1, 1},
                     .argument_count = 2,
                     .scalar_count = 1,
                     .arguments = t->arguments,
                     .scalars = &t->scalar,
                     .timeout_ns = -1};
}

static void verify(const task *t) {
  for (uint32_t i = 0; i < N; i++) CHECK(t->out[i] == t->a * t->in[i]);
}

static void on_buffers(task *t, vyc_buffer *in, vyc_buffer *out) {
  t->arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = N, .buffer = in};
  t->arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = N, .buffer = out};
}

/* ---- one thread's share --------------------------------------------------------------------- */

typedef struct share {
  vyc_context *context;
  vyc_plan *plan;
  vyc_call *call;
  float seed;
} share;

static void *work(void *argument) {
  const share *s = argument;
  task *first = malloc(sizeof *first), *second = malloc(sizeof *second);
  CHECK(first != NULL && second != NULL);
  vyc_buffer *in = NULL, *out = NULL;
  OK(vyc_buffer_alloc(&in, s->context, N * 4));
  OK(vyc_buffer_alloc(&out, s->context, N * 4));
  for (int turn = 0; turn < TURNS; turn++) {
    const float a = s->seed + (float)turn;
    vyc_ticket *ticket = NULL, *dropped = NULL;
    prepare(first, a);
    OK(vyc_plan_run(s->plan, NULL, &first->run));
    verify(first);
    prepare(second, a + 0.5f);
    OK(vyc_plan_submit(s->plan, &ticket, &second->run));
    OK(vyc_plan_submit(s->plan, &dropped, &first->run));
    vyc_ticket_release(dropped);
    OK(vyc_ticket_wait(ticket, -1));
    verify(second);
    vyc_ticket_release(ticket);
    OK(vyc_copy_in(in, 0, first->in, N * 4));
    on_buffers(first, in, out);
    OK(vyc_plan_launch(s->plan, &first->run));
    OK(vyc_call_run(s->call));
    OK(vyc_copy_out(out, 0, first->out, N * 4));
    verify(first);
  }
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  free(first);
  free(second);
  return NULL;
}

static void many_threads(vyc_context *context, vyc_plan *plan, vyc_call *call) {
  pthread_t threads[THREADS];
  share shares[THREADS];
  for (int i = 0; i < THREADS; i++) {
    shares[i] = (share){context, plan, call, (float)(i * 1000)};
    CHECK(pthread_create(&threads[i], NULL, work, &shares[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void refusals(vyc_context *context, vyc_plan *plan) {
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  prepare(t, 1.0f);
  t->run.argument_count = 1;
  CHECK(vyc_plan_run(plan, NULL, &t->run) == VYC_E_INVALID);
  prepare(t, 1.0f);
  t->arguments[1].result = NULL;
  CHECK(vyc_plan_run(plan, NULL, &t->run) == VYC_E_INVALID);
  vyc_buffer *buffer = NULL;
  OK(vyc_buffer_alloc(&buffer, context, 16));
  CHECK(vyc_copy_in(buffer, 8, t->in, 16) == VYC_E_INVALID);
  CHECK(vyc_copy_out(buffer, UINT64_MAX, t->in, 2) == VYC_E_INVALID);
  prepare(t, 1.0f);
  on_buffers(t, buffer, buffer);
  CHECK(vyc_plan_launch(plan, &t->run) == VYC_E_INVALID);
  vyc_module *module = NULL;
  char log[512];
  CHECK(vyc_module_load(&module, log, sizeof log, context, "nonsense", 9) == VYC_E_COMPILE);
  vyc_buffer_release(buffer);
  free(t);
}

/* ---- life ----------------------------------------------------------------------------------- */

static void closed(vyc_context *context, vyc_plan *plan, vyc_call *call) {
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  prepare(t, 1.0f);
  CHECK(vyc_plan_run(plan, NULL, &t->run) == VYC_E_UNAVAILABLE);
  CHECK(vyc_call_run(call) == VYC_E_UNAVAILABLE);
  CHECK(vyc_context_synchronize(context) == VYC_E_UNAVAILABLE);
  free(t);
}

static void session(const char *path, int close_first) {
  vyc_driver *driver = NULL;
  vyc_context *context = NULL;
  vyc_module *module = NULL;
  vyc_stream *stream = NULL;
  vyc_event *event = NULL;
  vyc_call *call = NULL;
  vyc_pinned *pinned = NULL;
  void *image = NULL;
  size_t image_bytes = 0;
  char log[512];
  OK(vyc_driver_open(&driver, path));
  OK(vyc_context_open(&context, driver, 0));
  vyc_driver_release(driver);
  OK(vyc_module_link(&image, &image_bytes, log, sizeof log, context, PTX, strlen(PTX) + 1));
  OK(vyc_module_load(&module, log, sizeof log, context, image, image_bytes));
  free(image);
  vyc_plan *plan = make_plan(module);
  vyc_module_release(module);
  OK(vyc_stream_create(&stream, context));
  OK(vyc_pinned_alloc(&pinned, context, 100));
  vyc_buffer *in = NULL, *out = NULL;
  OK(vyc_buffer_alloc(&in, context, N * 4));
  OK(vyc_buffer_alloc(&out, context, N * 4));
  OK(vyc_fill_zero(in, 0, N * 4));
  OK(vyc_context_synchronize(context));
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  prepare(t, 3.0f);
  on_buffers(t, in, out);
  t->run.stream = stream;
  OK(vyc_call_create(&call, plan, &t->run));
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  OK(vyc_call_run(call));
  OK(vyc_stream_record(stream, &event));
  OK(vyc_event_synchronize(event));
  many_threads(context, plan, call);
  refusals(context, plan);
  if (close_first) {
    OK(vyc_context_close(context));
    closed(context, plan, call);
  }
  vyc_context_release(context);
  vyc_plan_release(plan);
  vyc_call_release(call);
  vyc_event_release(event);
  vyc_stream_release(stream);
  vyc_pinned_release(pinned);
  free(t);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  session(argv[1], 1);
  session(argv[1], 0);
  puts("dispatch: 2 sessions passed");
  return 0;
}
