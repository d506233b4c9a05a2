/* Streams, captures and memory of another library: the "other library" is the driver's own API on
 * the emulator, called past the C layer. In lazy mode an order that is not enforced shows. */
#include <cuda.h>

#include "dispatch_test.h"

static const uint64_t BYTES = N * sizeof(float);

static struct {
  __typeof__(&cuStreamCreate) stream_create;
  __typeof__(&cuStreamDestroy) stream_destroy;
  __typeof__(&cuStreamQuery) stream_query;
  __typeof__(&cuStreamSynchronize) stream_synchronize;
  __typeof__(&cuStreamBeginCapture) begin;
  __typeof__(&cuStreamEndCapture) end;
  __typeof__(&cuGraphInstantiateWithFlags) instantiate;
  __typeof__(&cuGraphLaunch) graph_launch;
  __typeof__(&cuGraphExecDestroy) exec_destroy;
  __typeof__(&cuGraphDestroy) graph_destroy;
  __typeof__(&cuMemAlloc) alloc;
  __typeof__(&cuMemFree) release;
  __typeof__(&cuMemsetD32Async) fill;
  __typeof__(&cuMemcpyDtoHAsync) copy_out;
  __typeof__(&cuDevicePrimaryCtxRetain) retain;
  __typeof__(&cuDevicePrimaryCtxRelease) release_primary;
  __typeof__(&cuCtxSetCurrent) set_current;
} cu;

static void find(void *slot, const char *name, int since) {
  void *library = dlopen(emulator_path, RTLD_NOW);
  CUresult (*lookup)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
  *(void **)&lookup = symbol(library, "cuGetProcAddress_v2");
  CUdriverProcAddressQueryResult status;
  CHECK(lookup(name, slot, since, 0, &status) == CUDA_SUCCESS && *(void **)slot != NULL);
}

static void open_other_library(void) {
  find(&cu.stream_create, "cuStreamCreate", 2000);
  find(&cu.stream_destroy, "cuStreamDestroy", 4000);
  find(&cu.stream_query, "cuStreamQuery", 2000);
  find(&cu.stream_synchronize, "cuStreamSynchronize", 2000);
  find(&cu.begin, "cuStreamBeginCapture", 10010);
  find(&cu.end, "cuStreamEndCapture", 10000);
  find(&cu.instantiate, "cuGraphInstantiateWithFlags", 11040);
  find(&cu.graph_launch, "cuGraphLaunch", 10000);
  find(&cu.exec_destroy, "cuGraphExecDestroy", 10000);
  find(&cu.graph_destroy, "cuGraphDestroy", 10000);
  find(&cu.alloc, "cuMemAlloc", 3020);
  find(&cu.release, "cuMemFree", 3020);
  find(&cu.fill, "cuMemsetD32Async", 3020);
  find(&cu.copy_out, "cuMemcpyDtoHAsync", 3020);
  find(&cu.retain, "cuDevicePrimaryCtxRetain", 7000);
  find(&cu.release_primary, "cuDevicePrimaryCtxRelease", 11000);
  find(&cu.set_current, "cuCtxSetCurrent", 4000);
}

#define CU(call) CHECK((call) == CUDA_SUCCESS)

static uint32_t pattern(float value) {
  uint32_t word;
  memcpy(&word, &value, sizeof word);
  return word;
}

static vyc_stream *adopted(vyc_context *context, CUstream handle) {
  vyc_stream *stream = NULL;
  OK(vyc_stream_adopt(&stream, context, (uint64_t)(uintptr_t)handle));
  return stream;
}

static vyc_buffer *filled(vyc_context *context, float value) {
  float host[N];
  for (uint32_t i = 0; i < N; i++) host[i] = value;
  vyc_buffer *buffer = new_buffer(context, BYTES);
  OK(vyc_copy_in(buffer, 0, host, BYTES));
  return buffer;
}

static void check_filled(vyc_buffer *buffer, float value) {
  float host[N];
  OK(vyc_copy_out(buffer, 0, host, BYTES));
  for (uint32_t i = 0; i < N; i++) CHECK(host[i] == value);
}

