/* Copies, memory that is taken and given back, and runs on host arrays. */
#include "operations.h"
#include "scene.h"

/* ---- copies ---------------------------------------------------------------------------------- */

void operate_copy_in(uint32_t thread) {
  (void)thread;
  scene_copy_in(&the_scene()->hot, false);
}

void operate_try_in(uint32_t thread) {
  (void)thread;
  scene_copy_in(&the_scene()->hot, true);
}

void operate_try_out(uint32_t thread) {
  (void)thread;
  scene_copy_out(&the_scene()->hot, true);
}

void operate_copy_out(uint32_t thread) {
  (void)thread;
  scene_copy_out(&the_scene()->hot, false);
}

void operate_copy_other_out(uint32_t thread) {
  (void)thread;
  scene_copy_out(&the_scene()->out, false);
}

void operate_copy_own_out(uint32_t thread) { scene_copy_out(&the_scene()->own[thread], false); }

void operate_copy_within(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "copy within",
                                                        .stream = STREAM_CALLS,
                                                        .flags = ORDER_COPY | ORDER_WAITS_BUFFERS,
                                                        .reads = scene_set(&s->hot),
                                                        .writes = scene_set(&s->out),
                                                        .in = s->hot.address,
                                                        .out = s->out.address},
                                      BY_ITSELF, 1);
  scene_leave(number, vyc_copy(s->out.handle, 0, s->hot.handle, 0, 8));
}

/* ---- memory ---------------------------------------------------------------------------------- */

void operate_free_buffer(uint32_t thread) { scene_buffer_end(&the_scene()->own[thread]); }

void operate_take_buffer(uint32_t thread) {
  scene_buffer fresh = {0};
  (void)thread;
  if (!scene_buffer_make(&fresh, "a new buffer")) return;
  scene_copy_in(&fresh, false);
  scene_launch("launch on a new buffer", the_scene()->two, STREAM_TWO, &fresh, &the_scene()->out);
  scene_copy_out(&fresh, false);
  scene_buffer_end(&fresh);
}

void operate_trim(uint32_t thread) {
  (void)thread;
  scene_ok(vyc_context_trim(the_scene()->context), "trim");
}

/* Keeps nothing idle, then as much as before. */
void operate_change_budget(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  if (!scene_ok(vyc_context_set_memory_budget(s->context, 0, 0), "budget")) return;
  scene_ok(vyc_context_set_memory_budget(s->context, 1 << 30, 1 << 30), "budget");
}

void operate_try_buffer(uint32_t thread) {
  scene *s = the_scene();
  scene_buffer fresh = {0};
  scene_buffer *own = &s->own[thread];
  if (vyc_buffer_try_alloc(&fresh.handle, s->context, ORDER_BUFFER_BYTES) == VYC_OK)
    vyc_buffer_release(fresh.handle);
  order_buffer_release(&s->order, own->number);
  if (vyc_buffer_try_release(own->handle) == VYC_OK)
    own->handle = NULL;
  else
    s->order.buffers[own->number].released = 0;
}

void operate_submit(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  uint64_t in = 0, result = UINT64_MAX;
  scene_run run;
  vyc_ticket *ticket = NULL;
  const uint32_t number = scene_enter(
      (order_operation){.name = "run that is submitted", .stream = ORDER_NOWHERE}, BY_ITSELF, 1);
  scene_fill_run(&run, NULL, &s->x, 0, &s->out, number);
  run.arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .data = &in};
  run.arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .result = &result};
  vyc_status status = vyc_prepared_submit(s->prepared, &ticket, &run.run);
  if (status == VYC_OK) status = vyc_ticket_wait(ticket, -1);
  vyc_ticket_release(ticket);
  if (status == VYC_OK && result != number)
    explorer_fail("a run that was submitted (%u) has the result %lu", number,
                  (unsigned long)result);
  scene_leave(number, status);
}

void operate_pinned_run(uint32_t thread) {
  scene *s = the_scene();
  vyc_pinned *pinned = NULL;
  void *data = NULL;
  scene_run run;
  (void)thread;
  if (!scene_ok(vyc_pinned_alloc(&pinned, s->context, 16), "page-locked memory")) return;
  const uint32_t number =
      scene_enter((order_operation){.name = "run in page-locked memory", .stream = ORDER_NOWHERE},
                  BY_ITSELF, 1);
  if (vyc_pinned_data(pinned, &data) != VYC_OK)
    explorer_fail("page-locked memory does not say where it is");
  uint64_t *const cells = data;
  cells[0] = cells[1] = 0;
  scene_fill_run(&run, NULL, &s->x, 0, &s->out, number);
  run.arguments[0] =
      (vyc_argument){.kind = VYC_ARGUMENT_PINNED, .count = 1, .data = &cells[0], .pinned = pinned};
  run.arguments[1] = (vyc_argument){
      .kind = VYC_ARGUMENT_PINNED, .count = 1, .result = &cells[1], .pinned = pinned};
  const vyc_status status = vyc_prepared_run(s->prepared, NULL, &run.run);
  if (status == VYC_OK && cells[1] != number)
    explorer_fail("a run in page-locked memory (%u) has the result %lu", number,
                  (unsigned long)cells[1]);
  scene_leave(number, status);
  vyc_pinned_release(pinned);
}

void operate_export_buffer(uint32_t thread) {
  scene *s = the_scene();
  scene_buffer *own = &s->own[thread];
  if (!scene_ok(vyc_buffer_export(own->handle), "export")) return;
  vyc_buffer_release(own->handle);
  scene_buffer_end(own);
}

void operate_host_run(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  uint64_t in = 0, result = UINT64_MAX;
  scene_run run;
  const uint32_t number = scene_enter(
      (order_operation){.name = "run with host arrays", .stream = ORDER_NOWHERE}, BY_ITSELF, 1);
  scene_fill_run(&run, NULL, &s->x, 0, &s->out, number);
  run.arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .data = &in};
  run.arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .result = &result};
  const vyc_status status = vyc_prepared_run(s->prepared, NULL, &run.run);
  if (status == VYC_OK && result != number)
    explorer_fail("a run with host arrays (%u) has the result %lu", number, (unsigned long)result);
  scene_leave(number, status);
}
