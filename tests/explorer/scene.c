/* Making the scene, and small parts of operations. */
#include "scene.h"

#include <string.h>

#include "context/room.h"

static scene *current_scene;
scene *the_scene(void) { return current_scene; }

static uint32_t origin;
void scene_prepare_process(void) {
  MUST(vyc_origin_add(&origin, "explorer.c:1"));
  MUST(vyc_nccl_open(MODEL_NCCL));
}
uint32_t scene_origin(void) { return origin; }

static model_plant planted;
void scene_be_wrong(model_plant plant) { planted = plant; }
bool scene_is_wrong(model_plant plant) { return planted == plant; }

/* ---- small parts of operations --------------------------------------------------------------- */

void scene_fill_run(scene_run *run, vyc_stream *stream, const scene_buffer *in, uint64_t in_offset,
                    const scene_buffer *to, uint64_t value) {
  *run = (scene_run){.value = value};
  run->arguments[0] = (vyc_argument){
      .kind = VYC_ARGUMENT_BUFFER, .count = 1, .buffer = in->handle, .offset = in_offset};
  run->arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = 1, .buffer = to->handle};
  run->run = (vyc_run){.struct_size = sizeof run->run,
                       .grid = {1, 1, 1},
                       .argument_count = 2,
                       .scalar_count = 1,
                       .arguments = run->arguments,
                       .scalars = &run->value,
                       .stream = stream,
                       .timeout_ns = -1};
}

void scene_fill_changes(scene_changes *changes, uint64_t value) {
  const scene *s = the_scene();
  const scene_buffer between = {.handle = s->between};
  scene_fill_run(&changes->runs[0], NULL, &s->x, 0, &between, value);
  scene_fill_run(&changes->runs[1], NULL, &between, 0, &s->hot, value);
  for (uint32_t i = 0; i < 2; i++)
    changes->list[i] = (vyc_graph_change){.step = i, .run = &changes->runs[i].run};
}

void scene_launch(const char *name, vyc_stream *stream, uint32_t order_stream,
                  const scene_buffer *in, const scene_buffer *to) {
  scene_run run;
  const uint32_t number = scene_enter((order_operation){.name = name,
                                                        .stream = order_stream,
                                                        .reads = scene_set(in),
                                                        .writes = scene_set(to),
                                                        .in = in->address,
                                                        .out = to->address},
                                      BY_ITSELF, 1);
  scene_fill_run(&run, stream, in, 0, to, number);
  scene_leave(number, vyc_prepared_launch(the_scene()->prepared, &run.run));
}

void scene_copy_in(const scene_buffer *to, bool tries) {
  const uint32_t number = scene_enter((order_operation){.name = "copy in",
                                                        .stream = STREAM_CALLS,
                                                        .flags = ORDER_COPY | ORDER_WAITS_BUFFERS,
                                                        .writes = scene_set(to)},
                                      BY_ITSELF, 0);
  const uint64_t value = number;
  vyc_status status = VYC_NOT_READY;
  if (tries) status = vyc_copy_try_in(to->handle, 0, &value, sizeof value, SCENE_SHORT_NS);
  if (status == VYC_NOT_READY) status = vyc_copy_in(to->handle, 0, &value, sizeof value);
  scene_leave(number, status);
}

void scene_copy_out(const scene_buffer *from, bool tries) {
  const uint32_t number = scene_enter(
      (order_operation){.name = "copy out",
                        .stream = STREAM_CALLS,
                        .flags = ORDER_COPY | ORDER_WAITS_BUFFERS | ORDER_BLOCKS | ORDER_TELLS,
                        .reads = scene_set(from)},
      BY_ITSELF, 0);
  uint64_t value = UINT64_MAX;
  vyc_status status = VYC_NOT_READY;
  if (tries) status = vyc_copy_try_out(from->handle, 0, &value, sizeof value, SCENE_SHORT_NS);
  if (status == VYC_NOT_READY) {
    if (value != UINT64_MAX) explorer_fail("a copy that was given up has written");
    status = vyc_copy_out(from->handle, 0, &value, sizeof value);
  }
  if (status == VYC_OK) order_check_read(&the_scene()->order, number, from->number, value);
  scene_leave(number, status);
}