static void launch(vyc_plan *plan, vyc_buffer *in, vyc_buffer *out, float a, vyc_stream *stream) {
  task t;
  prepare(&t, a);
  on_buffers(&t, in, out);
  t.run.stream = stream;
  OK(vyc_plan_launch(plan, &t.run));
}

/* ---- streams ----------------------------------------------------------------------------------
 */

static void one_handle_is_one_stream(vyc_context *context) {
  CUstream raw;
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  vyc_stream *first = adopted(context, raw), *again = adopted(context, raw);
  vyc_stream *own = new_stream(context);
  uint64_t handle = 0;
  CHECK(first == again);
  OK(vyc_stream_handle(first, &handle));
  CHECK(handle == (uint64_t)(uintptr_t)raw);
  OK(vyc_stream_handle(own, &handle));
  vyc_stream *same = adopted(context, (CUstream)(uintptr_t)handle);
  CHECK(same == own);
  vyc_stream *legacy = adopted(context, NULL), *one = adopted(context, CU_STREAM_LEGACY);
  CHECK(legacy == one && legacy != first);
  vyc_stream *all[] = {first, again, own, same, legacy, one};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) vyc_stream_release(all[i]);
  CU(cu.stream_destroy(raw));
}

/* Fills that the stream was given before, and copies it is given after, by its owner. */
static void a_launch_keeps_the_order_of_the_stream(vyc_context *context, vyc_plan *plan) {
  CUstream raws[3] = {NULL, CU_STREAM_PER_THREAD, NULL};
  CU(cu.stream_create(&raws[2], CU_STREAM_NON_BLOCKING));
  for (int kind = 0; kind < 3; kind++) {
    for (int times = 1; times <= 3; times++) {
      vyc_stream *stream = adopted(context, raws[kind]);
      vyc_buffer *in = new_buffer(context, BYTES), *out = new_buffer(context, BYTES);
      uint64_t from = 0, to = 0;
      float host[N];
      OK(vyc_buffer_address(in, &from));
      OK(vyc_buffer_address(out, &to));
      CU(cu.fill((CUdeviceptr)from, pattern(2.0f), N, raws[kind]));
      for (int i = 0; i < times; i++) launch(plan, in, out, (float)(i + 3), stream);
      CU(cu.copy_out(host, (CUdeviceptr)to, BYTES, raws[kind]));
      for (uint32_t i = 0; i < N; i++) CHECK(host[i] == 2.0f * (float)(times + 2));
      vyc_stream_release(stream);
      vyc_buffer_release(in);
      vyc_buffer_release(out);
    }
  }
  CU(cu.stream_destroy(raws[2]));
}

/* Its owner destroys the stream with our launch on it; the launch is waited for all the same. */
static void a_destroyed_stream_is_waited_for(vyc_context *context, vyc_plan *plan) {
  for (int how = 0; how < 4; how++) {
    CUstream raw;
    CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
    vyc_stream *stream = adopted(context, raw);
    vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 1.0f);
    launch(plan, in, out, 4.0f, stream);
    CHECK(emulator_set("stream_mode", THREADED) == 0);
    CU(cu.stream_destroy(raw));
    if (how == 0) OK(vyc_context_synchronize(context));
    if (how == 1) OK(vyc_stream_synchronize(stream));
    if (how == 2) vyc_stream_release(stream);
    check_filled(out, 8.0f);
    if (how != 2) vyc_stream_release(stream);
    CHECK(emulator_set("stream_mode", LAZY) == 0);
    vyc_buffer_release(in);
    vyc_buffer_release(out);
  }
}

static void everything_that_waits_covers_adopted_streams(vyc_context *context, vyc_plan *plan) {
  CUstream raw;
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  vyc_stream *stream = adopted(context, raw);
  for (int how = 0; how < 3; how++) {
    vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 1.0f);
    launch(plan, in, out, 4.0f, stream);
    if (how == 0) OK(vyc_context_synchronize(context));
    if (how == 1) OK(vyc_stream_synchronize(stream));
    if (how == 2) check_filled(out, 8.0f);
    CU(cu.stream_query(raw));
    vyc_buffer_release(in);
    vyc_buffer_release(out);
  }
  vyc_stream_release(stream);
  CU(cu.stream_destroy(raw));
}

