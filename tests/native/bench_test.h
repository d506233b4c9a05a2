/* What the programs about messages of launches share: a context with a run of scale on two buffers.
 * Nothing of it is launched, or left. */
#ifndef BENCH_TEST_H
#define BENCH_TEST_H

#include "dispatch_test.h"

typedef struct bench {
  vyc_context *context;
  vyc_module *module;
  vyc_buffer *in, *out;
  task task;
} bench;

/* The context is the bench's from here on. */
UNUSED static void set_up_on(bench *b, vyc_context *context, float a) {
  b->context = context;
  b->module = load_module(b->context);
  b->in = new_buffer(b->context, N * 4);
  b->out = new_buffer(b->context, N * 4);
  prepare(&b->task, a);
  on_buffers(&b->task, b->in, b->out);
}

UNUSED static void set_up(bench *b, float a) { set_up_on(b, open_context(), a); }

UNUSED static void tear_down(bench *b) {
  emulator_set("stream_mode", EAGER);
  vyc_buffer_release(b->in);
  vyc_buffer_release(b->out);
  vyc_module_release(b->module);
  vyc_context_release(b->context);
  check_nothing_lives();
}

#endif
