/* The graph with two forms, and what is held against its kernels: `first` from `in` to `x`, and
 * from there to `y` by one kernel, or by two if both are one array. */
#include "scene.h"

void scene_forms_number(vyc_symbol_value values[SCENE_FORMS_NUMBERS], const scene_forms *forms,
                        uint32_t number) {
  values[0] = (vyc_symbol_value){.symbol = forms->a, .bits = number};
  values[1] = (vyc_symbol_value){.symbol = forms->b, .bits = number};
}

void scene_forms_values(vyc_symbol_value values[SCENE_FORMS_SYMBOLS], const scene *s,
                        uint32_t number, uint32_t x, uint32_t y) {
  const scene_forms *f = &s->forms;
  scene_forms_number(values, f, number);
  values[SCENE_FORMS_IN] = (vyc_symbol_value){.symbol = f->in, .buffer = s->x.handle, .count = 1};
  values[SCENE_FORMS_X] = (vyc_symbol_value){.symbol = f->x, .buffer = f->arrays[x], .count = 1};
  values[SCENE_FORMS_Y] = (vyc_symbol_value){.symbol = f->y, .buffer = f->arrays[y], .count = 1};
}

static void find_symbols(vyc_bundle *bundle, scene_forms *f) {
  uint32_t graph = 0;
  MUST(vyc_bundle_graph_find(bundle, &graph, "forms"));
  MUST(vyc_bundle_symbol_find(bundle, &f->in, graph, "in"));
  MUST(vyc_bundle_symbol_find(bundle, &f->x, graph, "x"));
  MUST(vyc_bundle_symbol_find(bundle, &f->y, graph, "y"));
  MUST(vyc_bundle_symbol_find(bundle, &f->a, graph, "a"));
  MUST(vyc_bundle_symbol_find(bundle, &f->b, graph, "b"));
}

static void make(const scene *s, vyc_replay **replay_out) {
  vyc_symbol_value values[SCENE_FORMS_SYMBOLS];
  MUST(vyc_replay_load(replay_out, NULL, 0, s->context, s->bundle, "forms", 0));
  scene_forms_values(values, s, 0, 0, 2);
  MUST(vyc_replay_set(*replay_out, values, SCENE_FORMS_SYMBOLS));
}

void scene_make_forms(scene *s) {
  scene_forms *f = &s->forms;
  find_symbols(s->bundle, f);
  for (uint32_t i = 0; i < 3; i++) {
    MUST(vyc_buffer_alloc(&f->arrays[i], s->context, ORDER_BUFFER_BYTES));
    MUST(vyc_buffer_address(f->arrays[i], &f->addresses[i]));
  }
  make(s, &f->replay);
  for (int i = 0; i < 2; i++) MUST(vyc_replay_launch(f->replay, NULL, 0, s->one));
  if (scene_is_wrong(MODEL_FORMS_APART)) make(s, &f->beside);
  f->x_of[0] = f->addresses[0];
  f->y_of[0] = f->addresses[2];
}

void scene_release_forms(scene *s) {
  vyc_replay_release(s->forms.replay);
  vyc_replay_release(s->forms.beside);
  for (uint32_t i = 0; i < 3; i++) vyc_buffer_release(s->forms.arrays[i]);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static void check_array(const scene *s, const model_kernel *kernel, const char *symbol,
                        uint64_t expected) {
  const uint32_t number = kernel->operation;
  if (expected != 0 && kernel->out != expected)
    explorer_fail("%s (%u) is launched with the numbers of %lu, with another array as %s",
                  s->order.list[number].name, number, (unsigned long)kernel->value, symbol);
}

static void first_given(scene *s, const model_kernel *kernel) {
  const uint32_t number = kernel->operation;
  order_check_register(&s->order, &s->forms.numbers, number, kernel->value, "the symbols a and b");
  s->graph_value[number] = kernel->value;
  s->forms.first[number] = kernel->out;
  check_array(s, kernel, "x", s->forms.x_of[kernel->value]);
  if (kernel->of_graph > SCENE_FORMS_FEWEST && s->kernels[number] == SCENE_FORMS_FEWEST)
    s->kernels[number] = kernel->of_graph;
}

static void last_given(const scene *s, const model_kernel *kernel) {
  const scene_forms *f = &s->forms;
  const uint32_t number = kernel->operation;
  const bool is_merged = kernel->of_graph == SCENE_FORMS_FEWEST;
  const uint64_t given = f->y_given[number];
  check_array(s, kernel, "y", given != 0 ? given : f->y_of[kernel->value]);
  if (is_merged && kernel->out == f->first[number])
    explorer_fail("%s (%u) runs merged steps with arrays that are one", s->order.list[number].name,
                  number);
  if (!is_merged && kernel->out != f->first[number])
    explorer_fail("%s (%u) runs the recorded steps with arrays that are apart",
                  s->order.list[number].name, number);
}

void scene_forms_given(scene *s, const model_kernel *kernel) {
  const uint32_t number = kernel->operation;
  if (kernel->number == 0) first_given(s, kernel);
  if (kernel->value != s->graph_value[number])
    explorer_fail("%s (%u) has the numbers %lu and %lu, which are set together",
                  s->order.list[number].name, number, (unsigned long)s->graph_value[number],
                  (unsigned long)kernel->value);
  if (kernel->number + 1 == kernel->of_graph) last_given(s, kernel);
}
