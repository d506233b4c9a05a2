/* Bound calls whose arguments change, in the emulator's lazy mode: what was waited for is waited
 * for again, what is refused changes nothing, and what a driver refuses is done the next time. */
#include <stdbool.h>

#include "dispatch_test.h"

enum { SETS = 3, RESULT_INVALID_VALUE = 1, RESULT_INVALID_CONTEXT = 201 };
typedef struct set {
  vyc_buffer *in, *out;
  task t;
} set;

typedef struct bench {
  vyc_context *context;
  vyc_stream *stream; /* or NULL */
  vyc_prepared *prepared;
  vyc_call *call;
  set *sets;
} bench;

static void write_in(set *s, float a) {
  for (uint32_t i = 0; i < N; i++) s->t.in[i] = (float)i + a;
  OK(vyc_copy_in(s->in, 0, s->t.in, BYTES));
}

static void open_bench(bench *b, vyc_prepared *prepared, vyc_context *context, bool streamed) {
  *b = (bench){.context = context, .prepared = prepared};
  if (streamed) b->stream = new_stream(context);
  b->sets = calloc(SETS, sizeof *b->sets);
  CHECK(b->sets != NULL);
  for (uint32_t i = 0; i < SETS; i++) {
    set *s = &b->sets[i];
    prepare(&s->t, 1.0f + (float)i);
    s->in = new_buffer(context, BYTES);
    s->out = new_buffer(context, BYTES);
    write_in(s, s->t.a);
    on_buffers(&s->t, s->in, s->out);
    s->t.run.stream = b->stream;
  }
  OK(vyc_call_create(&b->call, prepared, &b->sets[0].t.run));
}

static void close_bench(bench *b) {
  for (uint32_t i = 0; i < SETS; i++) {
    vyc_buffer_release(b->sets[i].in);
    vyc_buffer_release(b->sets[i].out);
  }
  vyc_call_release(b->call);
  vyc_stream_release(b->stream);
  free(b->sets);
}

static void check_result(const set *s) {
  float host[N];
  OK(vyc_copy_out(s->out, 0, host, BYTES));
  for (uint32_t i = 0; i < N; i++) CHECK(host[i] == s->t.a * s->t.in[i]);
}

/* Each round waits, which takes the marks out of the buffers, and changes inputs and scalar. */
static void results_are_waited_for_each_time(bench *b) {
  for (uint32_t round = 0; round < 40; round++) {
    set *s = &b->sets[round % SETS];
    write_in(s, (float)round);
    s->t.a = (float)round * 0.5f;
    s->t.scalar = bits(s->t.a);
    OK(vyc_call_set_run(b->call, &s->t.run));
    check_result(s);
    write_in(s, (float)round + 3.0f);
    OK(vyc_call_run(b->call));
    check_result(s);
  }
}

/* All in flight at once, in the order of the stream. */
static void several_sets_are_in_flight(bench *b) {
  for (uint32_t round = 0; round < 30; round++)
    OK(vyc_call_set_run(b->call, &b->sets[round % SETS].t.run));
  for (uint32_t i = 0; i < SETS; i++) check_result(&b->sets[i]);
}

static void refused(const bench *b, const vyc_run *run) {
  CHECK(vyc_call_set_run(b->call, run) == VYC_E_INVALID);
}

/* The launch after each refusal is the one of set 1. */
static void a_refused_run_changes_nothing(bench *b) {
  set *kept = &b->sets[1], *other = &b->sets[2];
  OK(vyc_call_set_run(b->call, &kept->t.run));
  const task good = other->t;
  task *bad = &other->t;
  for (uint32_t defect = 0; defect < 8; defect++) {
    *bad = good;
    bad->run.arguments = bad->arguments;
    bad->run.scalars = &bad->scalar;
    switch (defect) {
    case 0: bad->arguments[0].count = N + 1; break;
    case 1: bad->arguments[1].offset = 4; break;
    case 2: bad->arguments[0].offset = UINT64_MAX; break;
    case 3: bad->arguments[0].count = UINT64_MAX / 2; break;
    case 4: bad->arguments[1].buffer = bad->arguments[0].buffer; break;
    case 5: bad->arguments[0].buffer = NULL; break;
    case 6: bad->run.argument_count = 1; break;
    default: bad->run.stream = b->stream == NULL ? new_stream(b->context) : NULL; break;
    }
    refused(b, &bad->run);
    if (defect == 7) vyc_stream_release(bad->run.stream);
    write_in(kept, (float)defect);
    OK(vyc_call_run(b->call));
    check_result(kept);
  }
  *bad = good;
  bad->run.arguments = bad->arguments;
  bad->run.scalars = &bad->scalar;
}

