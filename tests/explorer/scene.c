/* Making the scene, telling the model of order what happens, and judging the end. */
#include "scene.h"

#include <stdio.h>
#include <string.h>

#include "internal.h"

static scene *current_scene;
scene *the_scene(void) { return current_scene; }

/* ---- telling --------------------------------------------------------------------------------- */

static uint32_t operation_now(void) { return the_scene()->operation[explorer->current]; }

/* Also a wait for a buffer, which is one for each stream that has used it. */
static bool waits_for(const scene *s, const order_operation *waiter, uint32_t stream) {
  if ((waiter->flags & ORDER_WAITS_ALL) != 0 || waiter->stream == stream) return true;
  if ((waiter->flags & ORDER_WAITS_BUFFERS) == 0) return false;
  for (uint32_t i = 1; i < s->order.count; i++) {
    const order_operation *o = &s->order.list[i];
    if (o->stream == stream && ((o->reads | o->writes) & (waiter->reads | waiter->writes)) != 0)
      return true;
  }
  return false;
}

/* A failed assertion is told once, after the launch has run, to who waited for its stream. */
static void check_told(const char *what) {
  scene *s = the_scene();
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  const uint64_t number = error.report;
  if (number >= ORDER_MOST || (s->failing >> number & 1) == 0)
    explorer_fail("%s tells of a launch (%lu) that has not failed", what, (unsigned long)number);
  const order_operation *failed = &s->order.list[number];
  const uint32_t now = operation_now();
  if (!s->closing && now != 0 && !waits_for(s, &s->order.list[now], failed->stream))
    explorer_fail("%s tells of a launch (%lu) on a stream that it did not wait for", what,
                  (unsigned long)number);
  if (failed->executed == 0)
    explorer_fail("%s tells of a launch (%lu) that has not run", what, (unsigned long)number);
  if ((s->told >> number & 1) != 0)
    explorer_fail("%s tells of a launch (%lu) again", what, (unsigned long)number);
  s->told |= UINT64_C(1) << number;
}

bool scene_ok(vyc_status status, const char *what) {
  const scene *s = the_scene();
  if (status == VYC_OK) return true;
  if (status == VYC_E_ASSERT) {
    check_told(what);
    return true;
  }
  if (status == VYC_E_UNAVAILABLE && s->closing) return false;
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  explorer_fail("%s gave %d: %.300s", what, (int)status, error.message);
}

uint32_t scene_enter(order_operation operation, enum binding_of binding, uint32_t kernels) {
  scene *s = the_scene();
  const uint32_t number = order_begin(&s->order, operation);
  s->operation[explorer->current] = number;
  s->binding[number] = binding;
  s->kernels[number] = kernels;
  s->graph_value[number] = UINT64_MAX;
  return number;
}

void scene_leave(uint32_t operation, vyc_status status) {
  scene *s = the_scene();
  const order_operation *o = &s->order.list[operation];
  const bool is_done = scene_ok(status, o->name);
  if (is_done && o->launched != s->kernels[operation])
    explorer_fail("%s (%u) gave the device %u kernels, not %u", o->name, operation, o->launched,
                  s->kernels[operation]);
  order_end(&s->order, operation, !is_done);
  s->operation[explorer->current] = 0;
}

/* The arguments are those of one binding. */
static void check_arguments(const scene *s, const model_kernel *kernel, uint64_t binder) {
  const order_operation *o = &s->order.list[binder];
  if ((o->in != 0 && o->in != kernel->in) || (o->out != 0 && o->out != kernel->out))
    explorer_fail("%s (%u) is launched with the scalar of %s (%lu), with other buffers",
                  s->order.list[kernel->operation].name, kernel->operation, o->name,
                  (unsigned long)binder);
}

static void graph_kernel_given(scene *s, const model_kernel *kernel) {
  const uint32_t number = kernel->operation;
  order_check_register(&s->order, &s->symbol, number, kernel->value, "the symbol a");
  if (kernel->number == 0) s->graph_value[number] = kernel->value;
  if (kernel->value != s->graph_value[number])
    explorer_fail("%s (%u) has two values of one symbol: %lu and %lu", s->order.list[number].name,
                  number, (unsigned long)s->graph_value[number], (unsigned long)kernel->value);
}

