/* The worker of the scene: made, warm, and paused. */
#include "scene.h"

/* Numbers of calls change their sign soon, or wrap. */
vyc_status scene_make_worker(vyc_worker **worker_out, uint32_t blocks) {
  scene *s = the_scene();
  const vyc_worker_desc desc = {.struct_size = sizeof desc,
                                .kernel_count = 1,
                                .kernels = &s->copying,
                                .idle_ns = 1000000000,
                                .first = (blocks == 1 ? UINT32_MAX : INT32_MAX) - 2u,
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
  s->pauses++;
  return s->worker == NULL || scene_ok(vyc_worker_pause(s->worker, -1), "a pause");
}

void scene_resume_worker(void) {
  const scene *s = the_scene();
  if (s->worker == NULL) return;
  const vyc_status status = vyc_worker_resume(s->worker);
  if (status != VYC_E_INVALID || !s->worker_closing) scene_ok(status, "the end of a pause");
}

/* With host arrays; its result is its number. */
static void check_call(vyc_worker *worker) {
  scene *s = the_scene();
  uint64_t in = SCENE_INPUT, result = UINT64_MAX;
  scene_run run;
  const uint32_t number = scene_enter(
      (order_operation){.name = "call of a worker after a fault", .stream = ORDER_NOWHERE},
      BY_ITSELF, 1);
  scene_fill_run(&run, NULL, &s->x, 0, &s->out, number);
  run.arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .data = &in};
  run.arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .result = &result};
  s->input[number] = in;
  const vyc_status status = vyc_worker_run(worker, NULL, 0, &run.run);
  if (status != VYC_OK || result != number)
    explorer_fail("a call of a worker after a fault gave %d and %lu", (int)status,
                  (unsigned long)result);
  scene_leave(number, status);
}

void scene_restart_worker(void) {
  scene *s = the_scene();
  vyc_worker *worker = NULL;
  model_begin_process();
  MUST(vyc_context_open(&s->context, s->driver, 0));
  MUST(vyc_module_load(&s->module, NULL, 0, s->context, "model", sizeof "model"));
  MUST(scene_make_copying(&s->copying));
  MUST(scene_make_resident(&s->resident));
  MUST(scene_make_worker(&worker, 1));
  check_call(worker);
  vyc_worker_release(worker);
  vyc_prepared_release(s->resident);
  vyc_prepared_release(s->copying);
  vyc_module_release(s->module);
  MUST(vyc_context_close(s->context));
  vyc_context_release(s->context);
}
