/* What the programs that test the C layer share: kernels, prepared kernels, tasks, and control of
 * the emulator.
 *
 * Nothing here sleeps or guesses: in the emulator's lazy mode work stays undone until somebody
 * waits for its stream or asks after it, so that an order which is not enforced shows every time.
 */
#ifndef DISPATCH_TEST_H
#define DISPATCH_TEST_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vyre_cuda.h"

#define N 500u
#define UNUSED __attribute__((unused))

static const uint64_t BYTES = N * sizeof(float);

static void check(int good, const char *file, int line, const char *what) {
  if (good) return;
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  fprintf(stderr, "%s:%d: %s\n  last error %d: %s\n", file, line, what, error.status,
          error.message);
  exit(1);
}
#define CHECK(condition) check((condition) != 0, __FILE__, __LINE__, #condition)
#define OK(call) CHECK((call) == VYC_OK)

/* ---- the emulator ---------------------------------------------------------------------------- */

enum { EAGER, THREADED, LAZY };

static int (*emulator_set)(const char *key, int64_t value);
static int (*emulator_fail)(const char *name, uint64_t nth, int32_t result, int32_t repeat);
static int (*emulator_reset)(void);
static int (*emulator_count)(const char *key, uint64_t *value);
static const char *(*emulator_function)(uint64_t index);
static const char *emulator_path;

static void *symbol(void *library, const char *name) {
  void *found = dlsym(library, name);
  CHECK(found != NULL);
  return found;
}

static void emulator_open(int argc, char **argv) {
  CHECK(argc == 2);
  emulator_path = argv[1];
  void *library = dlopen(emulator_path, RTLD_NOW);
  CHECK(library != NULL);
  *(void **)&emulator_set = symbol(library, "vyre_emulator_set");
  *(void **)&emulator_fail = symbol(library, "vyre_emulator_fail");
  *(void **)&emulator_reset = symbol(library, "vyre_emulator_reset");
  *(void **)&emulator_count = symbol(library, "vyre_emulator_count");
  *(void **)&emulator_function = symbol(library, "vyre_emulator_function");
}

UNUSED static uint64_t count_of(const char *key) {
  uint64_t value = 0;
  CHECK(emulator_count(key, &value) == 0);
  return value;
}

static const char *const LIVE[] = {"allocations", "pinned", "modules", "streams",      "events",
                                   "graphs",      "execs",  "links",   "user_objects", "contexts"};

