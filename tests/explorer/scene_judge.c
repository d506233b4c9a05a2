/* The judgement at the end of a schedule: every value, count and piece of memory. */
#include "scene.h"

static void look(scene *s) {
  const bool is_hot_first = (s->setting & SETTING_HOT_FIRST) != 0;
  scene_copy_out(is_hot_first ? &s->hot : &s->out, false);
  scene_copy_out(is_hot_first ? &s->out : &s->hot, false);
  for (uint32_t i = 1; i < EXPLORER_CALLERS; i++)
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
  vyc_graph_release(s->graph);
  scene_release_forms(s);
  vyc_communicator_release(s->communicator); /* the graph holds it */
  vyc_graph_release(s->communicating);
  vyc_worker_release(s->worker);
  vyc_prepared_release(s->resident);
  vyc_buffer_release(s->between);
  vyc_prepared_release(s->copying);
  vyc_prepared_release(s->rows);
  vyc_prepared_release(s->placed);
  vyc_prepared_release(s->asserting);
  vyc_module_release(s->module);
  vyc_prepared_release(s->prepared);
  vyc_bundled_kernel_release(s->kernel);
  vyc_bundle_release(s->bundle);
  scene_buffer_end(&s->x);
  scene_buffer_end(&s->hot);
  scene_buffer_end(&s->out);
  for (uint32_t i = 1; i < EXPLORER_CALLERS; i++) {
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
  for (uint32_t i = 1; i < EXPLORER_CALLERS; i++) scene_buffer_end(&s->own[i]);
  for (uint32_t i = 0; i < 3; i++) {
    scene_buffer_make(&next[i], "the next owner's");
    scene_copy_in(&next[i], false);
  }
  for (uint32_t i = 0; i < 3; i++) scene_copy_out(&next[i], false);
  model_drain();
  for (uint32_t i = 0; i < 3; i++) scene_copy_out(&next[i], false);
  for (uint32_t i = 0; i < 3; i++) scene_buffer_end(&next[i]);
}

/* What began before a reset had ended may be forgotten or not. */
static bool is_counted(const scene *s, uint64_t counted, uint64_t before, uint64_t given,
                       uint64_t since_reset) {
  if (s->reset_step == 0) return counted - before == given;
  return counted >= since_reset && counted <= given;
}

static void check_counters(const scene *s) {
  uint64_t launches = 0, graph_launches = 0;
  scene_read_counters(s, &launches, &graph_launches);
  if (!is_counted(s, launches, s->launches_before, s->launches, s->launches_since) ||
      !is_counted(s, graph_launches, s->graph_launches_before, s->graph_launches,
                  s->graph_launches_since))
    explorer_fail("%lu launches are counted of %lu, and %lu replays of %lu",
                  (unsigned long)launches, (unsigned long)s->launches,
                  (unsigned long)graph_launches, (unsigned long)s->graph_launches);
}

static void check_dropped(const scene *s) {
  for (uint32_t i = 1; i < EXPLORER_CALLERS; i++)
    if (s->dropped[i] != 0 && s->dropped[i] != SCENE_DROPPED)
      explorer_fail("a run that was dropped has written its result, %lu",
                    (unsigned long)s->dropped[i]);
}

static void check_noticed(const scene *s) {
  for (uint32_t i = 1; i < s->order.count; i++)
    if (((s->awaited & ~s->noticed) >> i & 1) != 0)
      explorer_fail("%s (%u) is never told of", s->order.list[i].name, i);
}

static void check_memory(const scene *s) {
  vyc_memory_stats stats = {.struct_size = sizeof stats};
  MUST(vyc_context_memory_stats(s->context, &stats));
  if (stats.live_bytes != 0 || stats.live_count != 0)
    explorer_fail("%lu bytes of device memory in %lu pieces are live, and nobody has them",
                  (unsigned long)stats.live_bytes, (unsigned long)stats.live_count);
}

static void check_all_released(scene *s) {
  vyc_driver_release(s->driver);
  model_check_thread();
  model_check_empty();
  explorer_check_freed();
}

/* A fault ends all work, and all who wait are told. Everything can be released. */
static void judge_lost(scene *s) {
  const vyc_status status = vyc_context_synchronize(s->context);
  if (status != VYC_E_LOST && !(status == VYC_E_UNAVAILABLE && s->closed))
    explorer_fail("a wait for a context that is lost gave %d", (int)status);
  release_objects(s);
  if (!s->closed) scene_ok(vyc_context_close(s->context), "the close of a context that is lost");
  vyc_context_release(s->context);
  scene_restart_worker();
  check_all_released(s);
}

void scene_judge(void *unused) {
  scene *s = the_scene();
  (void)unused;
  s->operation[0] = 0;
  check_noticed(s);
  if (s->devices.context != NULL) scene_judge_devices(s);
  if (s->lost) {
    judge_lost(s);
    return;
  }
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
    check_dropped(s);
  }
  if (!s->closed) scene_ok(vyc_context_synchronize(s->context), "a wait for all");
  release_objects(s);
  if (!s->closed) {
    check_memory(s);
    MUST(vyc_context_close(s->context));
  }
  model_drain();
  vyc_context_release(s->context);
  check_all_released(s);
}
