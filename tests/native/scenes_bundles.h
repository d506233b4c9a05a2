/* Scenes of what is in bundles, and of what only hosts in C call; see scenes.h. */
#ifndef SCENES_BUNDLES_H
#define SCENES_BUNDLES_H

#include <sched.h>

#include "scenes.h"

enum { COUNT = 64 };

static vyc_argument of_buffer(vyc_buffer *buffer) {
  return (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = COUNT, .buffer = buffer};
}

/* Buffers of `COUNT` floats, of which the first is 0, 1, 2, ... */
static vyc_status make_buffers(vyc_buffer **buffers, uint32_t count, vyc_context *context) {
  float x[COUNT];
  vyc_status status = VYC_OK;
  for (int i = 0; i < COUNT; i++) x[i] = (float)i;
  for (uint32_t i = 0; i < count; i++) DO(vyc_buffer_alloc(&buffers[i], context, sizeof x));
  DO(vyc_copy_in(buffers[0], 0, x, sizeof x));
end:
  return status;
}

static void release_buffers(vyc_buffer **buffers, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) vyc_buffer_release(buffers[i]);
}

/* The buffer has `factor` times 0, 1, 2, ... */
static vyc_status look_for(vyc_buffer *buffer, float factor) {
  float data[COUNT];
  const vyc_status status = vyc_copy_out(buffer, 0, data, sizeof data);
  for (int i = 0; status == VYC_OK && i < COUNT; i++) CHECK(data[i] == factor * (float)i);
  return status;
}

static vyc_status bundles(vyc_context *context) {
  enum { A = 0, OUT = 1, X = 2 };
  float x[COUNT], y[COUNT], out[COUNT];
  vyc_bundle *bundle = NULL;
  vyc_bundled_kernel *kernel = NULL;
  vyc_replay *replay = NULL;
  vyc_buffer *buffer = NULL;
  vyc_ticket *ticket = NULL;
  vyc_symbol_value found = {0};
  const uint64_t two = bits(2.0f);
  vyc_status status = VYC_OK;
  for (int i = 0; i < COUNT; i++) x[i] = y[i] = (float)i;
  const vyc_argument arguments[] = {{.kind = VYC_ARGUMENT_HOST, .count = COUNT, .data = x},
                                    {.kind = VYC_ARGUMENT_HOST, .count = COUNT, .data = y},
                                    {.kind = VYC_ARGUMENT_HOST, .count = COUNT, .result = out}};
  const vyc_run run = {.struct_size = sizeof run,
                       .argument_count = 3,
                       .scalar_count = 1,
                       .arguments = arguments,
                       .scalars = &two,
                       .timeout_ns = -1};
  DO(vyc_bundle_open(&bundle, example_path(), NULL, 0));
  DO(vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, "saxpy", 0));
  DO(vyc_bundled_kernel_run(kernel, NULL, &run));
  DO(vyc_bundled_kernel_submit(kernel, &ticket, &run));
  DO(vyc_ticket_wait(ticket, -1));
  CHECK(out[5] == 15.0f);
  DO(vyc_replay_load(&replay, NULL, 0, context, bundle, "step", 0));
  DO(vyc_buffer_alloc(&buffer, context, sizeof x));
  DO(vyc_copy_in(buffer, 0, x, sizeof x));
  const vyc_symbol_value values[] = {{.symbol = X, .buffer = buffer, .count = COUNT},
                                     {.symbol = A, .bits = bits(4.0f)}};
  DO(vyc_replay_launch(replay, values, 2, NULL));
  DO(vyc_replay_set(replay, values, 1));
  DO(vyc_replay_launch(replay, NULL, 0, NULL));
  DO(vyc_replay_launch(replay, values + 1, 1, NULL));
  DO(vyc_replay_get(replay, &found, OUT));
  DO(vyc_copy_out(found.buffer, found.offset, out, sizeof out));
  CHECK(out[5] == 2.5f * (4.0f * 5.0f + 5.0f));
end:
  vyc_buffer_release(found.buffer);
  vyc_ticket_release(ticket);
  vyc_buffer_release(buffer);
  vyc_replay_release(replay);
  vyc_bundled_kernel_release(kernel);
  vyc_bundle_release(bundle);
  return status;
}

/* A graph that is one launch of rows, with other arrays for its symbols; and its other form, for
 * arrays that share memory: there a row reads what another one has written. */