vyc_status scene_read_ranges(uint64_t values[4], uint32_t thread) {
  const scene *s = the_scene();
  const scene_buffer *const from[] = {&s->x, &s->hot, &s->out, &s->own[thread]};
  vyc_transfer items[4];
  for (uint32_t i = 0; i < 4; i++)
    items[i] =
        (vyc_transfer){.buffer = from[i]->handle, .bytes = sizeof values[i], .result = &values[i]};
  return vyc_download(s->context, items, 4);
}

bool scene_buffer_make(scene_buffer *buffer, const char *name) {
  scene *s = the_scene();
  if (!scene_ok(vyc_buffer_alloc(&buffer->handle, s->context, ORDER_BUFFER_BYTES), "alloc"))
    return false;
  if (!scene_ok(vyc_buffer_address(buffer->handle, &buffer->address), "address")) {
    vyc_buffer_release(buffer->handle);
    buffer->handle = NULL;
    return false;
  }
  for (uint32_t i = 0; i < s->order.buffer_count; i++)
    if (s->order.buffers[i].address == buffer->address && s->order.buffers[i].released == 0)
      explorer_fail("%s gets the memory of %s, which is not released", name,
                    s->order.buffers[i].name);
  buffer->number = order_buffer_add(&s->order, name, buffer->address, false);
  return true;
}

void scene_buffer_end(scene_buffer *buffer) {
  if (buffer->handle == NULL) return;
  order_buffer_release(&the_scene()->order, buffer->number);
  vyc_buffer_release(buffer->handle);
  buffer->handle = NULL;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void warm_launch(vyc_stream *stream, const scene_buffer *in, const scene_buffer *to) {
  scene_run run;
  scene_fill_run(&run, stream, in, 0, to, 0);
  for (int i = 0; i < 3; i++) MUST(vyc_prepared_launch(the_scene()->prepared, &run.run));
}

static void warm_replay(scene *s) {
  const vyc_symbol_value values[] = {
      {.symbol = s->symbol_a, .bits = 0},
      {.symbol = s->symbol_x, .buffer = s->x.handle, .count = 1},
      {.symbol = s->symbol_out, .buffer = s->out.handle, .count = 1}};
  MUST(vyc_replay_set(s->replay, values, 3));
  for (int i = 0; i < 2; i++) MUST(vyc_replay_launch(s->replay, NULL, 0, NULL));
}

static void make_call(scene *s) {
  scene_run run;
  scene_fill_run(&run, s->one, &s->x, 0, &s->hot, 0);
  MUST(vyc_call_create(&s->call, s->prepared, &run.run));
  for (int i = 0; i < 3; i++) MUST(vyc_call_run(s->call));
  for (int i = 0; i < 3; i++) MUST(vyc_call_set_run(s->call, &run.run));
}

static void make_graph(scene *s) {
  static const vyc_graph_use uses[] = {{0, 0}, {1, 0}};
  const vyc_graph_symbol symbol = {.struct_size = sizeof symbol,
                                   .kind = VYC_SYMBOL_SCALAR,
                                   .name = "number",
                                   .element_bytes = 8,
                                   .use_count = 2,
                                   .uses = uses};
  scene_changes changes;
  uint32_t number = 0;
  MUST(vyc_buffer_alloc(&s->between, s->context, ORDER_BUFFER_BYTES));
  scene_fill_changes(&changes, 0);
  MUST(vyc_graph_create(&s->graph, s->context));
  if (!scene_is_wrong(MODEL_SHARES_OWN)) MUST(vyc_graph_own(s->graph, s->between));
  for (uint32_t i = 0; i < 2; i++)
    MUST(vyc_graph_add_launch(s->graph, NULL, s->prepared, changes.list[i].run));
  MUST(vyc_graph_finish(s->graph));
  MUST(vyc_graph_add_symbol(s->graph, &number, &symbol));
  for (int i = 0; i < 2; i++) MUST(vyc_graph_launch(s->graph, NULL, 0, s->one));
}

/* The first thread's input stays where it is. */
static void warm_host_run(scene *s) {
  static const uint64_t contents[] = {1, 0};
  uint64_t in = 0, result = 0;
  scene_run run;
  scene_fill_run(&run, NULL, &s->x, 0, &s->out, 0);
  run.arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .data = &in};
  run.arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .result = &result};
  MUST(vyc_prepared_run(s->prepared, NULL, &run.run));
  in = SCENE_INPUT + 1;
  run.run.contents = contents;
  MUST(vyc_prepared_run(s->copying, NULL, &run.run));
}

