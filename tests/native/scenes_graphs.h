/* Scenes of graphs and telemetry; see scenes.h. */
#ifndef SCENES_GRAPHS_H
#define SCENES_GRAPHS_H

#include "scenes.h"

/* ---- graphs ---------------------------------------------------------------------------------- */

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
