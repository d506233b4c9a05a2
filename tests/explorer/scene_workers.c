/* The worker of the scene: made, warm, and paused. */
#include "scene.h"

vyc_status scene_make_worker(vyc_worker **worker_out, uint32_t blocks) {
  scene *s = the_scene();
  const vyc_worker_desc desc = {.struct_size = sizeof desc,
                                .kernel_count = 1,
                                .kernels = &s->copying,
                                .idle_ns = 1000000000,
                                .first = 1,
                                .blocks = blocks};
  return vyc_worker_create(worker_out, s->resident, &desc);
}

void scene_warm_worker(void) {
  const scene *s = the_scene();
  uint64_t in = 0, result = 0;
  scene_run run;
  scene_fill_run(&run, NULL, &s->x, 0, &s->out, 0);
  run.arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .data = &in};
  run.arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .result = &result};
  MUST(vyc_worker_run(s->worker, NULL, 0, &run.run));
  MUST(vyc_worker_pause(s->worker, -1));
  MUST(vyc_worker_resume(s->worker));
}

bool scene_pause_worker(void) {
  scene *s = the_scene();
  s->pauses = true;
  return s->worker == NULL || scene_ok(vyc_worker_pause(s->worker, -1), "a pause");
}

void scene_resume_worker(void) {
  const scene *s = the_scene();
  if (s->worker == NULL) return;
  const vyc_status status = vyc_worker_resume(s->worker);
  if (status != VYC_E_INVALID || !s->worker_closing) scene_ok(status, "the end of a pause");
}