static vyc_status replays_of_rows(vyc_context *context) {
  enum { X, Y, Z, OTHER, BUFFERS, SYMBOLS = 3, LAUNCHES = 4 };
  vyc_bundle *bundle = NULL;
  vyc_replay *replay = NULL;
  vyc_buffer *buffers[BUFFERS] = {NULL};
  vyc_symbol_value values[SYMBOLS];
  uint32_t graph = 0;
  vyc_status status = VYC_OK;
  DO(make_buffers(buffers, BUFFERS, context));
  DO(vyc_bundle_open(&bundle, path_beside("table.vyre"), NULL, 0));
  DO(vyc_bundle_graph_find(bundle, &graph, "table"));
  for (uint32_t i = 0; i < SYMBOLS; i++) {
    static const char *const names[] = {"x", "y", "z"};
    values[i] = (vyc_symbol_value){.buffer = buffers[i], .count = COUNT};
    DO(vyc_bundle_symbol_find(bundle, &values[i].symbol, graph, names[i]));
  }
  DO(vyc_replay_load(&replay, NULL, 0, context, bundle, "table", 0));
  DO(vyc_replay_launch(replay, NULL, 0, NULL));
  for (int turn = 0; turn < LAUNCHES; turn++) {
    values[Z].buffer = buffers[turn % 2 ? OTHER : Z];
    DO(vyc_replay_launch(replay, values, SYMBOLS, NULL));
    DO(look_for(buffers[Y], 3.0f));
    DO(look_for(values[Z].buffer, 2.0f));
  }
  DO(vyc_replay_set(replay, values, SYMBOLS));
  values[Y].buffer = buffers[X];
  DO(vyc_replay_launch(replay, &values[Y], 1, NULL));
  DO(look_for(buffers[X], 3.0f));
  DO(look_for(values[Z].buffer, 4.0f));
end:
  vyc_replay_release(replay);
  vyc_bundle_release(bundle);
  release_buffers(buffers, BUFFERS);
  return status;
}

/* Launches of a bundled kernel: alone, of rows, and of rows on a stream. */
static vyc_status launches_of_bundles(vyc_context *context) {
  enum { ROWS = 4 };
  vyc_bundle *bundle = NULL;
  vyc_bundled_kernel *kernel = NULL;
  vyc_stream *stream = NULL;
  vyc_buffer *buffers[1 + ROWS] = {NULL};
  vyc_argument arguments[ROWS][3];
  uint64_t scalars[ROWS];
  vyc_status status = VYC_OK;
  DO(make_buffers(buffers, 1 + ROWS, context));
  DO(vyc_stream_create(&stream, context));
  DO(vyc_bundle_open(&bundle, path_beside("table.vyre"), NULL, 0));
  DO(vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, "saxpy", 0));
  for (uint32_t i = 0; i < ROWS; i++) {
    arguments[i][0] = arguments[i][1] = of_buffer(buffers[0]);
    arguments[i][2] = of_buffer(buffers[1 + i]);
    scalars[i] = bits((float)i);
  }
  vyc_run run = {.struct_size = sizeof run,
                 .argument_count = 3,
                 .scalar_count = 1,
                 .arguments = arguments[2],
                 .scalars = &scalars[2],
                 .timeout_ns = -1};
  DO(vyc_bundled_kernel_launch(kernel, &run));
  DO(look_for(buffers[3], 3.0f));
  vyc_rows rows = {.struct_size = sizeof rows,
                   .count = ROWS,
                   .argument_count = 3,
                   .scalar_count = 1,
                   .arguments = arguments[0],
                   .scalars = scalars};
  for (int turn = 0; turn < 3; turn++) {
    rows.stream = turn == 2 ? stream : NULL;
    DO(vyc_bundled_kernel_launch_many(kernel, &rows));
  }
  for (uint32_t i = 0; i < ROWS; i++) DO(look_for(buffers[1 + i], 1.0f + (float)i));
end:
  vyc_bundled_kernel_release(kernel);
  vyc_bundle_release(bundle);
  release_buffers(buffers, 1 + ROWS);
  vyc_stream_release(stream);
  return status;
}

