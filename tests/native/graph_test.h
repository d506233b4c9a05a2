/* What the tests of recorded graphs share: a place with prepared kernels to record, steps, and how
 * a graph came out. */
#ifndef GRAPH_TEST_H
#define GRAPH_TEST_H

#include "dispatch_test.h"

typedef struct place {
  vyc_context *context;
  vyc_prepared *prepared;   /* out = a * in */
  vyc_prepared *sparse; /* the same, not known to write every element */
} place;

UNUSED static float first_of(vyc_buffer *buffer) {
  float host[N];
  OK(vyc_copy_out(buffer, 0, host, BYTES));
  for (uint32_t i = 1; i < N; i++) CHECK(host[i] == host[0]);
  return host[0];
}

UNUSED static uint32_t add(vyc_graph *graph, vyc_prepared *prepared, vyc_buffer *in,
                           vyc_buffer *out, float a) {
  task t;
  uint32_t step = 0;
  prepare(&t, a);
  on_buffers(&t, in, out);
  OK(vyc_graph_add_launch(graph, &step, prepared, &t.run));
  return step;
}

UNUSED static vyc_graph *new_graph(vyc_context *context) {
  vyc_graph *graph = NULL;
  OK(vyc_graph_create(&graph, context));
  return graph;
}

UNUSED static vyc_graph_info info_of(vyc_graph *graph) {
  vyc_graph_info info = {.struct_size = sizeof info};
  OK(vyc_graph_info_get(graph, &info));
  return info;
}

UNUSED static vyc_graph_transfer copy_of(vyc_buffer *to, vyc_buffer *from) {
  return (vyc_graph_transfer){
      .struct_size = sizeof(vyc_graph_transfer), .bytes = BYTES, .to = to, .from = from};
}

UNUSED static vyc_graph_transfer fill_of(vyc_buffer *to, float value) {
  return (vyc_graph_transfer){.struct_size = sizeof(vyc_graph_transfer),
                              .element_bytes = 4,
                              .value = (uint32_t)bits(value),
                              .bytes = BYTES,
                              .to = to};
}

UNUSED static uint32_t add_transfer(vyc_graph *graph, const vyc_graph_transfer *transfer) {
  uint32_t step = 0;
  OK(vyc_graph_add_transfer(graph, &step, transfer));
  return step;
}

UNUSED static place open_place(void) {
  static const vyc_binding SPARSE[] = {{VYC_ROLE_IN, 0, 4, 0}, {VYC_ROLE_OUT, 0, 4, 0}};
  vyc_context *context = open_context();
  vyc_module *module = load_module(context);
  const place p = {context, scale_prepared(module, STREAMED), scale_prepared(module, SPARSE)};
  vyc_module_release(module);
  return p;
}

UNUSED static void close_place(const place *p) {
  vyc_prepared_release(p->prepared);
  vyc_prepared_release(p->sparse);
  vyc_context_release(p->context);
  check_nothing_lives();
}

#endif