static void on_given(model_kernel *kernel) {
  scene *s = the_scene();
  const uint32_t number = kernel->operation;
  kernel->in_owner = kernel->in == 0 ? ORDER_BUFFERS : order_owner(&s->order, kernel->in);
  kernel->out_owner = order_owner(&s->order, kernel->out);
  if (kernel->count == 0) return; /* a copy from the host */
  s->launches += kernel->of_graph == 1;
  s->graph_launches += kernel->of_graph == 2 && kernel->number == 0;
  if (number == 0) return; /* of the beginning */
  order_operation *o = &s->order.list[number];
  o->launched++;
  switch (s->binding[number]) {
  case BY_ITSELF:
    if (kernel->value != number)
      explorer_fail("%s (%u) is launched with the scalar %lu", o->name, number,
                    (unsigned long)kernel->value);
    check_arguments(s, kernel, number);
    break;
  case BY_CALL:
    order_check_register(&s->order, &s->bound, number, kernel->value, "the arguments");
    check_arguments(s, kernel, kernel->value);
    break;
  case BY_GRAPH: graph_kernel_given(s, kernel); break;
  }
}

static void on_runs(model_kernel *kernel) {
  scene *s = the_scene();
  const uint32_t number = kernel->operation;
  const uint64_t found = model_read(kernel->in);
  if (number != 0) {
    s->order.list[number].executed++;
    if (kernel->in_owner < ORDER_BUFFERS)
      order_check_read(&s->order, number, kernel->in_owner, found);
    if (s->binding[number] == BY_GRAPH && kernel->number == 1 && found != number)
      explorer_fail("a replay (%u) finds in its own memory what %lu wrote", number,
                    (unsigned long)found);
    if (kernel->out_owner < ORDER_BUFFERS)
      order_check_write(&s->order, number, kernel->out_owner, model_read(kernel->out));
  }
  model_write(kernel->out, number);
}

static void on_writes(const model_kernel *kernel) {
  const scene *s = the_scene();
  if (kernel->operation != 0 && kernel->out_owner < ORDER_BUFFERS)
    order_check_write(&s->order, kernel->operation, kernel->out_owner, model_read(kernel->out));
}

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
  scene_leave(number, vyc_plan_launch(the_scene()->plan, &run.run));
}

/* Short enough to end before the device does its work. */
#define TRY_NS 1000

void scene_copy_in(const scene_buffer *to, bool tries) {
  const uint32_t number = scene_enter((order_operation){.name = "copy in",
                                                        .stream = STREAM_CALLS,
                                                        .flags = ORDER_COPY | ORDER_WAITS_BUFFERS,
                                                        .writes = scene_set(to)},
                                      BY_ITSELF, 0);
  const uint64_t value = number;
  vyc_status status = VYC_NOT_READY;
  if (tries) status = vyc_copy_try_in(to->handle, 0, &value, sizeof value, TRY_NS);
  if (status == VYC_NOT_READY) status = vyc_copy_in(to->handle, 0, &value, sizeof value);
  scene_leave(number, status);
}

