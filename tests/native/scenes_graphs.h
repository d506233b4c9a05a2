/* Scenes of graphs, bundles and telemetry; see scenes.h. */
#ifndef SCENES_GRAPHS_H
#define SCENES_GRAPHS_H

#include "scenes.h"

/* ---- graphs and bundles ---------------------------------------------------------------------- */

static vyc_graph_transfer fill_with(vyc_buffer *to, float value) {
  return (vyc_graph_transfer){.struct_size = sizeof(vyc_graph_transfer),
                              .element_bytes = 4,
                              .value = (uint32_t)bits(value),
                              .bytes = BYTES,
                              .to = to};
}

static vyc_status graphs(vyc_context *context) {
  enum { CHAIN = 20 };
  bench b = {0};
  task t, changed;
  vyc_buffer *never = NULL, *third = NULL;
  vyc_graph *graph = NULL;
  vyc_graph_info info = {.struct_size = sizeof info};
  uint32_t step = 0;
  vyc_status status = VYC_OK;
  DO(bench_make(&b, context));
  DO(vyc_buffer_alloc(&never, context, 4));
  DO(vyc_fill_zero(never, 0, 4));
  DO(vyc_buffer_alloc(&third, context, BYTES));
  DO(vyc_graph_create(&graph, context));
  const vyc_graph_transfer fill = fill_with(third, 1.0f);
  DO(vyc_graph_add_transfer(graph, NULL, &fill));
  DO(vyc_graph_repeat_begin(graph, NULL, 2, never, 0, 4));
  prepare(&t, 2.0f);
  on_buffers(&t, b.in, b.out);
  DO(vyc_graph_add_launch(graph, &step, b.streamed, &t.run));
  DO(vyc_graph_repeat_end(graph));
  for (int i = 0; i < CHAIN; i++) DO(vyc_graph_add_transfer(graph, NULL, &fill));
  DO(vyc_graph_finish(graph));
  DO(vyc_graph_info_get(graph, &info));
  CHECK(info.step_count == CHAIN + 3);
  DO(vyc_graph_launch(graph, NULL, 0, NULL));
  DO(look_at(b.out, 2.0f));
  prepare(&changed, 3.0f);
  on_buffers(&changed, b.in, b.out);
  const vyc_graph_change scalar = {.step = step, .run = &changed.run};
  DO(vyc_graph_launch(graph, &scalar, 1, NULL));
  DO(look_at(b.out, 3.0f));
  DO(vyc_graph_update(graph, &scalar, 1));
  DO(vyc_graph_launch(graph, NULL, 0, NULL));
  DO(look_at(b.out, 3.0f));
  on_buffers(&changed, b.in, third); /* which fills write, too: made again, in order */
  DO(vyc_graph_launch(graph, &scalar, 1, NULL));
  DO(vyc_graph_launch(graph, NULL, 0, NULL));
  DO(look_at(b.out, 3.0f));
end:
  vyc_graph_release(graph);
  vyc_buffer_release(never);
  vyc_buffer_release(third);
  bench_end(&b);
  return status;
}

static vyc_status bundles(vyc_context *context) {
  enum { COUNT = 64, A = 0, OUT = 1, X = 2 };
  float x[COUNT], y[COUNT], out[COUNT];
  vyc_bundle *bundle = NULL;
  vyc_bundled_kernel *kernel = NULL;
  vyc_replay *replay = NULL;
  vyc_buffer *buffer = NULL;
  vyc_ticket *ticket = NULL;
  vyc_symbol_value found = {0};
  const uint64_t two = bits(2.0f);
  vyc_status status = VYC_OK;
  for (int i = 0; i < COUNT; i++) x[i] = y[i] = (float)i;
  const vyc_argument arguments[] = {{.kind = VYC_ARGUMENT_HOST, .count = COUNT, .data = x},
                                    {.kind = VYC_ARGUMENT_HOST, .count = COUNT, .data = y},
                                    {.kind = VYC_ARGUMENT_HOST, .count = COUNT, .result = out}};
  const vyc_run run = {.struct_size = sizeof run,
                       .argument_count = 3,
                       .scalar_count = 1,
                       .arguments = arguments,
                       .scalars = &two,
                       .timeout_ns = -1};
  DO(vyc_bundle_open(&bundle, example_path(), NULL, 0));
  DO(vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, "saxpy", 0));
  DO(vyc_bundled_kernel_run(kernel, NULL, &run));
  DO(vyc_bundled_kernel_submit(kernel, &ticket, &run));
  DO(vyc_ticket_wait(ticket, -1));
  CHECK(out[5] == 15.0f);
  DO(vyc_replay_load(&replay, NULL, 0, context, bundle, "step", 0));
  DO(vyc_buffer_alloc(&buffer, context, sizeof x));
  DO(vyc_copy_in(buffer, 0, x, sizeof x));
  const vyc_symbol_value values[] = {{.symbol = X, .buffer = buffer, .count = COUNT},
                                     {.symbol = A, .bits = bits(4.0f)}};
  DO(vyc_replay_launch(replay, values, 2, NULL));
  DO(vyc_replay_set(replay, values, 1));
  DO(vyc_replay_launch(replay, NULL, 0, NULL));
  DO(vyc_replay_launch(replay, values + 1, 1, NULL));
  DO(vyc_replay_get(replay, &found, OUT));
  DO(vyc_copy_out(found.buffer, found.offset, out, sizeof out));
  CHECK(out[5] == 2.5f * (4.0f * 5.0f + 5.0f));
end:
  vyc_buffer_release(found.buffer);
  vyc_ticket_release(ticket);
  vyc_buffer_release(buffer);
  vyc_replay_release(replay);
  vyc_bundled_kernel_release(kernel);
  vyc_bundle_release(bundle);
  return status;
}

/* ---- looking --------------------------------------------------------------------------------- */

static vyc_status tells(vyc_context *context) {
  bench b = {0};
  task t;
  uint64_t values[256], times[4];
  char text[512];
  uint32_t count = 0;
  vyc_status status = VYC_OK;
  DO(bench_make(&b, context));
  DO(vyc_context_count(context, 0, 3));
  DO(vyc_context_trace(context, "a launch of the tests"));
  prepare(&t, 2.0f);
  on_buffers(&t, b.in, b.out);
  DO(vyc_prepared_launch(b.streamed, &t.run));
  DO(vyc_context_in_flight(context, text, sizeof text, &count));
  DO(vyc_context_stats(context, values, 256));
  CHECK(values[0] >= 4);
  DO(vyc_context_measure(context, times, 4, VYC_FLOOR_MAPPED, 64));
  DO(vyc_context_measure(context, times, 4, VYC_FLOOR_COPY, 64));
  DO(vyc_context_reset_stats(context));
end:
  bench_end(&b);
  return status;
}

#endif