/* A worker of a bundle: calls with buffers and with host arrays, and one that is left alone. */
static vyc_status workers_of_bundles(vyc_context *context) {
  enum { ADD, SAXPY, KERNELS, BUFFERS = 2 };
  float in[COUNT], out[COUNT];
  vyc_bundle *bundle = NULL;
  vyc_worker *worker = NULL;
  vyc_bundled_kernel *kernels[KERNELS] = {NULL};
  vyc_ticket *ticket = NULL, *dropped = NULL;
  vyc_buffer *buffers[BUFFERS] = {NULL};
  const uint64_t three = bits(3.0f);
  const vyc_worker_desc desc = {
      .struct_size = sizeof desc, .idle_ns = 20000000, .busy_ns = 2000000, .first = 5};
  vyc_status status = VYC_OK;
  for (int i = 0; i < COUNT; i++) in[i] = (float)i;
  DO(make_buffers(buffers, BUFFERS, context));
  DO(vyc_bundle_open(&bundle, path_beside("worker.vyre"), NULL, 0));
  DO(vyc_bundled_worker_load(&worker, kernels, KERNELS, context, bundle, "adding", &desc));
  const vyc_argument on_device[] = {of_buffer(buffers[0]), of_buffer(buffers[0]),
                                    of_buffer(buffers[1])};
  const vyc_argument on_host[] = {{.kind = VYC_ARGUMENT_HOST, .count = COUNT, .data = in},
                                  {.kind = VYC_ARGUMENT_HOST, .count = COUNT, .data = in},
                                  {.kind = VYC_ARGUMENT_HOST, .count = COUNT, .result = out}};
  vyc_run run = {.struct_size = sizeof run,
                 .argument_count = 3,
                 .scalar_count = 1,
                 .arguments = on_device,
                 .scalars = &three,
                 .timeout_ns = -1};
  DO(vyc_bundled_kernel_resolve(kernels[SAXPY], &run));
  DO(vyc_worker_run(worker, NULL, SAXPY, &run));
  DO(look_for(buffers[1], 4.0f));
  run.arguments = on_host;
  DO(vyc_worker_submit(worker, &dropped, SAXPY, &run));
  vyc_ticket_release(dropped);
  DO(vyc_worker_submit(worker, &ticket, SAXPY, &run));
  DO(vyc_ticket_wait(ticket, -1));
  for (int i = 0; i < COUNT; i++) CHECK(out[i] == 4.0f * in[i]);
end:
  vyc_ticket_release(ticket);
  vyc_worker_release(worker);
  for (int i = 0; i < KERNELS; i++) vyc_bundled_kernel_release(kernels[i]);
  vyc_bundle_release(bundle);
  release_buffers(buffers, BUFFERS);
  return status;
}

/* Copies and fills in the order of a stream. */
static vyc_status copies_on_streams(vyc_context *context) {
  enum { BUFFERS = 3 };
  vyc_stream *stream = NULL;
  vyc_buffer *buffers[BUFFERS] = {NULL};
  vyc_pinned *pinned = NULL;
  void *locked = NULL;
  const uint64_t bytes = COUNT * sizeof(float);
  vyc_status status = VYC_OK;
  DO(make_buffers(buffers, BUFFERS, context));
  DO(vyc_stream_create(&stream, context));
  DO(vyc_pinned_alloc(&pinned, context, bytes));
  DO(vyc_pinned_data(pinned, &locked));
  DO(vyc_stream_fill(stream, buffers[1], 0, 0, 1, bytes));
  DO(vyc_stream_copy(stream, buffers[1], 4, buffers[0], 4, bytes - 4));
  DO(vyc_stream_copy_out(stream, pinned, 0, buffers[1], 0, bytes));
  DO(vyc_stream_copy_in(stream, buffers[2], 0, pinned, 0, bytes));
  DO(vyc_stream_synchronize(stream));
  DO(look_for(buffers[2], 1.0f));
end:
  vyc_pinned_release(pinned);
  vyc_stream_release(stream);
  release_buffers(buffers, BUFFERS);
  return status;
}

/* ---- notices --------------------------------------------------------------------------------- */

/* The failure of a look is on the record of the thread that looked. */
static void note_end(void *user, vyc_status status) {
  vyc_error error = {.struct_size = sizeof error};
  OK(vyc_last_error(&error));
  CHECK(status == VYC_OK || error.status == (int32_t)status);
  ++*(_Atomic int *)user;
}

/* The ends of a run, of an event and of a stream, each told once. */
static vyc_status tells_the_end(vyc_context *context) {
  static task t;
  bench b = {0};
  _Atomic int given = 0;
  vyc_stream *stream = NULL;
  vyc_event *event = NULL;
  vyc_ticket *ticket = NULL;
  int asked = 0;
  vyc_status status = VYC_OK;
  const vyc_notice notice = {
      .struct_size = sizeof notice, .fd = -1, .call = note_end, .user = &given};
  DO(bench_make(&b, context));
  DO(vyc_stream_create(&stream, context));
  prepare(&t, 2.0f);
  DO(vyc_prepared_submit(b.copied, &ticket, &t.run));
  DO(vyc_ticket_notify(ticket, &notice));
  asked++;
  DO(vyc_stream_record(stream, &event));
  DO(vyc_event_notify(event, &notice));
  asked++;
  DO(vyc_stream_notify(stream, &notice));
  asked++;
  DO(vyc_ticket_wait(ticket, -1));
  verify(&t);
end:
  while (given < asked) sched_yield();
  vyc_event_release(event);
  vyc_ticket_release(ticket);
  vyc_stream_release(stream);
  bench_end(&b);
  return status;
}

#endif
