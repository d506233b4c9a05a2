/* The graph with two forms, and what is held against its kernels: `first` from `in` to `x`, and
 * from there to `y` by one kernel, or by two if both are one array. One kernel finds its number,
 * and that of `first`, in a cell, which another one has written. */
#include "scene.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion" /* of which the library is not free */
#include "bundle_device/room.h"
#include "graph/graph.h"
#pragma GCC diagnostic pop

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
  f->own_count = atomic_load(&f->replay->forms[0].graph)->own_count;
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
                        uint64_t given, const uint64_t *set) {
  const uint32_t number = kernel->operation;
  const uint64_t value = s->graph_value[number];
  const uint64_t expected = given != 0 ? given : set[value];
  if (expected != 0 && kernel->out != expected)
    explorer_fail("%s (%u) is launched with the numbers of %lu, with another array as %s",
                  s->order.list[number].name, number, (unsigned long)value, symbol);
}

static void first_given(scene *s, const model_kernel *kernel) {
  scene_forms *f = &s->forms;
  const uint32_t number = kernel->operation;
  f->first[number] = kernel->out;
  check_array(s, kernel, "x", f->x_given[number], f->x_of);
}

static void last_given(const scene *s, const model_kernel *kernel) {
  const scene_forms *f = &s->forms;
  const uint32_t number = kernel->operation;
  const bool is_merged = kernel->cell != 0;
  check_array(s, kernel, "y", f->y_given[number], f->y_of);
  if (is_merged && kernel->out == f->first[number])
    explorer_fail("%s (%u) runs merged steps with arrays that are one", s->order.list[number].name,
                  number);
  if (!is_merged && kernel->out != f->first[number])
    explorer_fail("%s (%u) runs the recorded steps with arrays that are apart",
                  s->order.list[number].name, number);
}

/* Merged steps begin with the kernel that writes the cell. */
void scene_forms_given(scene *s, const model_kernel *kernel) {
  const uint32_t number = kernel->operation;
  if (kernel->number == 0) {
    order_check_register(&s->order, &s->forms.numbers, number, kernel->value,
                         "the symbols a and b");
    s->graph_value[number] = kernel->value;
  }
  if (kernel->has_value && kernel->value != s->graph_value[number])
    explorer_fail("%s (%u) has the numbers %lu and %lu, which are set together",
                  s->order.list[number].name, number, (unsigned long)s->graph_value[number],
                  (unsigned long)kernel->value);
  if (!kernel->writes_cell && kernel->number == (kernel->cell != 0)) first_given(s, kernel);
  if (kernel->number + 1 == kernel->of_graph) last_given(s, kernel);
}

void scene_forms_read(const scene *s, const model_kernel *kernel) {
  const uint32_t number = kernel->operation;
  const uint64_t found = model_read(kernel->cell);
  if (number != 0 && found != s->graph_value[number])
    explorer_fail("%s (%u) finds %lu in a cell, not %lu", s->order.list[number].name, number,
                  (unsigned long)found, (unsigned long)s->graph_value[number]);
}
