/* A graph of so many launches, each with an output of its own and the addresses descending: what
 * finishing it takes is counted from outside. `growth EMULATOR`, the number in the environment. */
#include "graph_test.h"

int main(int argc, char **argv) {
  const char *text = getenv("GROWTH_COUNT");
  CHECK(text != NULL);
  const size_t count = strtoul(text, NULL, 10);
  CHECK(count > 0);
  emulator_open(argc, argv);
  vyc_context *context = open_context();
  vyc_module *module = load_module(context);
  vyc_prepared *prepared = scale_prepared(module, COPIED);
  vyc_buffer *in = filled(context, 2.0f), **outs = calloc(count, sizeof(vyc_buffer *));
  CHECK(outs != NULL);
  for (size_t i = 0; i < count; i++) outs[i] = new_buffer(context, BYTES);
  vyc_graph *graph = new_graph(context);
  for (size_t i = count; i-- > 0;) add(graph, prepared, in, outs[i], 3.0f);
  OK(vyc_graph_finish(graph));
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  check_filled(outs[0], 6.0f);
  check_filled(outs[count - 1], 6.0f);
  vyc_graph_release(graph);
  for (size_t i = 0; i < count; i++) vyc_buffer_release(outs[i]);
  free(outs);
  vyc_buffer_release(in);
  vyc_prepared_release(prepared);
  vyc_module_release(module);
  vyc_context_release(context);
  check_nothing_lives();
  return 0;
}
