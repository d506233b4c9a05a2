/* Streams, events and waits. */
#include "operations.h"
#include "scene.h"

/* ---- waits ----------------------------------------------------------------------------------- */

static void wait_for(const char *name, uint32_t stream, uint32_t flags, vyc_status (*wait)(void)) {
  const uint32_t number = scene_enter(
      (order_operation){
          .name = name, .stream = stream, .flags = flags | ORDER_BLOCKS | ORDER_TELLS},
      BY_ITSELF, 0);
  const uint32_t for_all = (flags & ORDER_WAITS_ALL) != 0;
  the_scene()->waiting += for_all;
  const vyc_status status = wait();
  the_scene()->waiting -= for_all;
  scene_leave(number, status);
}

static vyc_status wait_stream(void) { return vyc_stream_synchronize(the_scene()->one); }

static vyc_status wait_context(void) { return vyc_context_synchronize(the_scene()->context); }

void operate_synchronize_stream(uint32_t thread) {
  (void)thread;
  wait_for("wait for stream one", STREAM_ONE, 0, wait_stream);
}

void operate_synchronize(uint32_t thread) {
  (void)thread;
  wait_for("wait for all", ORDER_NOWHERE, ORDER_WAITS_ALL, wait_context);
}

void operate_synchronize_buffer(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "wait for a buffer",
                                                        .stream = STREAM_CALLS,
                                                        .flags = ORDER_WAITS_BUFFERS | ORDER_BLOCKS,
                                                        .reads = scene_set(&s->hot)},
                                      BY_ITSELF, 0);
  scene_leave(number, vyc_buffer_synchronize_for(s->hot.handle, 1, -1));
}

static vyc_status wait_fence(void) {
  vyc_fence *fence = NULL;
  vyc_status status = vyc_fence_create(&fence, the_scene()->context);
  if (status == VYC_OK) status = vyc_fence_wait(fence, -1);
  vyc_fence_release(fence);
  return status;
}

void operate_fence(uint32_t thread) {
  (void)thread;
  wait_for("wait for a fence", ORDER_NOWHERE, ORDER_WAITS_ALL, wait_fence);
}

/* A wait that gave up has waited for nothing. */
static void leave_wait(uint32_t number, vyc_status status) {
  order_operation *o = &the_scene()->order.list[number];
  if (status == VYC_NOT_READY) o->flags &= ~(uint32_t)(ORDER_BLOCKS | ORDER_TELLS);
  scene_leave(number, status == VYC_NOT_READY ? VYC_OK : status);
}

void operate_wait_for_stream_shortly(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "short wait for stream one",
                                                        .stream = STREAM_ONE,
                                                        .flags = ORDER_BLOCKS | ORDER_TELLS},
                                      BY_ITSELF, 0);
  vyc_status status = vyc_stream_query(s->one);
  if (status == VYC_NOT_READY) status = vyc_stream_synchronize_for(s->one, SCENE_SHORT_NS);
  leave_wait(number, status);
}

void operate_wait_for_all_shortly(uint32_t thread) {
  (void)thread;
  const uint32_t number =
      scene_enter((order_operation){.name = "short wait for all",
                                    .stream = ORDER_NOWHERE,
                                    .flags = ORDER_WAITS_ALL | ORDER_BLOCKS | ORDER_TELLS},
                  BY_ITSELF, 0);
  leave_wait(number, vyc_context_synchronize_for(the_scene()->context, SCENE_SHORT_NS));
}

static vyc_status wait_event(vyc_event *event) {
  vyc_status status = vyc_event_query(event);
  if (status == VYC_NOT_READY) status = vyc_event_synchronize_for(event, SCENE_SHORT_NS);
  if (status == VYC_NOT_READY) status = vyc_event_synchronize(event);
  return status;
}

void operate_wait_for_event(uint32_t thread) {
  scene *s = the_scene();
  vyc_event *start = NULL, *stop = NULL;
  float milliseconds = 0;
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "wait for an event of stream one",
                                                        .stream = STREAM_ONE,
                                                        .flags = ORDER_BLOCKS | ORDER_TELLS},
                                      BY_ITSELF, 0);
  vyc_status status = vyc_stream_record(s->one, &start);
  if (status == VYC_OK) status = vyc_stream_record(s->one, &stop);
  if (status == VYC_OK) status = wait_event(stop);
  if (status == VYC_OK) status = vyc_event_elapsed(stop, &milliseconds, start);
  if (start != NULL && vyc_event_try_release(start) != VYC_OK) vyc_event_release(start);
  vyc_event_release(stop);
  scene_leave(number, status);
}

