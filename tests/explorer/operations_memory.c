/* Copies and fills, and memory that is taken and given back. */
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

/* The upper half of an element is 0 as it was. */
void operate_fill(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "fill",
                                                        .stream = STREAM_CALLS,
                                                        .flags = ORDER_COPY | ORDER_WAITS_BUFFERS,
                                                        .writes = scene_set(&s->hot)},
                                      BY_ITSELF, 0);
  scene_leave(number, vyc_fill(s->hot.handle, 0, number, 4, 4));
}

/* The memory is released while the copy may still have to read it. */
void operate_stream_copy_in(uint32_t thread) {
  scene *s = the_scene();
  vyc_pinned *pinned = NULL;
  void *data = NULL;
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "copy in on stream two",
                                                        .stream = STREAM_TWO,
                                                        .writes = scene_set(&s->hot)},
                                      BY_ITSELF, 0);
  vyc_status status = vyc_pinned_alloc(&pinned, s->context, sizeof(uint64_t));
  if (status == VYC_OK) status = vyc_pinned_data(pinned, &data);
  if (status == VYC_OK) {
    *(uint64_t *)data = number;
    status = vyc_stream_copy_in(s->two, s->hot.handle, 0, pinned, 0, sizeof(uint64_t));
  }
  vyc_pinned_release(pinned);
  scene_leave(number, status);
}

void operate_stream_copy_out(uint32_t thread) {
  scene *s = the_scene();
  vyc_pinned *pinned = NULL;
  void *data = NULL;
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "copy out on stream two",
                                                        .stream = STREAM_TWO,
                                                        .flags = ORDER_BLOCKS,
                                                        .reads = scene_set(&s->hot)},
                                      BY_ITSELF, 0);
  vyc_status status = vyc_pinned_alloc(&pinned, s->context, sizeof(uint64_t));
  if (status == VYC_OK) status = vyc_pinned_data(pinned, &data);
  if (status == VYC_OK)
    status = vyc_stream_copy_out(s->two, pinned, 0, s->hot.handle, 0, sizeof(uint64_t));
  if (status == VYC_OK) status = vyc_stream_synchronize(s->two);
  if (status == VYC_OK) order_check_read(&s->order, number, s->hot.number, *(uint64_t *)data);
  vyc_pinned_release(pinned);
  scene_leave(number, status);
}

void operate_stream_copy(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "copy on stream two",
                                                        .stream = STREAM_TWO,
                                                        .reads = scene_set(&s->hot),
                                                        .writes = scene_set(&s->out),
                                                        .in = s->hot.address,
                                                        .out = s->out.address},
                                      BY_ITSELF, 1);
  scene_leave(number, vyc_stream_copy(s->two, s->out.handle, 0, s->hot.handle, 0, 8));
}

void operate_stream_fill(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "fill on stream two",
                                                        .stream = STREAM_TWO,
                                                        .writes = scene_set(&s->hot)},
                                      BY_ITSELF, 0);
  scene_leave(number, vyc_stream_fill(s->two, s->hot.handle, 0, number, 4, 4));
}

void operate_upload(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number =
      scene_enter((order_operation){.name = "upload",
                                    .stream = STREAM_CALLS,
                                    .flags = ORDER_COPY | ORDER_WAITS_BUFFERS,
                                    .writes = scene_set(&s->hot) | scene_set(&s->out)},
                  BY_ITSELF, 0);
  const uint64_t value = number;
  const vyc_transfer items[] = {{.buffer = s->hot.handle, .bytes = sizeof value, .data = &value},
                                {.buffer = s->out.handle, .bytes = sizeof value, .data = &value}};
  scene_leave(number, vyc_upload(s->context, items, 2));
}

void operate_download(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter(
      (order_operation){.name = "download",
                        .stream = STREAM_CALLS,
                        .flags = ORDER_COPY | ORDER_WAITS_BUFFERS | ORDER_BLOCKS | ORDER_TELLS,
                        .reads = scene_set(&s->hot) | scene_set(&s->out)},
      BY_ITSELF, 0);
  uint64_t hot = UINT64_MAX, out = UINT64_MAX;
  const vyc_transfer items[] = {{.buffer = s->hot.handle, .bytes = sizeof hot, .result = &hot},
                                {.buffer = s->out.handle, .bytes = sizeof out, .result = &out}};
  const vyc_status status = vyc_download(s->context, items, 2);
  if (status == VYC_OK) {
    order_check_read(&s->order, number, s->hot.number, hot);
    order_check_read(&s->order, number, s->out.number, out);
  }
  scene_leave(number, status);
}

/* By a kernel where that is loaded, or loads it, and there is no worker. */
void operate_gather(uint32_t thread) {
  scene *s = the_scene();
  const scene_buffer *const from[] = {&s->x, &s->hot, &s->out, &s->own[thread]};
  uint64_t values[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
  uint32_t reads = 0;
  for (uint32_t i = 0; i < 4; i++) reads |= scene_set(from[i]);
  const uint32_t number = scene_enter(
      (order_operation){.name = "download of four ranges",
                        .stream = STREAM_CALLS,
                        .flags = ORDER_COPY | ORDER_WAITS_BUFFERS | ORDER_BLOCKS | ORDER_TELLS,
                        .reads = reads},
      BY_ITSELF, 0);
  const vyc_status status = scene_read_ranges(values, thread);
  for (uint32_t i = 0; i < 4 && status == VYC_OK; i++)
    order_check_read(&s->order, number, from[i]->number, values[i]);
  scene_leave(number, status);
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

void operate_export_buffer(uint32_t thread) {
  scene *s = the_scene();
  scene_buffer *own = &s->own[thread];
  if (!scene_ok(vyc_buffer_export(own->handle), "export")) return;
  vyc_buffer_release(own->handle);
  scene_buffer_end(own);
}
