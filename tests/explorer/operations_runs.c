/* Runs with arguments in host memory. */
#include "operations.h"
#include "scene.h"

#include <string.h>

/* An element in, and one out. */
static uint32_t enter(const char *name) {
  return scene_enter((order_operation){.name = name, .stream = ORDER_NOWHERE}, BY_ITSELF, 1);
}

static void take_host(scene_run *run, const uint64_t *in, uint64_t *result, uint32_t number) {
  const scene *s = the_scene();
  scene_fill_run(run, NULL, &s->x, 0, &s->out, number);
  run->arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .data = in};
  run->arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .result = result};
}

static void take_pinned(scene_run *run, uint64_t *cells, vyc_pinned *pinned, uint32_t number) {
  const scene *s = the_scene();
  scene_fill_run(run, NULL, &s->x, 0, &s->out, number);
  cells[0] = cells[1] = 0;
  run->arguments[0] =
      (vyc_argument){.kind = VYC_ARGUMENT_PINNED, .count = 1, .data = &cells[0], .pinned = pinned};
  run->arguments[1] = (vyc_argument){
      .kind = VYC_ARGUMENT_PINNED, .count = 1, .result = &cells[1], .pinned = pinned};
}

static void leave(uint32_t number, vyc_status status, uint64_t result) {
  if (status == VYC_OK && result != number)
    explorer_fail("%s (%u) has the result %lu", the_scene()->order.list[number].name, number,
                  (unsigned long)result);
  scene_leave(number, status);
}

void operate_host_run(uint32_t thread) {
  (void)thread;
  uint64_t in = 0, result = UINT64_MAX;
  scene_run run;
  const uint32_t number = enter("run with host arrays");
  take_host(&run, &in, &result, number);
  const vyc_status status = vyc_prepared_run(the_scene()->prepared, NULL, &run.run);
  leave(number, status, result);
}

/* Its work and grid come from the bundle. */
void operate_bundled_run(uint32_t thread) {
  scene *s = the_scene();
  (void)thread;
  uint64_t in = 0, result = UINT64_MAX;
  scene_run run;
  vyc_ticket *ticket = NULL;
  const uint32_t number = enter("run of a bundle's kernel");
  take_host(&run, &in, &result, number);
  memset(run.run.grid, 0, sizeof run.run.grid);
  vyc_status status = vyc_bundled_kernel_submit(s->kernel, &ticket, &run.run);
  if (status == VYC_OK) status = vyc_ticket_wait(ticket, -1);
  vyc_ticket_release(ticket);
  leave(number, status, result);
}

/* ---- inputs that stay on the device ---------------------------------------------------------- */

static void run_copied(const char *name, uint64_t in, uint64_t content) {
  scene *s = the_scene();
  const uint64_t contents[] = {content, 0};
  uint64_t result = UINT64_MAX;
  scene_run run;
  const uint32_t number = enter(name);
  take_host(&run, &in, &result, number);
  run.run.contents = content == 0 ? NULL : contents;
  s->input[number] = in;
  const vyc_status status = vyc_prepared_run(s->copying, NULL, &run.run);
  leave(number, status, result);
}

/* Each thread has one input, which it has numbered. */
void operate_kept_run(uint32_t thread) {
  run_copied("run whose input stays", SCENE_INPUT + thread, thread);
}

void operate_copied_run(uint32_t thread) {
  (void)thread;
  run_copied("run whose input is copied", SCENE_INPUT + EXPLORER_CALLERS, 0);
}

/* ---- runs that are submitted ----------------------------------------------------------------- */

void operate_submit(uint32_t thread) {
  (void)thread;
  uint64_t in = 0, result = UINT64_MAX;
  scene_run run;
  vyc_ticket *ticket = NULL;
  const uint32_t number = enter("run that is submitted");
  take_host(&run, &in, &result, number);
  vyc_status status = vyc_prepared_submit(the_scene()->prepared, &ticket, &run.run);
  if (status == VYC_OK) status = vyc_ticket_wait(ticket, -1);
  vyc_ticket_release(ticket);
  leave(number, status, result);
}

/* Nothing is written to the result once the ticket is released. */
void operate_submit_and_drop(uint32_t thread) {
  scene *s = the_scene();
  uint64_t in = 0, *const result = &s->dropped[thread];
  scene_run run;
  vyc_ticket *ticket = NULL;
  const uint32_t number = enter("run that is dropped");
  take_host(&run, &in, result, number);
  vyc_status status = vyc_prepared_submit(s->prepared, &ticket, &run.run);
  if (status == VYC_OK) status = vyc_ticket_query(ticket);
  vyc_ticket_release(ticket);
  if (status == VYC_OK && *result != number)
    explorer_fail("a run that has ended (%u) has the result %lu", number, (unsigned long)*result);
  *result = SCENE_DROPPED;
  scene_leave(number, status == VYC_NOT_READY ? VYC_OK : status);
}

/* ---- page-locked memory ---------------------------------------------------------------------- */

void operate_pinned_run(uint32_t thread) {
  scene *s = the_scene();
  vyc_pinned *pinned = NULL;
  void *data = NULL;
  scene_run run;
  (void)thread;
  if (!scene_ok(vyc_pinned_alloc(&pinned, s->context, 16), "page-locked memory")) return;
  const uint32_t number = enter("run in page-locked memory");
  if (vyc_pinned_data(pinned, &data) != VYC_OK)
    explorer_fail("page-locked memory does not say where it is");
  uint64_t *const cells = data;
  take_pinned(&run, cells, pinned, number);
  const vyc_status status = vyc_prepared_run(s->prepared, NULL, &run.run);
  leave(number, status, cells[1]);
  vyc_pinned_release(pinned);
}

/* The release waits for the run, whose ticket is released before; the memory is the caller's. */
void operate_registered_run(uint32_t thread) {
  scene *s = the_scene();
  vyc_pinned *pinned = NULL;
  vyc_ticket *ticket = NULL;
  uint64_t *const cells = s->cells[thread];
  scene_run run;
  const vyc_status locked = vyc_pinned_register(&pinned, s->context, cells, sizeof s->cells[0]);
  if (!scene_ok(locked, "memory that is page-locked")) return;
  const uint32_t number = enter("run in memory that was page-locked");
  take_pinned(&run, cells, pinned, number);
  const vyc_status status = vyc_prepared_submit(s->prepared, &ticket, &run.run);
  vyc_ticket_release(ticket);
  scene_leave(number, status);
  vyc_pinned_release(pinned);
  if (status == VYC_OK && !s->closing && !s->lost && cells[1] != number)
    explorer_fail("memory is given back before the run (%u) in it has ended", number);
  vyc_pinned *tried = NULL;
  if (scene_ok(vyc_pinned_try_alloc(&tried, s->context, 16), "page-locked memory"))
    vyc_pinned_release(tried);
}
