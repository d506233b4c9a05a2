/* Graphs with collectives, and the communicator that ends them before itself. */
#include "operations.h"
#include "scene.h"

static uint32_t enter(const char *name) {
  scene *s = the_scene();
  const uint32_t number =
      scene_enter((order_operation){.name = name,
                                    .stream = STREAM_TWO,
                                    .reads = scene_set(&s->x) | scene_set(&s->hot),
                                    .writes = scene_set(&s->hot) | scene_set(&s->out)},
                  BY_ITSELF, 2);
  s->collectives |= UINT64_C(1) << number;
  return number;
}

void operate_collective_replay(uint32_t thread) {
  scene *s = the_scene();
  scene_run run;
  uint32_t launched = 0;
  (void)thread;
  if (!scene_pause_worker()) return; /* beside a worker it is refused */
  const uint32_t number = enter("replay of a graph with a collective");
  scene_fill_run(&run, NULL, &s->x, 0, &s->hot, number);
  const vyc_graph_change change = {.step = 0, .run = &run.run};
  const vyc_graph_part part = {.struct_size = sizeof part,
                               .change_count = 1,
                               .graph = s->communicating,
                               .changes = &change,
                               .stream = s->two};
  scene_leave(number, vyc_graph_launch_together(&part, 1, &launched, scene_origin()));
  scene_resume_worker();
}

/* One of its own, released with its launch in flight. */
void operate_collective_made(uint32_t thread) {
  scene *s = the_scene();
  vyc_graph *graph = NULL;
  (void)thread;
  if (!scene_pause_worker()) return;
  const uint32_t number = enter("a graph with a collective of its own");
  vyc_status status = scene_make_communicating(&graph, number);
  if (status == VYC_OK) status = vyc_graph_launch(graph, NULL, 0, s->two);
  vyc_graph_release(graph);
  scene_leave(number, status);
  scene_resume_worker();
}

void operate_communicator_watch(uint32_t thread) {
  vyc_communicator_state state = {.struct_size = sizeof state};
  (void)thread;
  if (!scene_ok(vyc_communicator_watch(the_scene()->communicator, &state), "a look")) return;
  if (state.error != 0) explorer_fail("NCCL is said to have error %d", state.error);
}

void operate_communicator_close(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  s->refuses_collectives = true;
  vyc_communicator_close(s->communicator);
  const vyc_status status = vyc_communicator_check(s->communicator, NULL);
  if (status == VYC_OK) explorer_fail("a communicator that is closed could be used");
  if (status != VYC_E_INVALID) scene_ok(status, "a communicator that is closed");
}