/* A buffer that goes while an adopted stream works on it: its block is not handed on too early. */
static void a_block_is_reused_behind_an_adopted_stream(vyc_context *context, vyc_plan *plan) {
  OK(vyc_context_trim(context));
  CUstream raw;
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  vyc_stream *stream = adopted(context, raw);
  vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 1.0f);
  launch(plan, in, out, 4.0f, stream);
  vyc_buffer_release(out);
  vyc_buffer *next = filled(context, 5.0f);
  OK(vyc_stream_synchronize(stream));
  check_filled(next, 5.0f);
  vyc_buffer_release(in);
  vyc_buffer_release(next);
  vyc_stream_release(stream);
  CU(cu.stream_destroy(raw));
}

/* ---- memory -----------------------------------------------------------------------------------
 */

static void note_drop(void *owner) { ++*(int *)owner; }

static vyc_buffer *adopted_memory(vyc_context *context, CUdeviceptr address, vyc_stream *source,
                                  uint32_t flags, int *drops) {
  const vyc_foreign_memory memory = {.struct_size = sizeof memory,
                                     .flags = flags,
                                     .address = (uint64_t)address,
                                     .bytes = BYTES,
                                     .source = source,
                                     .drop = note_drop,
                                     .owner = drops};
  vyc_buffer *buffer = NULL;
  OK(vyc_buffer_adopt(&buffer, context, &memory));
  return buffer;
}

/* The owner fills before and reads after, on a stream that the launch itself does not go to. */
static void adopted_memory_is_ordered_with_its_owner(vyc_context *context, vyc_plan *plan) {
  CUstream raw;
  CUdeviceptr x, y;
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  CU(cu.alloc(&x, BYTES));
  CU(cu.alloc(&y, BYTES));
  vyc_stream *source = adopted(context, raw), *own = new_stream(context);
  vyc_stream *places[] = {NULL, own, source};
  int drops = 0;
  for (int i = 0; i < 3; i++) {
    vyc_buffer *in = adopted_memory(context, x, source, VYC_FOREIGN_READ_ONLY, &drops);
    vyc_buffer *out = adopted_memory(context, y, source, 0, &drops);
    task t;
    prepare(&t, 3.0f);
    on_buffers(&t, in, out);
    t.run.stream = places[i];
    vyc_call *call = NULL;
    OK(vyc_call_create(&call, plan, &t.run));
    for (int k = 0; k < 3; k++) {
      float host[N];
      CU(cu.fill(x, pattern((float)(k + 1)), N, raw));
      if (k == 0)
        OK(vyc_plan_launch(plan, &t.run));
      else
        OK(vyc_call_run(call));
      CU(cu.copy_out(host, y, BYTES, raw));
      for (uint32_t j = 0; j < N; j++) CHECK(host[j] == 3.0f * (float)(k + 1));
    }
    CU(cu.fill(y, pattern(9.0f), N, raw));
    check_filled(out, 9.0f);
    vyc_buffer_release(in);
    vyc_buffer_release(out);
    CHECK(drops == 2 * i); /* the call holds both */
    vyc_call_release(call);
    CHECK(drops == 2 * (i + 1));
  }
  vyc_stream_release(source);
  vyc_stream_release(own);
  CU(cu.release(x));
  CU(cu.release(y));
  CU(cu.stream_destroy(raw));
}

static void copies_of_adopted_memory_are_ordered(vyc_context *context) {
  CUstream raw;
  CUdeviceptr x;
  float host[N];
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  CU(cu.alloc(&x, BYTES));
  vyc_stream *source = adopted(context, raw);
  int drops = 0;
  vyc_buffer *foreign = adopted_memory(context, x, source, 0, &drops);
  vyc_buffer *mine = filled(context, 7.0f);
  OK(vyc_copy(foreign, 0, mine, 0, BYTES));
  CU(cu.copy_out(host, x, BYTES, raw));
  CHECK(host[0] == 7.0f && host[N - 1] == 7.0f);
  CU(cu.fill(x, pattern(8.0f), N, raw));
  OK(vyc_copy(mine, 0, foreign, 0, BYTES));
  CU(cu.fill(x, pattern(1.0f), N, raw));
  check_filled(mine, 8.0f);
  OK(vyc_fill_zero(foreign, 0, BYTES));
  CU(cu.copy_out(host, x, BYTES, raw));
  CHECK(host[0] == 0.0f && host[N - 1] == 0.0f);
  vyc_buffer_release(foreign);
  vyc_buffer_release(mine);
  vyc_stream_release(source);
  CU(cu.release(x));
  CU(cu.stream_destroy(raw));
  CHECK(drops == 1);
}

