/* What the programs about claims share: everything that a launch claims, warm, on a driver that the
 * test stands in front of; and threads that use it. */
#ifndef CLAIMS_TEST_H
#define CLAIMS_TEST_H

#include "dispatch_test.h"

static struct {
  vyc_context *context;
  vyc_module *module;
  vyc_prepared *prepared;
  vyc_buffer *in, *out;
  task t; /* on the context's own stream */
  vyc_call *call;
  vyc_graph *graph;
} s;

/* The driver is given up. */
static void set_up_on(vyc_driver *driver) {
  OK(vyc_context_open(&s.context, driver, 0));
  vyc_driver_release(driver);
  s.module = load_module(s.context);
  s.prepared = scale_prepared(s.module, STREAMED);
  s.in = filled(s.context, 1.0f);
  s.out = new_buffer(s.context, BYTES);
  prepare(&s.t, 2.0f);
  on_buffers(&s.t, s.in, s.out);
  OK(vyc_call_create(&s.call, s.prepared, &s.t.run));
  uint32_t step = 0;
  OK(vyc_graph_create(&s.graph, s.context));
  OK(vyc_graph_add_launch(s.graph, &step, s.prepared, &s.t.run));
  OK(vyc_graph_finish(s.graph));
  for (int i = 0; i < 2; i++) {
    OK(vyc_call_run(s.call));
    OK(vyc_graph_launch(s.graph, NULL, 0, NULL));
  }
}

static void tear_down(void) {
  vyc_call_release(s.call);
  vyc_graph_release(s.graph);
  vyc_buffer_release(s.in);
  vyc_buffer_release(s.out);
  vyc_prepared_release(s.prepared);
  vyc_module_release(s.module);
  vyc_context_release(s.context);
  check_nothing_lives();
}

static void *run_call(void *unused) {
  OK(vyc_call_run(s.call));
  return unused;
}
static void *rebind_call(void *unused) {
  OK(vyc_call_set_run(s.call, &s.t.run));
  return unused;
}
static void *launch_graph(void *unused) {
  OK(vyc_graph_launch(s.graph, NULL, 0, NULL));
  return unused;
}

#endif
