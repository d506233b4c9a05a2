/* Graphs: of a bundle, of the scene, and made for one launch. */
#include "operations.h"
#include "scene.h"

/* ---- of a bundle ----------------------------------------------------------------------------- */

void operate_replay(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const vyc_symbol_value value = {.symbol = s->symbol_out, .buffer = s->hot.handle, .count = 1};
  const uint32_t number = scene_enter((order_operation){.name = "replay with another array",
                                                        .stream = STREAM_CALLS,
                                                        .graph = GRAPH_TWICE,
                                                        .reads = scene_set(&s->x),
                                                        .writes = scene_set(&s->hot)},
                                      BY_GRAPH, 2);
  scene_leave(number, vyc_replay_launch(s->replay, &value, 1, NULL));
}

void operate_replay_with_scalar(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "replay with another scalar",
                                                        .stream = STREAM_TWO,
                                                        .graph = GRAPH_TWICE,
                                                        .reads = scene_set(&s->x),
                                                        .writes = scene_set(&s->out)},
                                      BY_GRAPH, 2);
  const vyc_symbol_value value = {.symbol = s->symbol_a, .bits = number};
  scene_leave(number, vyc_replay_launch(s->replay, &value, 1, s->two));
}

void operate_replay_set(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter(
      (order_operation){.name = "set of a symbol", .stream = ORDER_NOWHERE}, BY_ITSELF, 0);
  const vyc_symbol_value value = {.symbol = s->symbol_a, .bits = number};
  s->symbol.writers |= UINT64_C(1) << number;
  scene_leave(number, vyc_replay_set(s->replay, &value, 1));
}

void operate_replay_get(uint32_t thread) {
  scene *s = the_scene();
  vyc_symbol_value value;
  (void)thread;
  if (!scene_ok(vyc_replay_get(s->replay, &value, s->symbol_x), "value of a symbol")) return;
  if (value.buffer != s->x.handle) explorer_fail("a symbol stands for another buffer");
  vyc_buffer_release(value.buffer);
}

/* ---- of the scene ---------------------------------------------------------------------------- */

static uint32_t enter_graph(const char *name, uint32_t stream) {
  const scene *s = the_scene();
  return scene_enter((order_operation){.name = name,
                                       .stream = stream,
                                       .graph = GRAPH_SHARED,
                                       .reads = scene_set(&s->x),
                                       .writes = scene_set(&s->hot)},
                     BY_GRAPH, 2);
}

void operate_graph_launch(uint32_t thread) {
  (void)thread;
  const uint32_t number = enter_graph("launch of a graph", STREAM_ONE);
  scene_leave(number,
              vyc_graph_launch_at(the_scene()->graph, NULL, 0, the_scene()->one, scene_origin()));
}

/* As the only one that is launched so, with changes for this launch. */
void operate_graph_together(uint32_t thread) {
  scene_changes changes;
  uint32_t launched = 0;
  (void)thread;
  const uint32_t number = enter_graph("launch of a graph with those of other devices", STREAM_TWO);
  scene_fill_changes(&changes, number);
  const vyc_graph_part part = {.struct_size = sizeof part,
                               .change_count = 2,
                               .graph = the_scene()->graph,
                               .changes = changes.list,
                               .stream = the_scene()->two};
  const vyc_status status = vyc_graph_launch_together(&part, 1, &launched, scene_origin());
  if ((status == VYC_OK) != (launched == 1)) explorer_fail("%u graphs were launched", launched);
  scene_leave(number, status);
}

void operate_graph_change(uint32_t thread) {
  scene_changes changes;
  (void)thread;
  const uint32_t number = enter_graph("launch of a graph with changes", STREAM_TWO);
  scene_fill_changes(&changes, number);
  scene_leave(number, vyc_graph_launch(the_scene()->graph, changes.list, 2, the_scene()->two));
}

void operate_graph_update(uint32_t thread) {
  scene *s = the_scene();
  scene_changes changes;
  (void)thread;
  const uint32_t number = scene_enter(
      (order_operation){.name = "change of a graph", .stream = ORDER_NOWHERE}, BY_ITSELF, 0);
  s->steps.writers |= UINT64_C(1) << number;
  scene_fill_changes(&changes, number);
  scene_leave(number, vyc_graph_update(s->graph, changes.list, 2));
}