/* Near slots are taken, as by so many streams, which nobody uses; or one of them is free again. */
static void crowd(vyc_context *context) {
  static vyc_stream nobody;
  for (uint32_t slot = VYC_SLOT_MAIN + 1; slot < VYC_NEAR_SLOTS; slot++)
    context->slots[slot] = &nobody;
}

static void make_room(vyc_context *context) { context->slots[VYC_NEAR_SLOTS - 1] = NULL; }

vyc_status scene_make_asserting(vyc_prepared **prepared_out) {
  static const vyc_parameter parameters[] = {{VYC_PARAMETER_POINTER, 0, 0, 8, {0}},
                                             {VYC_PARAMETER_POINTER, 1, 8, 8, {0}},
                                             {VYC_PARAMETER_SCALAR, 0, 16, 8, {0}},
                                             {VYC_PARAMETER_SIZE, 1, 24, 4, {0}},
                                             {VYC_PARAMETER_REPORT, 0, 32, 8, {0}}};
  static const vyc_binding bindings[] = {{VYC_ROLE_IN, VYC_BINDING_STREAMING, 8, 0},
                                         {VYC_ROLE_OUT, VYC_BINDING_COVERED, 8, 0}};
  const vyc_prepared_desc desc = {.struct_size = sizeof desc,
                                  .block = {32, 1, 1},
                                  .parameter_bytes = 40,
                                  .parameter_count = 5,
                                  .binding_count = 2,
                                  .scalar_count = 1,
                                  .entry = MODEL_ASSERTING,
                                  .parameters = parameters,
                                  .bindings = bindings};
  return vyc_prepared_create(prepared_out, the_scene()->module, &desc);
}

static vyc_status make_rows(vyc_prepared **prepared_out, bool has_place) {
  static const vyc_parameter parameters[] = {
      {VYC_PARAMETER_POINTER, 0, 0, 8, {0}}, {VYC_PARAMETER_SCALAR, 0, 8, 4, {0}},
      {VYC_PARAMETER_SCALAR, 1, 12, 4, {0}}, {VYC_PARAMETER_SCALAR, 2, 16, 4, {0}},
      {VYC_PARAMETER_SCALAR, 3, 20, 4, {0}}, {VYC_PARAMETER_SCALAR, 4, 24, 4, {0}},
      {VYC_PARAMETER_POINTER, 1, 32, 8, {0}}};
  static const vyc_binding bindings[] = {{VYC_ROLE_IN, 0, 16, 0}, {VYC_ROLE_IN, 0, 8, 0}};
  const vyc_prepared_desc desc = {.struct_size = sizeof desc,
                                  .block = {32, 1, 1},
                                  .parameter_bytes = has_place ? 40 : 28,
                                  .parameter_count = has_place ? 7 : 6,
                                  .binding_count = has_place ? 2 : 1,
                                  .scalar_count = 5,
                                  .entry = has_place ? MODEL_PLACES : MODEL_ROWS,
                                  .parameters = parameters,
                                  .bindings = bindings};
  return vyc_prepared_create(prepared_out, the_scene()->module, &desc);
}