void scene_copy_out(const scene_buffer *from, bool tries) {
  const uint32_t number =
      scene_enter((order_operation){.name = "copy out",
                                    .stream = STREAM_CALLS,
                                    .flags = ORDER_COPY | ORDER_WAITS_BUFFERS | ORDER_BLOCKS,
                                    .reads = scene_set(from)},
                  BY_ITSELF, 0);
  uint64_t value = UINT64_MAX;
  vyc_status status = VYC_NOT_READY;
  if (tries) status = vyc_copy_try_out(from->handle, 0, &value, sizeof value, TRY_NS);
  if (status == VYC_NOT_READY) {
    if (value != UINT64_MAX) explorer_fail("a copy that was given up has written");
    status = vyc_copy_out(from->handle, 0, &value, sizeof value);
  }
  if (status == VYC_OK) order_check_read(&the_scene()->order, number, from->number, value);
  scene_leave(number, status);
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

static void must(vyc_status status, const char *what) { scene_ok(status, what); }
#define MUST(call) must(call, #call)

static void warm_launch(vyc_stream *stream, const scene_buffer *in, const scene_buffer *to) {
  scene_run run;
  scene_fill_run(&run, stream, in, 0, to, 0);
  for (int i = 0; i < 3; i++) MUST(vyc_plan_launch(the_scene()->plan, &run.run));
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
  MUST(vyc_call_create(&s->call, s->plan, &run.run));
  for (int i = 0; i < 3; i++) MUST(vyc_call_run(s->call));
  for (int i = 0; i < 3; i++) MUST(vyc_call_set_run(s->call, &run.run));
}

static void warm_host_run(scene *s) {
  uint64_t in = 0, result = 0;
  scene_run run;
  scene_fill_run(&run, NULL, &s->x, 0, &s->out, 0);
  run.arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .data = &in};
  run.arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .result = &result};
  MUST(vyc_plan_run(s->plan, NULL, &run.run));
}

/* Near slots are taken, as by so many streams, which nobody uses; or one of them is free again. */
static void crowd(vyc_context *context) {
  static vyc_stream nobody;
  for (uint32_t slot = VYC_SLOT_MAIN + 1; slot < VYC_NEAR_SLOTS; slot++)
    context->slots[slot] = &nobody;
}

static void make_room(vyc_context *context) { context->slots[VYC_NEAR_SLOTS - 1] = NULL; }

vyc_status scene_make_asserting(vyc_plan **plan_out) {
  static const vyc_parameter parameters[] = {{VYC_PARAMETER_POINTER, 0, 0, 8, {0}},
                                             {VYC_PARAMETER_POINTER, 1, 8, 8, {0}},
                                             {VYC_PARAMETER_SCALAR, 0, 16, 8, {0}},
                                             {VYC_PARAMETER_SIZE, 1, 24, 4, {0}},
                                             {VYC_PARAMETER_REPORT, 0, 32, 8, {0}}};
  static const vyc_binding bindings[] = {{VYC_ROLE_IN, VYC_BINDING_STREAMING, 8, 0},
                                         {VYC_ROLE_OUT, VYC_BINDING_COVERED, 8, 0}};
  const vyc_plan_desc desc = {.struct_size = sizeof desc,
                              .block = {32, 1, 1},
                              .parameter_bytes = 40,
                              .parameter_count = 5,
                              .binding_count = 2,
                              .scalar_count = 1,
                              .entry = MODEL_ASSERTING,
                              .parameters = parameters,
                              .bindings = bindings};
  return vyc_plan_create(plan_out, the_scene()->module, &desc);
}

static void make_objects(scene *s, bool is_far) {
  uint32_t graph = 0;
  MUST(vyc_driver_open(&s->driver, "the model"));
  MUST(vyc_context_open(&s->context, s->driver, 0));
  MUST(vyc_bundle_open(&s->bundle, EXPLORER_BUNDLE, NULL, 0));
  MUST(vyc_kernel_load(&s->kernel, NULL, 0, s->context, s->bundle, "put", 0));
  MUST(vyc_kernel_plan(s->kernel, &s->plan));
  MUST(vyc_replay_load(&s->replay, NULL, 0, s->context, s->bundle, "twice", 0));
  MUST(vyc_bundle_graph_find(s->bundle, &graph, "twice"));
  MUST(vyc_bundle_symbol_find(s->bundle, &s->symbol_a, graph, "a"));
  MUST(vyc_bundle_symbol_find(s->bundle, &s->symbol_x, graph, "x"));
  MUST(vyc_bundle_symbol_find(s->bundle, &s->symbol_out, graph, "out"));
  MUST(vyc_module_load(&s->module, NULL, 0, s->context, "model", sizeof "model"));
  MUST(scene_make_asserting(&s->asserting));
  if (is_far) crowd(s->context);
  MUST(vyc_stream_create(&s->one, s->context));
  if (is_far) make_room(s->context);
  MUST(vyc_stream_create(&s->two, s->context));
  for (uint32_t i = 1; i < EXPLORER_THREADS; i++) MUST(vyc_stream_create(&s->spare[i], s->context));
  s->foreign_stream = model_stream_of_others();
  for (uint32_t i = 1; i < EXPLORER_THREADS; i++) s->foreign_memory[i] = model_memory_of_others();
  scene_buffer_make(&s->x, "x");
  scene_buffer_make(&s->hot, "hot");
  scene_buffer_make(&s->out, "out");
  for (uint32_t i = 1; i < EXPLORER_THREADS; i++) scene_buffer_make(&s->own[i], "own");
}

