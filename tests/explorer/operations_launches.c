/* Launches and bound calls. */
#include "operations.h"
#include "scene.h"

/* ---- launches -------------------------------------------------------------------------------- */

void operate_launch_on_stream(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  scene_launch("launch on stream one", s->one, STREAM_ONE, &s->x, &s->hot);
}

void operate_launch_in_call_order(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  scene_launch("launch in call order", NULL, STREAM_CALLS, &s->x, &s->hot);
}

void operate_launch_that_reads(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  scene_launch("launch on stream two", s->two, STREAM_TWO, &s->hot, &s->out);
}

void operate_launch_on_spare(uint32_t thread) {
  scene *s = the_scene();
  scene_launch("launch on a spare stream", s->spare[thread], STREAM_SPARE + thread, &s->x, &s->hot);
}

/* Loaded for one launch, and released behind it. */
void operate_kernel_made(uint32_t thread) {
  scene *s = the_scene();
  vyc_bundled_kernel *made = NULL;
  scene_run run;
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "a kernel loaded and launched",
                                                        .stream = STREAM_TWO,
                                                        .reads = scene_set(&s->x),
                                                        .writes = scene_set(&s->hot),
                                                        .in = s->x.address,
                                                        .out = s->hot.address},
                                      BY_ITSELF, 1);
  scene_fill_run(&run, s->two, &s->x, 0, &s->hot, number);
  vyc_status status = vyc_bundled_kernel_load(&made, NULL, 0, s->context, s->bundle, "put", 0);
  if (status == VYC_OK) status = vyc_bundled_kernel_launch(made, &run.run);
  vyc_bundled_kernel_release(made);
  scene_leave(number, status);
}

void operate_launch_traced(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  if (!scene_ok(vyc_context_trace(s->context, "a traced launch"), "trace")) return;
  scene_launch("launch that is traced", s->one, STREAM_ONE, &s->x, &s->hot);
}

/* Two rows: x to the hot buffer, and x to one of the thread. */
static void launch_rows(const char *name, vyc_stream *stream, uint32_t order_stream,
                        uint32_t thread) {
  scene *s = the_scene();
  const scene_buffer *const to[] = {&s->hot, &s->own[thread]};
  static const uint32_t grids[] = {1, 1, 1, 1, 1, 1};
  vyc_argument arguments[4];
  const uint32_t number =
      scene_enter((order_operation){.name = name,
                                    .stream = order_stream,
                                    .reads = scene_set(&s->x),
                                    .writes = scene_set(to[0]) | scene_set(to[1]),
                                    .in = s->x.address},
                  BY_ITSELF, 2);
  const uint64_t scalars[] = {number, number};
  for (uint32_t row = 0; row < 2; row++) {
    scene_run run;
    scene_fill_run(&run, stream, &s->x, 0, to[row], number);
    arguments[2 * row] = run.arguments[0];
    arguments[2 * row + 1] = run.arguments[1];
  }
  const vyc_rows rows = {.struct_size = sizeof rows,
                         .count = 2,
                         .argument_count = 2,
                         .scalar_count = 1,
                         .arguments = arguments,
                         .scalars = scalars,
                         .grids = grids,
                         .stream = stream};
  scene_leave(number, vyc_prepared_launch_many(s->copying, s->rows, &rows));
}

void operate_launch_many(uint32_t thread) {
  launch_rows("launch of two rows", the_scene()->one, STREAM_ONE, thread);
}

void operate_launch_many_and_free(uint32_t thread) {
  scene *s = the_scene();
  launch_rows("launch of two rows, then free", s->two, STREAM_TWO, thread);
  scene_buffer_end(&s->own[thread]);
}

void operate_launch_and_free(uint32_t thread) {
  scene *s = the_scene();
  scene_launch("launch, then free", s->one, STREAM_ONE, &s->x, &s->own[thread]);
  scene_buffer_end(&s->own[thread]);
}

/* ---- bound calls ----------------------------------------------------------------------------- */

static uint32_t enter_call(void) {
  const scene *s = the_scene();
  return scene_enter((order_operation){.name = "bound call",
                                       .stream = STREAM_ONE,
                                       .reads = scene_set(&s->x),
                                       .writes = scene_set(&s->hot)},
                     BY_CALL, 1);
}

void operate_call(uint32_t thread) {
  (void)thread;
  const uint32_t number = enter_call();
  scene_leave(number, vyc_call_run(the_scene()->call));
}