/* One value for both of the graph's steps. */
void operate_graph_symbol(uint32_t thread) {
  vyc_symbol_value value = {0};
  (void)thread;
  const uint32_t number = enter_graph("launch of a graph with a symbol", STREAM_TWO);
  vyc_status status = vyc_graph_find_symbol(the_scene()->graph, &value.symbol, "number");
  value.bits = number;
  if (status == VYC_OK)
    status = vyc_graph_launch_with(the_scene()->graph, &value, 1, the_scene()->two, 0);
  scene_leave(number, status);
}

void operate_graph_set(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter(
      (order_operation){.name = "set of a graph's symbol", .stream = ORDER_NOWHERE}, BY_ITSELF, 0);
  const vyc_symbol_value value = {.bits = number};
  s->steps.writers |= UINT64_C(1) << number;
  scene_leave(number, vyc_graph_set(s->graph, &value, 1));
}

void operate_graph_info(uint32_t thread) {
  scene *s = the_scene();
  vyc_graph_info info = {.struct_size = sizeof info};
  (void)thread;
  if (!scene_ok(vyc_graph_info_get(s->graph, &info), "the size of a graph")) return;
  if (info.step_count != 2 || info.node_count != 2)
    explorer_fail("a graph has %u steps and %u nodes", info.step_count, info.node_count);
  for (uint32_t i = 0; i < info.node_count; i++) {
    vyc_graph_node node = {.struct_size = sizeof node};
    uint32_t edges[2], count = 0;
    if (!scene_ok(vyc_graph_node_get(s->graph, &node, &count, edges, 2, i), "a node")) return;
    if (node.kind != VYC_NODE_KERNEL || node.step != i || count != i)
      explorer_fail("node %u is step %u, with %u edges", i, node.step, count);
  }
}

/* A replay that others capture and run, who wait for it: with memory of its own between its steps.
 */
void operate_graph_captured(uint32_t thread) {
  scene *s = the_scene();
  vyc_stream *stream = NULL;
  scene_changes changes;
  if (s->closing) return;
  s->capturing++;
  const uint32_t number = scene_enter((order_operation){.name = "a captured replay",
                                                        .stream = STREAM_CAPTURED + thread,
                                                        .flags = ORDER_BLOCKS,
                                                        .reads = scene_set(&s->x),
                                                        .writes = scene_set(&s->hot)},
                                      BY_GRAPH, 2);
  scene_fill_changes(&changes, number);
  vyc_status status = vyc_stream_adopt(&stream, s->context, s->captured_stream[thread]);
  model_capture_begin(s->captured_stream[thread]);
  if (status == VYC_OK) status = vyc_graph_launch(s->graph, changes.list, 2, stream);
  model_capture_run(s->captured_stream[thread]);
  vyc_stream_release(stream);
  s->capturing--;
  scene_leave(number, status);
}

/* ---- made for one launch --------------------------------------------------------------------- */

/* Released with its launch in flight: x to memory of the thread's, and that to hot. */
static void make_graph(uint32_t thread, bool is_timed, bool in_turns) {
  scene *s = the_scene();
  vyc_event *start = NULL, *stop = NULL;
  const scene_buffer *own = &s->own[thread];
  vyc_graph *graph = NULL;
  scene_run first, second;
  const uint32_t number =
      scene_enter((order_operation){.name = "a graph made, launched, released",
                                    .stream = STREAM_TWO,
                                    .graph = in_turns ? GRAPH_SHARED : 0,
                                    .reads = scene_set(&s->x) | scene_set(own),
                                    .writes = scene_set(own) | scene_set(&s->hot)},
                  BY_ITSELF, 2);
  scene_fill_run(&first, NULL, &s->x, 0, own, number);
  scene_fill_run(&second, NULL, own, 0, &s->hot, number);
  vyc_status status = vyc_graph_create(&graph, s->context);
  if (status == VYC_OK) status = vyc_graph_add_launch(graph, NULL, s->prepared, &first.run);
  if (status == VYC_OK) status = vyc_graph_add_launch(graph, NULL, s->prepared, &second.run);
  if (status == VYC_OK) status = vyc_graph_finish(graph);
  if (status == VYC_OK && in_turns) status = vyc_graph_in_turns(graph, s->graph);
  if (status == VYC_OK)
    status = is_timed ? vyc_graph_launch_between(graph, &start, &stop, NULL, 0, s->two, 0)
                      : vyc_graph_launch(graph, NULL, 0, s->two);
  vyc_graph_release(graph);
  vyc_event_release(start);
  vyc_event_release(stop);
  scene_leave(number, status);
}