vyc_status scene_make_copying(vyc_prepared **prepared_out) {
  static const vyc_parameter parameters[] = {{VYC_PARAMETER_POINTER, 0, 0, 8, {0}},
                                             {VYC_PARAMETER_POINTER, 1, 8, 8, {0}},
                                             {VYC_PARAMETER_SCALAR, 0, 16, 8, {0}},
                                             {VYC_PARAMETER_SIZE, 1, 24, 4, {0}}};
  static const vyc_binding bindings[] = {{VYC_ROLE_IN, 0, 8, 0},
                                         {VYC_ROLE_OUT, VYC_BINDING_COVERED, 8, 0}};
  const vyc_prepared_desc desc = {.struct_size = sizeof desc,
                                  .block = {32, 1, 1},
                                  .parameter_bytes = 32,
                                  .parameter_count = 4,
                                  .binding_count = 2,
                                  .scalar_count = 1,
                                  .entry = "copying",
                                  .parameters = parameters,
                                  .bindings = bindings};
  return vyc_prepared_create(prepared_out, the_scene()->module, &desc);
}

vyc_status scene_make_resident(vyc_prepared **prepared_out) {
  const vyc_prepared_desc desc = {
      .struct_size = sizeof desc, .block = {32, 1, 1}, .entry = MODEL_RESIDENT};
  return vyc_prepared_create(prepared_out, the_scene()->module, &desc);
}

/* The library has had as many downloads as it wants before it loads the kernel; beside a worker it
 * would not. */
static void make_gathering(scene *s) {
  uint64_t values[4];
  vyc_worker_release(s->worker);
  s->worker = NULL;
  for (int i = 0; i < 64; i++) MUST(scene_read_ranges(values, 1));
}

static void make_objects(scene *s, bool is_far) {
  uint32_t graph = 0;
  MUST(vyc_driver_open(&s->driver, "the model"));
  MUST(vyc_context_open(&s->context, s->driver, 0));
  MUST(vyc_bundle_open(&s->bundle, EXPLORER_BUNDLE, NULL, 0));
  MUST(vyc_bundled_kernel_load(&s->kernel, NULL, 0, s->context, s->bundle, "put", 0));
  MUST(vyc_bundled_kernel_prepared(s->kernel, &s->prepared));
  MUST(vyc_replay_load(&s->replay, NULL, 0, s->context, s->bundle, "twice", 0));
  MUST(vyc_bundle_graph_find(s->bundle, &graph, "twice"));
  MUST(vyc_bundle_symbol_find(s->bundle, &s->symbol_a, graph, "a"));
  MUST(vyc_bundle_symbol_find(s->bundle, &s->symbol_x, graph, "x"));
  MUST(vyc_bundle_symbol_find(s->bundle, &s->symbol_out, graph, "out"));
  MUST(vyc_module_load(&s->module, NULL, 0, s->context, "model", sizeof "model"));
  MUST(scene_make_asserting(&s->asserting));
  MUST(scene_make_copying(&s->copying));
  MUST(make_rows(&s->rows, false));
  MUST(make_rows(&s->placed, true));
  MUST(scene_make_resident(&s->resident));
  MUST(scene_make_worker(&s->worker, is_far ? 2 : 1));
  if (is_far) crowd(s->context);
  MUST(vyc_stream_create(&s->one, s->context));
  if (is_far) make_room(s->context);
  MUST(vyc_stream_create(&s->two, s->context));
  for (uint32_t i = 1; i < EXPLORER_CALLERS; i++) MUST(vyc_stream_create(&s->spare[i], s->context));
  s->foreign_stream = model_stream_of_others();
  for (uint32_t i = 1; i < EXPLORER_CALLERS; i++) s->foreign_memory[i] = model_memory_of_others();
  for (uint32_t i = 1; i < EXPLORER_CALLERS; i++) s->captured_stream[i] = model_stream_of_others();
  scene_buffer_make(&s->x, "x");
  scene_buffer_make(&s->hot, "hot");
  scene_buffer_make(&s->out, "out");
  for (uint32_t i = 1; i < EXPLORER_CALLERS; i++) scene_buffer_make(&s->own[i], "own");
}