static void what_is_no_stream_is_refused(vyc_context *context) {
  vyc_stream *stream = NULL;
  CHECK(vyc_stream_adopt(&stream, context, 12345) == VYC_E_INVALID && stream == NULL);
  CUstream gone = NULL;
  CU(cu.stream_create(&gone, CU_STREAM_NON_BLOCKING));
  CU(cu.stream_destroy(gone));
  CHECK(vyc_stream_adopt(&stream, context, (uint64_t)(uintptr_t)gone) == VYC_E_INVALID);
  CHECK(stream == NULL);
}

static void what_is_not_memory_of_the_device_is_refused(vyc_context *context, vyc_plan *plan) {
  int drops = 0;
  float host[N] = {0};
  vyc_buffer *buffer = NULL;
  vyc_foreign_memory memory = {.struct_size = sizeof memory,
                               .address = (uint64_t)(uintptr_t)host,
                               .bytes = sizeof host,
                               .drop = note_drop,
                               .owner = &drops};
  CHECK(vyc_buffer_adopt(&buffer, context, &memory) == VYC_E_INVALID && buffer == NULL);
  CUdeviceptr x;
  CU(cu.alloc(&x, BYTES));
  memory.address = (uint64_t)x;
  memory.bytes = BYTES + 1;
  CHECK(vyc_buffer_adopt(&buffer, context, &memory) == VYC_E_INVALID);
  memory.bytes = 0;
  memory.address = 0;
  OK(vyc_buffer_adopt(&buffer, context, &memory));
  vyc_buffer_release(buffer);
  CHECK(drops == 1);
  vyc_buffer *fixed = adopted_memory(context, x, NULL, VYC_FOREIGN_READ_ONLY, &drops);
  vyc_buffer *mine = new_buffer(context, BYTES);
  uint32_t read_only = 0;
  OK(vyc_buffer_is_read_only(fixed, &read_only));
  CHECK(read_only == 1);
  CHECK(vyc_copy_in(fixed, 0, host, BYTES) == VYC_E_INVALID);
  CHECK(vyc_copy(fixed, 0, mine, 0, BYTES) == VYC_E_INVALID);
  CHECK(vyc_fill_zero(fixed, 0, BYTES) == VYC_E_INVALID);
  task t;
  prepare(&t, 1.0f);
  on_buffers(&t, mine, fixed);
  CHECK(vyc_plan_launch(plan, &t.run) == VYC_E_INVALID);
  vyc_buffer_release(fixed);
  vyc_buffer_release(mine);
  CU(cu.release(x));
}

/* Adopted bytes and bytes of a buffer of ours may be the same ones. */
static void overlap_is_seen_across_owners(vyc_context *context, vyc_plan *plan) {
  vyc_buffer *mine = new_buffer(context, BYTES);
  uint64_t address = 0;
  int drops = 0;
  OK(vyc_buffer_address(mine, &address));
  vyc_buffer *alias = adopted_memory(context, (CUdeviceptr)address, NULL, 0, &drops);
  task t;
  prepare(&t, 1.0f);
  on_buffers(&t, mine, alias);
  CHECK(vyc_plan_launch(plan, &t.run) == VYC_E_INVALID);
  vyc_buffer_release(alias);
  vyc_buffer_release(mine);
}

static void memory_outlives_a_close(void) {
  vyc_context *context = open_context();
  CUcontext primary;
  CU(cu.retain(&primary, 0));
  CU(cu.set_current(primary));
  CUdeviceptr x;
  CU(cu.alloc(&x, BYTES));
  int drops = 0;
  vyc_buffer *buffer = adopted_memory(context, x, NULL, 0, &drops);
  OK(vyc_context_close(context));
  vyc_context_release(context);
  CHECK(drops == 0);
  vyc_buffer_release(buffer);
  CHECK(drops == 1);
  CU(cu.release(x));
  CU(cu.set_current(NULL));
  CU(cu.release_primary(0));
}