void operate_graph_made(uint32_t thread) { make_graph(thread, false, false); }
void operate_graph_timed(uint32_t thread) { make_graph(thread, true, false); }
/* In turns with the graph of the scene, which is launched on other streams. */
void operate_graph_in_turns(uint32_t thread) { make_graph(thread, false, true); }

/* A cell, in memory of the thread's, which the first kernel writes from its scalar, given by the
 * launch, and two others read; released with its launch in flight. */
void operate_graph_of_a_cell(uint32_t thread) {
  scene *s = the_scene();
  static const vyc_graph_use use = {0, 0};
  const vyc_graph_symbol symbol = {.struct_size = sizeof symbol,
                                   .kind = VYC_SYMBOL_SCALAR,
                                   .element_bytes = 8,
                                   .use_count = 1,
                                   .uses = &use};
  const scene_buffer *own = &s->own[thread];
  vyc_symbol_value value = {0};
  vyc_graph *graph = NULL;
  scene_run writes, reads[2];
  const uint32_t number =
      scene_enter((order_operation){.name = "a graph with a cell",
                                    .stream = STREAM_TWO,
                                    .reads = scene_set(&s->x) | scene_set(own),
                                    .writes = scene_set(own) | scene_set(&s->hot)},
                  BY_ITSELF, 3);
  value.bits = number;
  scene_fill_run(&writes, NULL, &s->x, 0, own, SCENE_INPUT);
  for (int i = 0; i < 2; i++) scene_fill_run(&reads[i], NULL, own, 0, &s->hot, number);
  vyc_status status = vyc_graph_create(&graph, s->context);
  if (status == VYC_OK) status = vyc_graph_add_launch(graph, NULL, s->prepared, &writes.run);
  for (int i = 0; i < 2 && status == VYC_OK; i++)
    status = vyc_graph_add_launch(graph, NULL, s->prepared, &reads[i].run);
  if (status == VYC_OK) status = vyc_graph_finish(graph);
  if (status == VYC_OK) status = vyc_graph_add_symbol(graph, &value.symbol, &symbol);
  if (status == VYC_OK) status = vyc_graph_launch_with(graph, &value, 1, s->two, 0);
  vyc_graph_release(graph);
  scene_leave(number, status);
}

/* Two launches as one step, which write hot and memory of the thread's, and then x to hot. */
typedef struct two_rows {
  vyc_argument arguments[4];
  uint64_t scalars[2];
  vyc_rows rows;
  const vyc_rows *tables[1];
  scene_run last;
  vyc_graph *graph;
  uint32_t number;
} two_rows;

/* The rows read `from`. */
static vyc_status begin_rows(two_rows *made, const scene_buffer *from, uint32_t thread,
                             const char *name) {
  static const uint32_t grids[] = {1, 1, 1, 1, 1, 1};
  scene *s = the_scene();
  const scene_buffer *const to[] = {&s->hot, &s->own[thread]};
  made->number = scene_enter((order_operation){.name = name,
                                               .stream = STREAM_TWO,
                                               .reads = scene_set(&s->x),
                                               .writes = scene_set(to[0]) | scene_set(to[1]),
                                               .in = s->x.address},
                             BY_ITSELF, 3);
  for (uint32_t row = 0; row < 2; row++) {
    scene_run run;
    scene_fill_run(&run, NULL, from, 0, to[row], made->number);
    memcpy(&made->arguments[2 * row], run.arguments, sizeof run.arguments);
    made->scalars[row] = made->number;
  }
  made->rows = (vyc_rows){.struct_size = sizeof made->rows,
                          .count = 2,
                          .argument_count = 2,
                          .scalar_count = 1,
                          .arguments = made->arguments,
                          .scalars = made->scalars,
                          .grids = grids};
  made->tables[0] = &made->rows;
  scene_fill_run(&made->last, NULL, &s->x, 0, &s->hot, made->number);
  return vyc_graph_create(&made->graph, s->context);
}

static vyc_status finish_rows(two_rows *made, vyc_status status) {
  if (status == VYC_OK)
    status = vyc_graph_add_launch(made->graph, NULL, the_scene()->prepared, &made->last.run);
  return status == VYC_OK ? vyc_graph_finish(made->graph) : status;
}

