/* Captures of another library: launches and recorded graphs go into its graph, and what cannot be
 * captured is refused without ending the capture. */
#include "other_library.h"

static void run_graph(CUgraph graph, CUstream stream) {
  CUgraphExec exec;
  CU(cu.instantiate(&exec, graph, 0));
  CU(cu.graph_launch(exec, stream));
  CU(cu.stream_synchronize(stream));
  CU(cu.exec_destroy(exec));
}

/* Launches go into the graph, whatever their buffers had in flight, and run when it does. */
static void launches_are_captured(vyc_context *context, vyc_prepared *prepared) {
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
  OK(vyc_call_create(&call, prepared, &t.run));
  launch(prepared, in, middle, 1.0f, stream);
  CU(cu.begin(raw, CU_STREAM_CAPTURE_MODE_GLOBAL));
  launch(prepared, in, middle, 3.0f, stream);
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
static void graphs_are_captured(vyc_context *context, vyc_prepared *prepared) {
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
  OK(vyc_graph_add_launch(graph, &step, prepared, &t.run));
  on_buffers(&t, b, c);
  OK(vyc_graph_add_launch(graph, NULL, prepared, &t.run));
  OK(vyc_graph_finish(graph));
  prepare(&t, 10.0f);
  on_buffers(&t, a, b);
  const vyc_graph_change change = {.step = step, .run = &t.run};
  launch(prepared, a, b, 7.0f, stream);
  CU(cu.begin(raw, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(vyc_graph_launch(graph, &change, 1, stream));
  launch(prepared, c, a, 1.0f, stream);
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
static void what_cannot_be_captured_is_refused(vyc_context *context, vyc_prepared *prepared) {
  CUstream raw, blocking;
  CUgraph graph;
  CUdeviceptr x;
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
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
  CHECK(vyc_prepared_run(prepared, NULL, &t->run) == VYC_E_INVALID);
  prepare(t, 1.0f);
  on_buffers(t, foreign, mine);
  CHECK(vyc_prepared_launch(prepared, &t->run) == VYC_E_INVALID);
  CU(cu.end(raw, &graph));
  CU(cu.graph_destroy(graph));
  CU(cu.begin(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
  t->run.stream = legacy;
  on_buffers(t, mine, foreign);
  CHECK(vyc_prepared_launch(prepared, &t->run) == VYC_E_DRIVER);
  CU(cu.end(blocking, &graph));
  CU(cu.graph_destroy(graph));
  free(t);
  vyc_buffer_release(foreign);
  vyc_buffer_release(mine);
  vyc_stream_release(stream);
  vyc_stream_release(legacy);
  CU(cu.release(x));
  CU(cu.stream_destroy(raw));
  CU(cu.stream_destroy(blocking));
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  open_other_library();
  CHECK(emulator_set("stream_mode", LAZY) == 0);
  vyc_context *context = open_context();
  vyc_module *module = load_module(context);
  vyc_prepared *prepared = scale_prepared(module, COPIED);
  enter_other_library();
  launches_are_captured(context, prepared);
  graphs_are_captured(context, prepared);
  what_cannot_be_captured_is_refused(context, prepared);
  vyc_prepared_release(prepared);
  vyc_module_release(module);
  vyc_context_release(context);
  leave_other_library();
  check_nothing_lives();
  puts("foreign captures: passed");
  return 0;
}