/* A grid that does not cover the output leaves zeros there, and one of 0 leaves only zeros. */
static void a_smaller_grid_leaves_zeros(bench *b) {
  set *s = &b->sets[2];
  for (uint32_t blocks = 4; blocks-- > 0;) {
    float host[N], ones[N];
    for (uint32_t i = 0; i < N; i++) ones[i] = 1.0f;
    OK(vyc_copy_in(s->out, 0, ones, BYTES));
    s->t.run.grid[0] = blocks;
    OK(vyc_call_set_run(b->call, &s->t.run));
    OK(vyc_copy_out(s->out, 0, host, BYTES));
    for (uint32_t i = 0; i < N; i++) CHECK(host[i] == (i < blocks * 128 ? s->t.a * s->t.in[i] : 0));
  }
  s->t.run.grid[0] = (N + 127) / 128;
  OK(vyc_call_set_run(b->call, &s->t.run));
  check_result(s);
}

static void what_a_driver_refused_is_done_the_next_time(bench *b) {
  for (uint32_t round = 0; round < 6; round++) {
    set *s = &b->sets[round % SETS];
    const char *name = round % 2 == 0 ? "cuGraphExecKernelNodeSetParams" : "cuGraphLaunch";
    OK(vyc_call_set_run(b->call, &s->t.run));
    s->t.a += 1.0f;
    s->t.scalar = bits(s->t.a);
    CHECK(emulator_fail(name, 1, RESULT_INVALID_VALUE, 0) == 0);
    CHECK(vyc_call_set_run(b->call, &s->t.run) == VYC_E_DRIVER);
    OK(vyc_call_run(b->call));
    check_result(s);
  }
  set *s = &b->sets[1];
  OK(vyc_call_set_run(b->call, &s->t.run));
  s->t.a += 1.0f;
  s->t.scalar = bits(s->t.a);
  CHECK(emulator_fail("cuGraphLaunch", 1, RESULT_INVALID_CONTEXT, 0) == 0);
  OK(vyc_call_set_run(b->call, &s->t.run)); /* as of a driver that wants the context current */
  check_result(s);
}

/* A call holds what it has bound and nothing else. */
static void buffers_are_held_while_they_are_bound(bench *b) {
  OK(vyc_call_set_run(b->call, &b->sets[0].t.run));
  OK(vyc_context_synchronize(b->context));
  OK(vyc_context_trim(b->context));
  const uint64_t before = count_of("allocations");
  set fresh = {.in = new_buffer(b->context, 4 << 20), .out = new_buffer(b->context, 4 << 20)};
  prepare(&fresh.t, 2.0f);
  on_buffers(&fresh.t, fresh.in, fresh.out);
  fresh.t.run.stream = b->stream;
  write_in(&fresh, 7.0f);
  for (uint32_t i = 0; i < 3; i++) OK(vyc_call_set_run(b->call, &fresh.t.run));
  check_result(&fresh);
  vyc_buffer_release(fresh.in);
  vyc_buffer_release(fresh.out);
  OK(vyc_call_run(b->call));
  OK(vyc_context_synchronize(b->context));
  OK(vyc_context_trim(b->context));
  CHECK(count_of("allocations") == before + 2);
  OK(vyc_call_set_run(b->call, &b->sets[1].t.run));
  OK(vyc_context_synchronize(b->context));
  OK(vyc_context_trim(b->context));
  CHECK(count_of("allocations") == before);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  CHECK(emulator_set("stream_mode", LAZY) == 0);
  vyc_context *context = open_context();
  vyc_module *module = load_module(context);
  vyc_prepared *prepared = scale_prepared(module, STREAMED);
  for (int streamed = 0; streamed < 2; streamed++) {
    bench b;
    open_bench(&b, prepared, context, streamed != 0);
    results_are_waited_for_each_time(&b);
    several_sets_are_in_flight(&b);
    a_refused_run_changes_nothing(&b);
    a_smaller_grid_leaves_zeros(&b);
    what_a_driver_refused_is_done_the_next_time(&b);
    buffers_are_held_while_they_are_bound(&b);
    close_bench(&b);
  }
  vyc_prepared_release(prepared);
  vyc_module_release(module);
  vyc_context_release(context);
  check_nothing_lives();
  puts("call: passed");
  return 0;
}