/* A stream waits for what a buffer was given, wherever that was. */
static void a_stream_is_ordered_behind_a_buffer(vyc_context *context, vyc_plan *plan) {
  CUstream raw;
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  vyc_stream *reader = adopted(context, raw), *own = new_stream(context);
  for (int kind = 0; kind < 2; kind++) {
    vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 1.0f);
    uint64_t address = 0;
    float host[N];
    launch(plan, in, out, 4.0f, kind == 0 ? NULL : own);
    OK(vyc_buffer_address(out, &address));
    OK(vyc_buffer_order(out, reader));
    CU(cu.copy_out(host, (CUdeviceptr)address, BYTES, raw));
    CHECK(host[0] == 8.0f && host[N - 1] == 8.0f);
    vyc_buffer_release(in);
    vyc_buffer_release(out);
  }
  vyc_stream_release(reader);
  vyc_stream_release(own);
  CU(cu.stream_destroy(raw));
}

/* ---- captures ---------------------------------------------------------------------------------
 */

static void run_graph(CUgraph graph, CUstream stream) {
  CUgraphExec exec;
  CU(cu.instantiate(&exec, graph, 0));
  CU(cu.graph_launch(exec, stream));
  CU(cu.stream_synchronize(stream));
  CU(cu.exec_destroy(exec));
}

/* Launches go into the graph, whatever their buffers had in flight, and run when it does. */
static void launches_are_captured(vyc_context *context, vyc_plan *plan) {
  CUstream raw;
  CUgraph graph;
  CUdeviceptr z;
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  CU(cu.alloc(&z, BYTES));
  int drops = 0;
  vyc_stream *stream = adopted(context, raw);
  vyc_buffer *in = filled(context, 2.0f), *middle = filled(context, 1.0f);
  vyc_buffer *out = adopted_memory(context, z, stream, 0, &drops);
  OK(vyc_fill_zero(middle, 0, BYTES));
  task t;
  prepare(&t, 5.0f);
  on_buffers(&t, middle, out);
  t.run.stream = stream;
  vyc_call *call = NULL;
  OK(vyc_call_create(&call, plan, &t.run));
  launch(plan, in, middle, 1.0f, stream);
  CU(cu.begin(raw, CU_STREAM_CAPTURE_MODE_GLOBAL));
  launch(plan, in, middle, 3.0f, stream);
  OK(vyc_call_run(call));
  CU(cu.end(raw, &graph));
  check_filled(middle, 2.0f);
  run_graph(graph, raw);
  check_filled(middle, 6.0f);
  check_filled(out, 30.0f);
  OK(vyc_fill_zero(out, 0, BYTES));
  OK(vyc_context_synchronize(context));
  run_graph(graph, raw);
  check_filled(out, 30.0f);
  OK(vyc_call_run(call));
  CU(cu.graph_destroy(graph));
  vyc_call_release(call);
  vyc_buffer_release(in);
  vyc_buffer_release(middle);
  vyc_buffer_release(out);
  vyc_stream_release(stream);
  CU(cu.release(z));
  CU(cu.stream_destroy(raw));
}

/* A recorded graph that is launched there becomes part of it, with the values of that launch, while
 * the graph itself goes on as it was. */