void operate_call_from_origin(uint32_t thread) {
  (void)thread;
  const uint32_t number = enter_call();
  scene_leave(number, vyc_call_run_at(the_scene()->call, scene_origin()));
}

/* Both threads bind arguments of their own: other elements of x. */
static uint32_t bind(scene_run *run, const char *name, uint32_t thread, uint32_t kernels) {
  scene *s = the_scene();
  const uint64_t offset = thread % 2 == 0 ? 8 : 0;
  const uint32_t number = scene_enter((order_operation){.name = name,
                                                        .stream = STREAM_ONE,
                                                        .reads = scene_set(&s->x),
                                                        .writes = scene_set(&s->hot),
                                                        .in = s->x.address + offset,
                                                        .out = s->hot.address},
                                      BY_ITSELF, kernels);
  s->bound.writers |= UINT64_C(1) << number;
  scene_fill_run(run, s->one, &s->x, offset, &s->hot, number);
  return number;
}

void operate_call_set_run(uint32_t thread) {
  scene_run run;
  const uint32_t number = bind(&run, "rebind and launch", thread, 1);
  scene_leave(number, vyc_call_set_run(the_scene()->call, &run.run));
}

void operate_call_set(uint32_t thread) {
  scene_run run;
  const uint32_t number = bind(&run, "rebind", thread, 0);
  order_operation *o = &the_scene()->order.list[number];
  o->writes = 0; /* the launches do */
  o->stream = ORDER_NOWHERE;
  scene_leave(number, vyc_call_set(the_scene()->call, &run.run));
}

void operate_call_made(uint32_t thread) {
  scene *s = the_scene();
  scene_run run;
  vyc_call *made = NULL;
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "a call made, run and released",
                                                        .stream = STREAM_TWO,
                                                        .reads = scene_set(&s->hot),
                                                        .writes = scene_set(&s->out),
                                                        .in = s->hot.address,
                                                        .out = s->out.address},
                                      BY_ITSELF, 2);
  scene_fill_run(&run, s->two, &s->hot, 0, &s->out, number);
  vyc_status status = vyc_call_create(&made, s->prepared, &run.run);
  if (status == VYC_OK) status = vyc_call_run(made);
  if (status == VYC_OK) status = vyc_call_run(made);
  vyc_call_release(made);
  scene_leave(number, status);
}

/* ---- failed assertions ----------------------------------------------------------------------- */

static void launch_failing(uint32_t thread, vyc_prepared *prepared) {
  scene *s = the_scene();
  scene_run run;
  const uint32_t number = scene_enter((order_operation){.name = "launch that fails",
                                                        .stream = STREAM_SPARE + thread,
                                                        .reads = scene_set(&s->x),
                                                        .writes = scene_set(&s->own[thread]),
                                                        .in = s->x.address,
                                                        .out = s->own[thread].address},
                                      BY_ITSELF, 1);
  s->failing |= UINT64_C(1) << number;
  scene_fill_run(&run, s->spare[thread], &s->x, 0, &s->own[thread], number);
  scene_leave(number, vyc_prepared_launch(prepared, &run.run));
}

void operate_fail(uint32_t thread) { launch_failing(thread, the_scene()->asserting); }

void operate_fail_and_wait(uint32_t thread) {
  scene *s = the_scene();
  operate_fail(thread);
  const uint32_t number = scene_enter((order_operation){.name = "wait for the failed",
                                                        .stream = STREAM_SPARE + thread,
                                                        .flags = ORDER_BLOCKS | ORDER_TELLS},
                                      BY_ITSELF, 0);
  scene_leave(number, vyc_stream_synchronize(s->spare[thread]));
}

/* A copy that gives up has waited for the stream already, perhaps. */
void operate_fail_and_read(uint32_t thread) {
  operate_fail(thread);
  scene_copy_out(&the_scene()->own[thread], true);
}

/* The copy to the device waits for the stream, and tells nothing. */
void operate_fail_and_write(uint32_t thread) {
  operate_fail(thread);
  scene_copy_in(&the_scene()->own[thread], false);
  scene_copy_out(&the_scene()->own[thread], false);
}

/* The report outlives its kernel. */
void operate_fail_of_made(uint32_t thread) {
  vyc_prepared *made = NULL;
  if (!scene_ok(scene_make_asserting(&made), "a kernel that asserts")) return;
  launch_failing(thread, made);
  vyc_prepared_release(made);
}