/* The driver holds nothing for us any more. */
UNUSED static void check_nothing_lives(void) {
  for (size_t i = 0; i < sizeof LIVE / sizeof LIVE[0]; i++) {
    if (count_of(LIVE[i]) == 0) continue;
    fprintf(stderr, "%llu %s are left\n", (unsigned long long)count_of(LIVE[i]), LIVE[i]);
    exit(1);
  }
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* scale: po[i] = a * px[i] for i < n. judge: reports site 0 of thread 0 unless bad is 0. */
static const char *const PTX =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry scale(.param .u64 px, .param .u64 po, .param .f32 a, .param .u32 n)\n{\n"
    ".reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<6>; .reg .f32 %f<4>;\n"
    "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\n"
    "mad.lo.u32 %r3, %r0, %r1, %r2;\nld.param.u32 %r4, [n];\nsetp.ge.u32 %p0, %r3, %r4;\n"
    "@%p0 ret;\nld.param.u64 %rd0, [px];\nld.param.u64 %rd1, [po];\nmul.wide.u32 %rd2, %r3, 4;\n"
    "add.s64 %rd0, %rd0, %rd2;\nadd.s64 %rd1, %rd1, %rd2;\nld.param.f32 %f0, [a];\n"
    "ld.global.f32 %f1, [%rd0];\nmul.rn.f32 %f2, %f0, %f1;\nst.global.f32 [%rd1], %f2;\nret;\n}\n"
    ".visible .entry judge(.param .u32 bad, .param .u64 report)\n{\n"
    ".reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %rd<3>;\n"
    "ld.param.u32 %r0, [bad];\nld.param.u64 %rd0, [report];\nsetp.eq.u32 %p0, %r0, 0;\n"
    "@%p0 ret;\nmov.u64 %rd1, 0;\nred.relaxed.sys.global.min.u64 [%rd0], %rd1;\nret;\n}\n";

static const vyc_parameter SCALE_PARAMETERS[] = {{VYC_PARAMETER_POINTER, 0, 0, 8, {0}},
                                                 {VYC_PARAMETER_POINTER, 1, 8, 8, {0}},
                                                 {VYC_PARAMETER_SCALAR, 0, 16, 4, {0}},
                                                 {VYC_PARAMETER_SIZE, 0, 20, 4, {0}}};
static const vyc_parameter JUDGE_PARAMETERS[] = {{VYC_PARAMETER_SCALAR, 0, 0, 4, {0}},
                                                 {VYC_PARAMETER_REPORT, 0, 8, 8, {0}}};
static const vyc_binding STREAMED[] = {
    {VYC_ROLE_IN, VYC_BINDING_STREAMING, 4, 0},
    {VYC_ROLE_OUT, VYC_BINDING_STREAMING | VYC_BINDING_COVERED, 4, 0}};
static const vyc_binding COPIED[] = {{VYC_ROLE_IN, 0, 4, 0},
                                     {VYC_ROLE_OUT, VYC_BINDING_COVERED, 4, 0}};

static vyc_prepared_desc scale_desc(const vyc_binding *bindings) {
  return (vyc_prepared_desc){.struct_size = sizeof(vyc_prepared_desc),
                             .block = {128, 1, 1},
                             .parameter_bytes = 24,
                             .parameter_count = 4,
                             .binding_count = 2,
                             .scalar_count = 1,
                             .entry = "scale",
                             .parameters = SCALE_PARAMETERS,
                             .bindings = bindings};
}

UNUSED static vyc_prepared *scale_prepared(vyc_module *module, const vyc_binding *bindings) {
  const vyc_prepared_desc desc = scale_desc(bindings);
  vyc_prepared *prepared = NULL;
  OK(vyc_prepared_create(&prepared, module, &desc));
  return prepared;
}

UNUSED static vyc_prepared *judge_prepared(vyc_module *module, uint64_t tag) {
  const vyc_prepared_desc desc = {.struct_size = sizeof desc,
                                  .block = {1, 1, 1},
                                  .parameter_bytes = 16,
                                  .parameter_count = 2,
                                  .scalar_count = 1,
                                  .entry = "judge",
                                  .parameters = JUDGE_PARAMETERS,
                                  .tag = tag};
  vyc_prepared *prepared = NULL;
  OK(vyc_prepared_create(&prepared, module, &desc));
  return prepared;
}

/* A context on the emulator; the driver's handle is not kept. */
UNUSED static vyc_context *open_context(void) {
  vyc_driver *driver = NULL;
  vyc_context *context = NULL;
  OK(vyc_driver_open(&driver, emulator_path));
  OK(vyc_context_open(&context, driver, 0));
  vyc_driver_release(driver);
  return context;
}

UNUSED static vyc_module *load_module(vyc_context *context) {
  vyc_module *module = NULL;
  char log[512];
  OK(vyc_module_load(&module, log, sizeof log, context, PTX, strlen(PTX) + 1));
  return module;
}

/* ---- runs ------------------------------------------------------------------------------------ */

typedef struct task {
  vyc_run run;
  vyc_argument arguments[2];
  uint64_t scalar;
  float in[N], out[N];
  float a;
} task;

static uint64_t bits(float value) {
  uint32_t word;
  memcpy(&word, &value, sizeof word);
  return word;
}

UNUSED static void prepare(task *t, float a) {
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

UNUSED static void verify(const task *t) {
  for (uint32_t i = 0; i < N; i++) CHECK(t->out[i] == t->a * t->in[i]);
}

UNUSED static void on_buffers(task *t, vyc_buffer *in, vyc_buffer *out) {
  t->arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = N, .buffer = in};
  t->arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = N, .buffer = out};
}

/* One run of judge. */
UNUSED static vyc_run judge_run(const uint64_t *bad) {
  return (vyc_run){.struct_size = sizeof(vyc_run),
                   .grid = {1, 1, 1},
                   .scalar_count = 1,
                   .scalars = bad,
                   .timeout_ns = -1};
}

UNUSED static vyc_buffer *new_buffer(vyc_context *context, uint64_t bytes) {
  vyc_buffer *buffer = NULL;
  OK(vyc_buffer_alloc(&buffer, context, bytes));
  return buffer;
}

/* A buffer of N floats, each of the same value. */
UNUSED static vyc_buffer *filled(vyc_context *context, float value) {
  float host[N];
  for (uint32_t i = 0; i < N; i++) host[i] = value;
  vyc_buffer *buffer = new_buffer(context, BYTES);
  OK(vyc_copy_in(buffer, 0, host, BYTES));
  return buffer;
}

UNUSED static void check_filled(vyc_buffer *buffer, float value) {
  float host[N];
  OK(vyc_copy_out(buffer, 0, host, BYTES));
  for (uint32_t i = 0; i < N; i++) CHECK(host[i] == value);
}

UNUSED static vyc_stream *new_stream(vyc_context *context) {
  vyc_stream *stream = NULL;
  OK(vyc_stream_create(&stream, context));
  return stream;
}

/* out = a * in on a stream, or in call order when it is NULL. */
UNUSED static void launch(vyc_prepared *prepared, vyc_buffer *in, vyc_buffer *out, float a,
                          vyc_stream *stream) {
  task t;
  prepare(&t, a);
  on_buffers(&t, in, out);
  t.run.stream = stream;
  OK(vyc_prepared_launch(prepared, &t.run));
}

#endif