static void find_rows(scene *s) {
  const char *name, *help;
  uint32_t kind;
  for (uint32_t row = 0; vyc_stats_row(&name, &help, &kind, row) == VYC_OK; row++) {
    if (strcmp(name, "kernel_launches") == 0) s->launches_row = row;
    if (strcmp(name, "cuda_graph_launches") == 0) s->graph_launches_row = row;
  }
}

void scene_read_counters(const scene *s, uint64_t *launches_out, uint64_t *graph_launches_out) {
  uint64_t rows[128];
  MUST(vyc_context_stats(s->context, rows, 128));
  *launches_out = rows[s->launches_row];
  *graph_launches_out = rows[s->graph_launches_row];
}

/* The model of order begins behind what was done to make everything warm: of that it knows which
 * streams have used what. */
static void seed(scene *s, uint32_t stream, uint32_t buffers) {
  const uint32_t number = order_begin(
      &s->order,
      (order_operation){.name = "an earlier launch", .stream = stream, .reads = buffers});
  order_end(&s->order, number, false);
}

static void forget_warming(scene *s) {
  const uint32_t x = scene_set(&s->x), hot = scene_set(&s->hot), out = scene_set(&s->out);
  scene_buffer *all[] = {&s->x, &s->hot, &s->out, &s->own[1], &s->own[2], &s->own[3]};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) model_write(all[i]->address, 0);
  uint32_t own = 0;
  for (uint32_t i = 1; i < EXPLORER_CALLERS; i++) own |= scene_set(&s->own[i]);
  seed(s, STREAM_CALLS, x | hot | out | own);
  seed(s, STREAM_ONE, x | hot | own);
  seed(s, STREAM_TWO, hot | out);
  for (uint32_t i = 1; i < EXPLORER_CALLERS; i++) seed(s, STREAM_SPARE + i, hot | out);
  s->order.list[0].in = s->x.address;
  s->order.list[0].out = s->hot.address;
  scene_read_counters(s, &s->launches_before, &s->graph_launches_before);
  s->launches = s->graph_launches = 0;
}

void scene_number_thread(void *unused) {
  (void)unused;
  MUST(vyc_context_count(the_scene()->context, 0, 0));
}

void scene_make(void *setting) {
  model_start(scene_hooks());
  current_scene = memset(explorer_heap_take(sizeof *current_scene), 0, sizeof *current_scene);
  scene *s = current_scene;
  make_objects(s, (*(uint32_t *)setting & SETTING_FAR) != 0);
  find_rows(s);
  warm_replay(s);
  make_graph(s);
  if ((*(uint32_t *)setting & SETTING_FORMS) != 0) scene_make_forms(s);
  for (uint32_t i = 1; i < EXPLORER_CALLERS; i++) warm_launch(s->one, &s->x, &s->own[i]);
  warm_launch(NULL, &s->x, &s->hot);
  warm_launch(s->one, &s->x, &s->hot);
  warm_launch(s->two, &s->hot, &s->out);
  for (uint32_t i = 1; i < EXPLORER_CALLERS; i++) warm_launch(s->spare[i], &s->hot, &s->out);
  make_call(s);
  warm_host_run(s);
  scene_warm_worker();
  if ((*(uint32_t *)setting & SETTING_GATHERS) != 0) make_gathering(s);
  if ((*(uint32_t *)setting & SETTING_DEVICES) != 0) scene_make_devices(s);
  s->devices.has_ranks = (*(uint32_t *)setting & SETTING_RANKS) != 0;
  MUST(vyc_context_synchronize(s->context));
  forget_warming(s);
  scene_number_thread(NULL);
  if ((*(uint32_t *)setting & SETTING_PENDING) == 0) return;
  scene_launch("launch in call order, before", NULL, STREAM_CALLS, &s->x, &s->hot);
  for (uint32_t i = 1; i < EXPLORER_CALLERS; i++)
    scene_launch("launch on stream one, before", s->one, STREAM_ONE, &s->x, &s->own[i]);
}

void scene_begin(uint32_t setting) {
  the_scene()->setting = setting;
  model_be_eager((setting & SETTING_EAGER) != 0);
  while ((setting & SETTING_EAGER) != 0 && model_step(false)) {
  }
}
