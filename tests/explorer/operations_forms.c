/* A graph of a bundle with two forms: its merged steps, and the recorded ones where arrays that
 * were apart are one. */
#include "operations.h"
#include "scene.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion" /* of which the library is not free */
#include "bundle_device/room.h"
#include "graph/graph.h"
#pragma GCC diagnostic pop

/* With what its symbols stand for: merged steps, unless another operation has set them. The second
 * thread gives other numbers. */
void operate_forms(uint32_t thread) {
  const scene *s = the_scene();
  vyc_symbol_value values[SCENE_FORMS_NUMBERS];
  const uint32_t number = scene_enter((order_operation){.name = "replay of one of two forms",
                                                        .stream = STREAM_ONE,
                                                        .graph = GRAPH_FORMS,
                                                        .reads = scene_set(&s->x)},
                                      BY_FORMS, SCENE_FORMS_KERNELS);
  scene_forms_number(values, &s->forms, number);
  scene_leave(number, vyc_replay_launch(s->forms.replay, values,
                                        thread % 2 == 0 ? SCENE_FORMS_NUMBERS : 0, s->one));
}

/* Has `y` be an array that `x` may stand for, as it does for the second thread at the beginning:
 * its launch makes the form of the recorded steps. A wait has the device begin with this launch,
 * which shows where it should have been behind the other form's. */
void operate_forms_shared(uint32_t thread) {
  scene *s = the_scene();
  const uint32_t place = thread % 2;
  const vyc_symbol_value value = {
      .symbol = s->forms.y, .buffer = s->forms.arrays[place], .count = 1};
  const uint32_t number = scene_enter((order_operation){.name = "replay that shares an array",
                                                        .stream = STREAM_TWO,
                                                        .flags = ORDER_BLOCKS,
                                                        .graph = GRAPH_FORMS,
                                                        .reads = scene_set(&s->x)},
                                      BY_FORMS, SCENE_FORMS_KERNELS);
  vyc_replay *replay = s->forms.beside != NULL ? s->forms.beside : s->forms.replay;
  s->forms.y_given[number] = s->forms.addresses[place];
  vyc_status status = vyc_replay_launch(replay, &value, 1, s->two);
  if (status == VYC_OK) status = vyc_stream_synchronize(s->two);
  scene_leave(number, status);
}

/* The first thread makes one array of both symbols, the second has `x` stand for another one. */
void operate_forms_set(uint32_t thread) {
  scene *s = the_scene();
  vyc_symbol_value values[SCENE_FORMS_SYMBOLS];
  const uint32_t x = thread % 2 == 0, y = thread % 2 == 0 ? 2 : 0;
  const uint32_t number = scene_enter(
      (order_operation){.name = "set of shared arrays", .stream = ORDER_NOWHERE}, BY_ITSELF, 0);
  s->forms.numbers.writers |= UINT64_C(1) << number;
  s->forms.x_of[number] = s->forms.addresses[x];
  s->forms.y_of[number] = s->forms.addresses[y];
  scene_forms_values(values, s, number, x, y);
  const vyc_status status = vyc_replay_set(s->forms.replay, values, SCENE_FORMS_SYMBOLS);
  if (scene_is_wrong(MODEL_SETS_UNSEEN)) s->forms.replay->version -= 2;
  scene_leave(number, status);
}

/* Both forms of one that is loaded, from x to hot and within memory of its own; it is released with
 * both in flight. */
void operate_forms_made(uint32_t thread) {
  scene *s = the_scene();
  vyc_symbol_value values[SCENE_FORMS_SYMBOLS], own = {0};
  vyc_replay *made = NULL;
  (void)thread;
  const uint32_t number =
      scene_enter((order_operation){.name = "two forms loaded, launched, released",
                                    .stream = STREAM_TWO,
                                    .reads = scene_set(&s->x),
                                    .writes = scene_set(&s->hot)},
                  BY_FORMS, 2 * SCENE_FORMS_KERNELS);
  vyc_status status = vyc_replay_load(&made, NULL, 0, s->context, s->bundle, "forms", 0);
  if (status == VYC_OK) status = vyc_replay_get(made, &own, s->forms.x);
  scene_forms_values(values, s, number, 0, 0);
  values[SCENE_FORMS_X] = own;
  values[SCENE_FORMS_Y].buffer = s->hot.handle;
  if (status == VYC_OK) status = vyc_replay_launch(made, values, SCENE_FORMS_SYMBOLS, s->two);
  values[SCENE_FORMS_Y].buffer = own.buffer;
  if (status == VYC_OK) status = vyc_replay_launch(made, values, SCENE_FORMS_SYMBOLS, s->two);
  vyc_replay_release(made);
  vyc_buffer_release(own.buffer);
  scene_leave(number, status);
}

/* A launch with these values, which somebody captures; a planted defect lets it use the cell and
 * the array between merged steps that the graph itself has. */
static vyc_status launch_captured(const scene *s, const vyc_symbol_value *values, uint32_t count,
                                  vyc_stream *stream) {
  vyc_graph *graph = atomic_load(&s->forms.replay->forms[0].graph);
  if (scene_is_wrong(MODEL_SHARES_CELLS)) graph->own_count = 0;
  const vyc_status status = vyc_replay_launch(s->forms.replay, values, count, stream);
  graph->own_count = s->forms.own_count;
  return status;
}

/* A replay that others capture and run, who wait for it: from x to memory of the thread's, and from
 * there to `y`. The first thread gives the numbers, too. */
static void replay_captured(const char *name, uint32_t thread, const scene_buffer *y) {
  scene *s = the_scene();
  vyc_symbol_value values[SCENE_FORMS_SYMBOLS];
  vyc_stream *stream = NULL;
  const scene_buffer *x = &s->own[thread];
  const uint32_t first = thread % 2 == 0 ? SCENE_FORMS_NUMBERS : 0;
  if (s->closing) return;
  s->capturing++;
  const uint32_t number = scene_enter((order_operation){.name = name,
                                                        .stream = STREAM_CAPTURED + thread,
                                                        .flags = ORDER_BLOCKS,
                                                        .reads = scene_set(&s->x) | scene_set(x),
                                                        .writes = scene_set(x) | scene_set(y)},
                                      BY_FORMS, SCENE_FORMS_KERNELS);
  s->forms.x_given[number] = x->address;
  s->forms.y_given[number] = y->address;
  scene_forms_values(values, s, number, 0, 0);
  values[SCENE_FORMS_X].buffer = x->handle;
  values[SCENE_FORMS_Y].buffer = y->handle;
  vyc_status status = vyc_stream_adopt(&stream, s->context, s->captured_stream[thread]);
  model_capture_begin(s->captured_stream[thread]);
  if (status == VYC_OK)
    status = launch_captured(s, values + first, SCENE_FORMS_SYMBOLS - first, stream);
  model_capture_run(s->captured_stream[thread]);
  vyc_stream_release(stream);
  s->capturing--;
  scene_leave(number, status);
}

void operate_forms_captured(uint32_t thread) {
  replay_captured("a captured replay of merged steps", thread, &the_scene()->hot);
}

/* Where that needs the recorded steps, it makes their form. */
void operate_forms_shared_captured(uint32_t thread) {
  replay_captured("a captured replay of recorded steps", thread, &the_scene()->own[thread]);
}
