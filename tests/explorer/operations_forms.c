/* A graph of a bundle with two forms: its merged steps, and the recorded ones where arrays that
 * were apart are one. */
#include "operations.h"
#include "scene.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion" /* of which the library is not free */
#include "bundle_device/room.h"
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
                                      BY_FORMS, SCENE_FORMS_FEWEST);
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
                                      BY_FORMS, SCENE_FORMS_FEWEST);
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
                  BY_FORMS, 2 * SCENE_FORMS_FEWEST + 1);
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