/* Released with its launch in flight. */
static void end_rows(two_rows *made, vyc_status status) {
  vyc_graph_release(made->graph);
  scene_leave(made->number, status);
}

void operate_graph_of_rows(uint32_t thread) {
  scene *s = the_scene();
  two_rows made = {.graph = NULL};
  vyc_status status = begin_rows(&made, &s->x, thread, "a graph of two rows");
  if (status == VYC_OK)
    status = thread % 2 == 0
                 ? vyc_graph_add_rows(made.graph, NULL, s->copying, s->rows, &made.rows)
                 : vyc_graph_add_tables(made.graph, NULL, s->rows, 1, &s->copying, made.tables);
  status = finish_rows(&made, status);
  if (status == VYC_OK) status = vyc_graph_launch(made.graph, NULL, 0, s->two);
  end_rows(&made, status);
}

/* The same with rows that were added for another array than x: a change or a symbol has x. */
void operate_graph_of_places(uint32_t thread) {
  scene *s = the_scene();
  static const uint8_t of_rows[] = {1, 0, 1, 0};
  static const vyc_graph_use use = {0, 1};
  static const vyc_graph_symbol symbol = {.struct_size = sizeof symbol,
                                          .kind = VYC_SYMBOL_ARRAY,
                                          .element_bytes = 8,
                                          .use_count = 1,
                                          .uses = &use};
  const uint8_t *const places[] = {of_rows};
  vyc_symbol_value value = {.count = 1, .buffer = s->x.handle};
  two_rows made = {.graph = NULL};
  scene_run now;
  vyc_status status = begin_rows(&made, &s->out, thread, "a graph of two rows with a place");
  scene_fill_run(&now, NULL, &s->x, 0, &s->hot, made.number);
  now.run.argument_count = 1;
  const vyc_graph_change change = {.run = &now.run};
  if (status == VYC_OK)
    status =
        vyc_graph_add_tables_with(made.graph, NULL, s->placed, 1, &s->copying, made.tables, places);
  status = finish_rows(&made, status);
  if (status == VYC_OK) status = vyc_graph_add_symbol(made.graph, &value.symbol, &symbol);
  if (status == VYC_OK)
    status = thread % 2 == 0 ? vyc_graph_launch(made.graph, &change, 1, s->two)
                             : vyc_graph_launch_with(made.graph, &value, 1, s->two, 0);
  end_rows(&made, status);
}

/* A fill, a copy within the device and a repetition: to memory of the thread's, twice to hot. */
void operate_graph_of_steps(uint32_t thread) {
  scene *s = the_scene();
  const scene_buffer *own = &s->own[thread];
  vyc_graph *graph = NULL;
  scene_run run;
  const uint32_t number = scene_enter(
      (order_operation){.name = "a graph of a fill, a copy and a repetition",
                        .stream = STREAM_TWO,
                        .reads = scene_set(own) | scene_set(&s->out),
                        .writes = scene_set(own) | scene_set(&s->out) | scene_set(&s->hot)},
      BY_ITSELF, 3);
  const vyc_graph_transfer fill = {.struct_size = sizeof fill,
                                   .element_bytes = 4,
                                   .value = number,
                                   .bytes = 4,
                                   .to = own->handle};
  const vyc_graph_transfer copy = {
      .struct_size = sizeof copy, .bytes = 8, .to = s->out.handle, .from = own->handle};
  scene_fill_run(&run, NULL, &s->out, 0, &s->hot, number);
  vyc_status status = vyc_graph_create(&graph, s->context);
  if (status == VYC_OK) status = vyc_graph_add_transfer(graph, NULL, &fill);
  if (status == VYC_OK) status = vyc_graph_add_transfer(graph, NULL, &copy);
  if (status == VYC_OK) status = vyc_graph_repeat_begin(graph, NULL, 2, NULL, 0, 0);
  if (status == VYC_OK) status = vyc_graph_add_launch(graph, NULL, s->prepared, &run.run);
  if (status == VYC_OK) status = vyc_graph_repeat_end(graph);
  if (status == VYC_OK) status = vyc_graph_finish(graph);
  if (status == VYC_OK) status = vyc_graph_launch(graph, NULL, 0, s->two);
  vyc_graph_release(graph);
  scene_leave(number, status);
}