static void graphs_are_captured(vyc_context *context, vyc_plan *plan) {
  CUstream raw;
  CUgraph captured;
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  vyc_stream *stream = adopted(context, raw);
  vyc_buffer *a = filled(context, 2.0f), *b = filled(context, 0.0f), *c = filled(context, 0.0f);
  vyc_graph *graph = NULL;
  uint32_t step = 0;
  task t;
  prepare(&t, 3.0f);
  on_buffers(&t, a, b);
  OK(vyc_graph_create(&graph, context));
  OK(vyc_graph_add_launch(graph, &step, plan, &t.run));
  on_buffers(&t, b, c);
  OK(vyc_graph_add_launch(graph, NULL, plan, &t.run));
  OK(vyc_graph_finish(graph));
  prepare(&t, 10.0f);
  on_buffers(&t, a, b);
  const vyc_graph_change change = {.step = step, .run = &t.run};
  launch(plan, a, b, 7.0f, stream);
  CU(cu.begin(raw, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(vyc_graph_launch(graph, &change, 1, stream));
  launch(plan, c, a, 1.0f, stream);
  CU(cu.end(raw, &captured));
  check_filled(b, 14.0f);
  OK(vyc_graph_update(graph, &change, 1));
  run_graph(captured, raw);
  check_filled(c, 60.0f);
  run_graph(captured, raw);
  check_filled(b, 600.0f);
  check_filled(a, 1800.0f);
  OK(vyc_graph_launch(graph, NULL, 0, stream));
  check_filled(c, 54000.0f);
  CU(cu.graph_destroy(captured));
  vyc_graph_release(graph);
  vyc_buffer_release(a);
  vyc_buffer_release(b);
  vyc_buffer_release(c);
  vyc_stream_release(stream);
  CU(cu.stream_destroy(raw));
}

/* What cannot be captured says so, and the capture goes on. */
static void what_cannot_be_captured_is_refused(vyc_context *context, vyc_plan *plan) {
  CUstream raw, side, blocking;
  CUgraph graph;
  CUdeviceptr x;
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  CU(cu.stream_create(&side, CU_STREAM_NON_BLOCKING));
  CU(cu.stream_create(&blocking, CU_STREAM_DEFAULT));
  CU(cu.alloc(&x, BYTES));
  int drops = 0;
  vyc_stream *stream = adopted(context, raw), *legacy = adopted(context, NULL);
  vyc_buffer *foreign = adopted_memory(context, x, stream, 0, &drops);
  vyc_buffer *mine = new_buffer(context, BYTES);
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  CU(cu.begin(raw, CU_STREAM_CAPTURE_MODE_GLOBAL));
  prepare(t, 1.0f);
  t->run.stream = stream;
  CHECK(vyc_plan_run(plan, NULL, &t->run) == VYC_E_INVALID);
  prepare(t, 1.0f);
  on_buffers(t, foreign, mine);
  CHECK(vyc_plan_launch(plan, &t->run) == VYC_E_INVALID);
  CU(cu.end(raw, &graph));
  CU(cu.graph_destroy(graph));
  CU(cu.begin(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
  t->run.stream = legacy;
  on_buffers(t, mine, foreign);
  CHECK(vyc_plan_launch(plan, &t->run) == VYC_E_DRIVER);
  CU(cu.end(blocking, &graph));
  CU(cu.graph_destroy(graph));
  free(t);
  vyc_buffer_release(foreign);
  vyc_buffer_release(mine);
  vyc_stream_release(stream);
  vyc_stream_release(legacy);
  CU(cu.release(x));
  CU(cu.stream_destroy(raw));
  CU(cu.stream_destroy(side));
  CU(cu.stream_destroy(blocking));
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  open_other_library();
  CHECK(emulator_set("stream_mode", LAZY) == 0);
  vyc_context *context = open_context();
  vyc_module *module = load_module(context);
  vyc_plan *plan = scale_plan(module, COPIED);
  CUcontext primary;
  CU(cu.retain(&primary, 0));
  CU(cu.set_current(primary));
  one_handle_is_one_stream(context);
  a_launch_keeps_the_order_of_the_stream(context, plan);
  a_destroyed_stream_is_waited_for(context, plan);
  everything_that_waits_covers_adopted_streams(context, plan);
  a_block_is_reused_behind_an_adopted_stream(context, plan);
  adopted_memory_is_ordered_with_its_owner(context, plan);
  copies_of_adopted_memory_are_ordered(context);
  what_is_no_stream_is_refused(context);
  what_is_not_memory_of_the_device_is_refused(context, plan);
  overlap_is_seen_across_owners(context, plan);
  a_stream_is_ordered_behind_a_buffer(context, plan);
  launches_are_captured(context, plan);
  graphs_are_captured(context, plan);
  what_cannot_be_captured_is_refused(context, plan);
  vyc_plan_release(plan);
  vyc_module_release(module);
  vyc_context_release(context);
  CU(cu.set_current(NULL));
  CU(cu.release_primary(0));
  memory_outlives_a_close();
  check_nothing_lives();
  puts("foreign: passed");
  return 0;
}
