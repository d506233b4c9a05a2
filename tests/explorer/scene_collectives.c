/* The communicator of the scene, and graphs that use it. */
#include "scene.h"

vyc_status scene_make_communicating(vyc_graph **graph_out, uint64_t value) {
  const scene *s = the_scene();
  const vyc_collective sum = {.struct_size = sizeof sum,
                              .kind = VYC_ALL_REDUCE,
                              .type = VYC_ELEMENT_U64,
                              .in = s->hot.handle,
                              .out = s->out.handle,
                              .count = 1};
  scene_run run;
  scene_fill_run(&run, NULL, &s->x, 0, &s->hot, value);
  vyc_status status = vyc_graph_create(graph_out, s->context);
  if (status == VYC_OK) status = vyc_graph_add_launch(*graph_out, NULL, s->prepared, &run.run);
  if (status == VYC_OK)
    status = vyc_graph_add_collectives(*graph_out, NULL, s->communicator, 1, &sum);
  return status == VYC_OK ? vyc_graph_finish(*graph_out) : status;
}

/* NCCL's communicators are made by a thread of the library's. */
void scene_make_communicator(void *unused) {
  scene *s = the_scene();
  uint8_t id[VYC_COMMUNICATOR_ID_BYTES];
  scene_number_thread(unused);
  if (s->devices.context != NULL) {
    scene_make_ranks(s);
    return;
  }
  MUST(vyc_nccl_unique_id(id));
  MUST(vyc_communicator_create(&s->communicator, s->context, id, 0, 1, -1));
  scene_pause_worker(); /* a collective is refused beside it */
  MUST(scene_make_communicating(&s->communicating, 0));
  scene_resume_worker();
  s->pauses = 0;
}