static void find_rows(scene *s) {
  const char *name, *help;
  uint32_t kind;
  for (uint32_t row = 0; vyc_stats_row(&name, &help, &kind, row) == VYC_OK; row++) {
    if (strcmp(name, "kernel_launches") == 0) s->launches_row = row;
    if (strcmp(name, "cuda_graph_launches") == 0) s->graph_launches_row = row;
  }
}

static void read_counters(const scene *s, uint64_t *launches_out, uint64_t *graph_launches_out) {
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
  for (uint32_t i = 1; i < EXPLORER_THREADS; i++) own |= scene_set(&s->own[i]);
  seed(s, STREAM_CALLS, x | hot | out | own);
  seed(s, STREAM_ONE, x | hot | own);
  seed(s, STREAM_TWO, hot | out);
  for (uint32_t i = 1; i < EXPLORER_THREADS; i++) seed(s, STREAM_SPARE + i, hot | out);
  s->order.list[0].in = s->x.address;
  s->order.list[0].out = s->hot.address;
  read_counters(s, &s->launches_before, &s->graph_launches_before);
  s->launches = s->graph_launches = 0;
}

void scene_number_thread(void *unused) {
  (void)unused;
  MUST(vyc_context_count(the_scene()->context, 0, 0));
}

void scene_make(void *setting) {
  model_start((model_hooks){operation_now, on_given, on_runs, on_writes});
  current_scene = memset(explorer_heap_take(sizeof *current_scene), 0, sizeof *current_scene);
  scene *s = current_scene;
  make_objects(s, (*(uint32_t *)setting & SETTING_FAR) != 0);
  find_rows(s);
  warm_replay(s);
  for (uint32_t i = 1; i < EXPLORER_THREADS; i++) warm_launch(s->one, &s->x, &s->own[i]);
  warm_launch(NULL, &s->x, &s->hot);
  warm_launch(s->one, &s->x, &s->hot);
  warm_launch(s->two, &s->hot, &s->out);
  for (uint32_t i = 1; i < EXPLORER_THREADS; i++) warm_launch(s->spare[i], &s->hot, &s->out);
  make_call(s);
  warm_host_run(s);
  MUST(vyc_context_synchronize(s->context));
  forget_warming(s);
  scene_number_thread(NULL);
  if ((*(uint32_t *)setting & SETTING_PENDING) == 0) return;
  scene_launch("launch in call order, before", NULL, STREAM_CALLS, &s->x, &s->hot);
  for (uint32_t i = 1; i < EXPLORER_THREADS; i++)
    scene_launch("launch on stream one, before", s->one, STREAM_ONE, &s->x, &s->own[i]);
}

void scene_begin(uint32_t setting) {
  the_scene()->setting = setting;
  model_be_eager((setting & SETTING_EAGER) != 0);
  while ((setting & SETTING_EAGER) != 0 && model_step(false)) {
  }
}

/* ---- judging --------------------------------------------------------------------------------- */

static void look(scene *s) {
  const bool is_hot_first = (s->setting & SETTING_HOT_FIRST) != 0;
  scene_copy_out(is_hot_first ? &s->hot : &s->out, false);
  scene_copy_out(is_hot_first ? &s->out : &s->hot, false);
  for (uint32_t i = 1; i < EXPLORER_THREADS; i++)
    if (s->own[i].handle != NULL) scene_copy_out(&s->own[i], false);
}

