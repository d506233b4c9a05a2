/* What concerns the whole context. */
#include "operations.h"
#include "scene.h"

void operate_read_statistics(uint32_t thread) {
  scene *s = the_scene();
  uint64_t rows[8];
  vyc_memory_stats stats = {.struct_size = sizeof stats};
  (void)thread;
  if (scene_ok(vyc_context_stats(s->context, rows, 8), "statistics"))
    for (uint32_t row = 0; row < 8; row++)
      if (rows[row] > SCENE_COUNTED)
        explorer_fail("row %u of the statistics is %lu", row, (unsigned long)rows[row]);
  if (scene_ok(vyc_context_memory_stats(s->context, &stats), "statistics of memory") &&
      stats.live_count > 1000)
    explorer_fail("%lu pieces of memory are live", (unsigned long)stats.live_count);
}

/* Behind a launch, so that others have not counted what this one has. */
void operate_reset_statistics(uint32_t thread) {
  scene *s = the_scene();
  operate_launch_on_spare(thread);
  if (!scene_ok(vyc_context_reset_stats(s->context), "reset of the statistics")) return;
  s->reset_step = ++explorer->steps;
  s->launches_since = s->graph_launches_since = 0;
}

/* Nothing of this changes, but the context may be closed meanwhile; the model's driver has not all
 * capabilities. */
/* An entry for launches that are larger than any here. Another thread may have added it. */
static void add_several(scene *s) {
  const vyc_status status =
      vyc_prepared_add_several(s->prepared, s->module, MODEL_ASSERTING, 2, UINT64_MAX);
  if (status != VYC_E_INVALID) scene_ok(status, "an entry for large launches");
}

void operate_ask(uint32_t thread) {
  scene *s = the_scene();
  vyc_caps caps = {.struct_size = sizeof caps};
  vyc_function_info info = {.struct_size = sizeof info};
  uint64_t handle = 0;
  uint32_t number = 0;
  (void)thread;
  scene_ok(vyc_context_caps(s->context, &caps), "caps");
  scene_ok(vyc_context_stream(s->context, &handle), "the stream of call order");
  scene_ok(vyc_stream_handle(s->one, &handle), "the handle of a stream");
  scene_ok(vyc_buffer_is_read_only(s->hot.handle, &number), "is it read-only");
  scene_ok(vyc_prepared_function(s->prepared, &info), "a function");
  add_several(s);
  scene_ok(vyc_module_block_size(s->module, &number, MODEL_ASSERTING, 0, 0), "block size");
  scene_ok(vyc_module_resident_blocks(s->module, &number, MODEL_ASSERTING, 32, 0), "blocks");
  scene_ok(vyc_context_set_patience(s->context, INT64_C(10000000000)), "patience");
  const vyc_status status = vyc_context_supports(s->context, "conditional_nodes");
  if (status != VYC_E_UNSUPPORTED) scene_ok(status, "capability");
}

/* Another context on the same device, from its opening to its end. */
void operate_open_other(uint32_t thread) {
  scene *s = the_scene();
  vyc_context *other = NULL;
  vyc_buffer *buffer = NULL;
  uint64_t found = 0;
  const uint64_t value = UINT64_C(1) << 40 | thread;
  MUST(vyc_context_open(&other, s->driver, 0));
  MUST(vyc_buffer_alloc(&buffer, other, ORDER_BUFFER_BYTES));
  MUST(vyc_copy_in(buffer, 0, &value, sizeof value));
  MUST(vyc_copy_out(buffer, 0, &found, sizeof found));
  if (found != value && !s->lost) explorer_fail("another context reads %lu", (unsigned long)found);
  vyc_buffer_release(buffer);
  MUST(vyc_context_close(other));
  vyc_context_release(other);
}

/* The thread has it current meanwhile, and then what it had, also beside a close. */
void operate_enter_context(uint32_t thread) {
  scene *s = the_scene();
  uint64_t before = 0;
  (void)thread;
  if (!scene_ok(vyc_context_enter(s->context, &before), "enter")) return;
  scene_launch("launch in the current context", s->one, STREAM_ONE, &s->x, &s->hot);
  MUST(vyc_context_leave(s->context, before));
}

void operate_ask_depth(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  const vyc_status status = vyc_context_is_behind(s->context, s->one);
  if (status != VYC_NOT_READY) scene_ok(status, "is it behind");
}

void operate_read_history(uint32_t thread) {
  char text[2048];
  uint32_t count = 0;
  (void)thread;
  scene_ok(vyc_context_in_flight(the_scene()->context, text, sizeof text, &count), "in flight");
}

void operate_close_context(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  s->closing = s->refuses_collectives = true;
  while (s->capturing != 0) explorer_wait_round(); /* they would run what is gone */
  const vyc_status status = vyc_context_close(s->context);
  if (status != VYC_OK) scene_ok(status, "close");
  s->closed = true;
}