/* ---- streams --------------------------------------------------------------------------------- */

void operate_make_stream(uint32_t thread) {
  scene *s = the_scene();
  if (!scene_ok(vyc_stream_create(&s->made[thread], s->context), "stream made")) return;
  scene_launch("launch on a new stream", s->made[thread], STREAM_MADE + thread, &s->hot, &s->out);
}

void operate_drop_stream(uint32_t thread) {
  scene *s = the_scene();
  const uint32_t number = scene_enter((order_operation){.name = "stream dropped",
                                                        .stream = STREAM_SPARE + thread,
                                                        .flags = ORDER_BLOCKS},
                                      BY_ITSELF, 0);
  vyc_stream_release(s->spare[thread]);
  s->spare[thread] = NULL;
  scene_leave(number, VYC_OK);
}

/* What the stream was not told is kept for who waits for all. */
void operate_fail_and_drop_stream(uint32_t thread) {
  operate_fail(thread);
  operate_drop_stream(thread);
}

void operate_use_and_drop_stream(uint32_t thread) {
  operate_launch_on_spare(thread);
  operate_drop_stream(thread);
}

/* Stream two goes on behind what stream one was given, by an event. */
void operate_order_by_event(uint32_t thread) {
  scene *s = the_scene();
  vyc_event *event = NULL;
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "event from one to two",
                                                        .stream = STREAM_TWO,
                                                        .flags = ORDER_WAITS_OTHER,
                                                        .other = STREAM_ONE},
                                      BY_ITSELF, 0);
  vyc_status status = vyc_stream_record(s->one, &event);
  if (status == VYC_OK) status = vyc_stream_wait(s->two, event);
  vyc_event_release(event);
  scene_leave(number, status);
  operate_launch_that_reads(0);
}

void operate_order_by_buffer(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const uint32_t number = scene_enter((order_operation){.name = "order of a buffer",
                                                        .stream = STREAM_TWO,
                                                        .flags = ORDER_WAITS_BUFFERS,
                                                        .reads = scene_set(&s->hot)},
                                      BY_ITSELF, 0);
  scene_leave(number, vyc_buffer_order(s->hot.handle, s->two));
  operate_launch_that_reads(0);
}

/* Kept: its release would wait for the launch. */
void operate_adopt_stream(uint32_t thread) {
  scene *s = the_scene();
  vyc_stream **stream = &s->made[thread];
  if (!scene_ok(vyc_stream_adopt(stream, s->context, s->foreign_stream), "stream adopted")) return;
  scene_launch("launch on an adopted stream", *stream, STREAM_FOREIGN, &s->x, &s->hot);
}

/* Whose owner works on `source`. */
static void use_memory_of(vyc_stream *source, uint32_t thread) {
  scene *s = the_scene();
  scene_buffer foreign = {.address = s->foreign_memory[thread]};
  const vyc_foreign_memory memory = {.struct_size = sizeof memory,
                                     .address = foreign.address,
                                     .bytes = ORDER_BUFFER_BYTES,
                                     .source = source};
  if (!scene_ok(vyc_buffer_adopt(&foreign.handle, s->context, &memory), "memory adopted")) return;
  foreign.number = order_buffer_add(&s->order, "adopted memory", foreign.address, true);
  scene_launch("launch on adopted memory", s->one, STREAM_ONE, &s->x, &foreign);
  scene_launch("launch that reads it", NULL, STREAM_CALLS, &foreign, &s->hot);
  scene_copy_out(&foreign, false);
  scene_buffer_end(&foreign);
}

void operate_adopt_memory(uint32_t thread) {
  scene *s = the_scene();
  vyc_stream *source = NULL;
  if (!scene_ok(vyc_stream_adopt(&source, s->context, s->foreign_stream), "stream adopted")) return;
  use_memory_of(source, thread);
  vyc_stream_release(source);
}

void operate_adopt_memory_of_own_stream(uint32_t thread) {
  use_memory_of(the_scene()->two, thread);
}