static void check_executed(const scene *s) {
  for (uint32_t i = 1; i < s->order.count; i++)
    if (s->order.list[i].executed != s->order.list[i].launched)
      explorer_fail("%s (%u) was given %u times and ran %u times", s->order.list[i].name, i,
                    s->order.list[i].launched, s->order.list[i].executed);
}

static void release_objects(scene *s) {
  vyc_call_release(s->call);
  vyc_replay_release(s->replay);
  vyc_plan_release(s->asserting);
  vyc_module_release(s->module);
  vyc_plan_release(s->plan);
  vyc_kernel_release(s->kernel);
  vyc_bundle_release(s->bundle);
  scene_buffer_end(&s->x);
  scene_buffer_end(&s->hot);
  scene_buffer_end(&s->out);
  for (uint32_t i = 1; i < EXPLORER_THREADS; i++) {
    scene_buffer_end(&s->own[i]);
    vyc_stream_release(s->spare[i]);
    vyc_stream_release(s->made[i]);
  }
  vyc_stream_release(s->one);
  vyc_stream_release(s->two);
}

/* Waits for all until nothing is told any more. */
static void check_all_told(scene *s) {
  while (s->failing != 0) {
    const vyc_status status = vyc_context_synchronize(s->context);
    scene_ok(status, "the last wait");
    if (status == VYC_OK) break;
  }
  for (uint32_t i = 1; i < s->order.count; i++)
    if (((s->failing & ~s->told) >> i & 1) != 0 && s->order.list[i].executed != 0)
      explorer_fail("%s (%u) failed, and nobody was told", s->order.list[i].name, i);
}

/* Who gets the memory next writes to it before all that is late has run. */
static void hand_on(scene *s) {
  scene_buffer next[3] = {{0}};
  vyc_call_release(s->call); /* which holds it, too */
  s->call = NULL;
  scene_buffer_end(&s->hot);
  for (uint32_t i = 1; i < EXPLORER_THREADS; i++) scene_buffer_end(&s->own[i]);
  for (uint32_t i = 0; i < 3; i++) {
    scene_buffer_make(&next[i], "the next owner's");
    scene_copy_in(&next[i], false);
  }
  for (uint32_t i = 0; i < 3; i++) scene_copy_out(&next[i], false);
  model_drain();
  for (uint32_t i = 0; i < 3; i++) scene_copy_out(&next[i], false);
  for (uint32_t i = 0; i < 3; i++) scene_buffer_end(&next[i]);
}

static void check_counters(const scene *s) {
  uint64_t launches = 0, graph_launches = 0;
  read_counters(s, &launches, &graph_launches);
  launches -= s->launches_before;
  graph_launches -= s->graph_launches_before;
  if (launches != s->launches || graph_launches != s->graph_launches)
    explorer_fail("%lu launches are counted of %lu, and %lu replays of %lu",
                  (unsigned long)launches, (unsigned long)s->launches,
                  (unsigned long)graph_launches, (unsigned long)s->graph_launches);
}

static void check_memory(const scene *s) {
  vyc_memory_stats stats = {.struct_size = sizeof stats};
  MUST(vyc_context_memory_stats(s->context, &stats));
  if (stats.live_bytes != 0 || stats.live_count != 0)
    explorer_fail("%lu bytes of device memory in %lu pieces are live, and nobody has them",
                  (unsigned long)stats.live_bytes, (unsigned long)stats.live_count);
}

void scene_judge(void *unused) {
  scene *s = the_scene();
  (void)unused;
  s->operation[0] = 0;
  if (!s->closed) {
    check_all_told(s);
    if ((s->setting & SETTING_FREE) != 0)
      hand_on(s);
    else
      look(s);
    model_drain();
    if ((s->setting & SETTING_FREE) == 0) look(s);
    check_executed(s);
    check_counters(s);
  }
  release_objects(s);
  if (!s->closed) {
    check_memory(s);
    MUST(vyc_context_close(s->context));
  }
  model_drain();
  vyc_context_release(s->context);
  vyc_driver_release(s->driver);
  model_check_thread();
  model_check_empty();
  explorer_check_freed();
}
