/* Scenes of runs, launches, streams and waits; see scenes.h. */
#ifndef SCENES_WORK_H
#define SCENES_WORK_H

#include "scenes.h"

/* ---- runs ------------------------------------------------------------------------------------ */

static vyc_status runs(vyc_context *context) {
  static task t;
  bench b = {0};
  vyc_pinned *pinned = NULL;
  void *locked = NULL;
  vyc_timing timing = {.struct_size = sizeof timing};
  const uint64_t fine = 0, bad = 1;
  vyc_run judged = judge_run(&fine);
  vyc_status status = VYC_OK;
  DO(bench_make(&b, context));
  vyc_prepared *const prepared[] = {b.streamed, b.copied};
  for (size_t i = 0; i < 2; i++) {
    prepare(&t, 2.0f);
    DO(vyc_prepared_run(prepared[i], NULL, &t.run));
    verify(&t);
    prepare(&t, 3.0f);
    t.run.timing_out = &timing;
    DO(vyc_prepared_run(prepared[i], NULL, &t.run));
    verify(&t);
  }
  DO(vyc_pinned_alloc(&pinned, context, BYTES));
  DO(vyc_pinned_data(pinned, &locked));
  prepare(&t, 4.0f);
  t.arguments[1] =
      (vyc_argument){.kind = VYC_ARGUMENT_PINNED, .count = N, .result = locked, .pinned = pinned};
  DO(vyc_prepared_run(b.streamed, NULL, &t.run));
  CHECK(((float *)locked)[1] == 4.0f * t.in[1]);
  prepare(&t, 5.0f);
  t.arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = N, .buffer = b.in};
  DO(vyc_prepared_run(b.streamed, NULL, &t.run));
  CHECK(t.out[1] == 5.0f);
  DO(vyc_prepared_run(b.judge, NULL, &judged));
  judged.scalars = &bad;
  status = vyc_prepared_run(b.judge, NULL, &judged);
  if (status == VYC_E_ASSERT) status = VYC_OK;
end:
  vyc_pinned_release(pinned);
  bench_end(&b);
  return status;
}

static vyc_status submits(vyc_context *context) {
  enum { FLIGHTS = 4 };
  static task tasks[FLIGHTS];
  vyc_ticket *tickets[FLIGHTS] = {NULL};
  bench b = {0};
  vyc_status status = VYC_OK;
  DO(bench_make(&b, context));
  for (int i = 0; i < FLIGHTS; i++) {
    prepare(&tasks[i], (float)i);
    DO(vyc_prepared_submit(b.copied, &tickets[i], &tasks[i].run));
  }
  vyc_ticket_release(tickets[1]);
  tickets[1] = NULL;
  for (int i = 0; i < FLIGHTS; i++) {
    if (tickets[i] == NULL) continue;
    DO(vyc_ticket_wait(tickets[i], -1));
    verify(&tasks[i]);
  }
end:
  for (int i = 0; i < FLIGHTS; i++) vyc_ticket_release(tickets[i]);
  bench_end(&b);
  return status;
}

/* Pageable arrays that cross in chunks, of which the kernel touches the beginning. */
static vyc_status runs_large(vyc_context *context) {
  enum { MANY = (1 << 18) + 3, TOUCHED = 512 };
  static float in[MANY], out[MANY];
  static task t;
  vyc_ticket *ticket = NULL, *dropped = NULL;
  bench b = {0};
  vyc_status status = VYC_OK;
  DO(bench_make(&b, context));
  vyc_prepared *const prepared[] = {b.streamed, b.copied};
  prepare(&t, 3.0f);
  for (uint32_t i = 0; i < MANY; i++) in[i] = (float)i;
  t.arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = MANY, .data = in};
  t.arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = MANY, .result = out};
  t.run.grid[0] = TOUCHED / 128;
  for (size_t turn = 0; turn < 2; turn++) {
    memset(out, 1, sizeof out);
    DO(vyc_prepared_run(prepared[turn], NULL, &t.run));
    DO(vyc_prepared_submit(prepared[turn], &dropped, &t.run));
    vyc_ticket_release(dropped);
    DO(vyc_prepared_submit(prepared[turn], &ticket, &t.run));
    DO(vyc_ticket_wait(ticket, -1));
    vyc_ticket_release(ticket);
    ticket = NULL;
    for (uint32_t i = 0; i < MANY; i++) CHECK(out[i] == (i < TOUCHED ? 3.0f * in[i] : 0.0f));
  }
end:
  vyc_ticket_release(ticket);
  bench_end(&b);
  return status;
}

/* A wait that ends before its run does. */
static vyc_status runs_on(vyc_context *context) {
  static task t;
  bench b = {0};
  vyc_ticket *ticket = NULL;
  vyc_status status = VYC_OK;
  DO(bench_make(&b, context));
  prepare(&t, 2.0f);
  t.run.timeout_ns = 0;
  CHECK(emulator_set("delay_us", 2000) == 0);
  status = vyc_prepared_run(b.streamed, &ticket, &t.run);
  CHECK(status != VYC_OK && (ticket == NULL) == (status != VYC_E_TIMEOUT));
  if (ticket == NULL) goto end;
  DO(vyc_ticket_wait(ticket, -1));
  verify(&t);
end:
  CHECK(emulator_set("delay_us", 0) == 0);
  vyc_ticket_release(ticket);
  bench_end(&b);
  return status;
}

/* ---- launches and streams -------------------------------------------------------------------- */

static vyc_status launches(vyc_context *context) {
  task t;
  bench b = {0};
  vyc_stream *stream = NULL;
  vyc_call *call = NULL, *other = NULL;
  const uint64_t fine = 0;
  const vyc_run judged = judge_run(&fine);
  vyc_status status = VYC_OK;
  DO(bench_make(&b, context));
  DO(vyc_stream_create(&stream, context));
  for (int turn = 0; turn < 6; turn++) {
    prepare(&t, (float)turn);
    on_buffers(&t, b.in, b.out);
    t.run.stream = turn < 3 ? NULL : stream;
    DO(vyc_prepared_launch(b.streamed, &t.run));
  }
  DO(look_at(b.out, 5.0f));
  DO(vyc_call_create(&call, b.streamed, &t.run)); /* on the stream */
  DO(vyc_call_run(call));
  prepare(&t, 6.0f);
  on_buffers(&t, b.in, b.out);
  DO(vyc_call_create(&other, b.copied, &t.run));
  DO(vyc_call_run(other));
  t.scalar = bits(7.0f);
  DO(vyc_call_set(other, &t.run));
  DO(vyc_call_run(other));
  t.scalar = bits(8.0f);
  DO(vyc_call_set_run(other, &t.run));
  DO(look_at(b.out, 8.0f));
  DO(vyc_prepared_launch(b.judge, &judged));
  DO(vyc_context_synchronize(context));
end:
  vyc_call_release(call);
  vyc_call_release(other);
  vyc_stream_release(stream);
  bench_end(&b);
  return status;
}

/* Buffers and page-locked memory are given up with work on them, on more streams than have numbers.
 */
static vyc_status drops(vyc_context *context) {
  enum { STREAMS = 66 };
  vyc_stream *streams[STREAMS] = {NULL};
  vyc_event *start = NULL, *stop = NULL;
  vyc_fence *fence = NULL;
  bench b = {0};
  task t;
  float milliseconds = 0;
  vyc_status status = VYC_OK;
  DO(bench_make(&b, context));
  for (int i = 0; i < STREAMS; i++) DO(vyc_stream_create(&streams[i], context));
  DO(vyc_stream_record(streams[0], &start));
  for (int i = 0; i < STREAMS; i += 13) {
    prepare(&t, 1.0f);
    on_buffers(&t, b.in, b.out);
    t.run.stream = streams[i];
    DO(vyc_prepared_launch(b.streamed, &t.run));
    DO(vyc_stream_wait(streams[(i + 13) % STREAMS], start));
  }
  vyc_buffer_release(b.out);
  b.out = NULL;
  DO(vyc_buffer_alloc(&b.out, context, BYTES));
  DO(vyc_stream_record(streams[0], &stop));
  DO(vyc_fence_create(&fence, context));
  DO(vyc_fence_wait(fence, -1));
  DO(vyc_event_synchronize(stop));
  DO(vyc_event_elapsed(stop, &milliseconds, start));
  DO(vyc_stream_synchronize(streams[STREAMS - 1]));
end:
  vyc_fence_release(fence);
  vyc_event_release(start);
  vyc_event_release(stop);
  for (int i = 0; i < STREAMS; i++) vyc_stream_release(streams[i]);
  bench_end(&b);
  return status;
}

/* Work that outlasts the looks without a sleep. */
static vyc_status waits(vyc_context *context) {
  bench b = {0};
  task t;
  vyc_stream *stream = NULL;
  vyc_status status = VYC_OK;
  DO(bench_make(&b, context));
  DO(vyc_stream_create(&stream, context));
  prepare(&t, 2.0f);
  on_buffers(&t, b.in, b.out);
  CHECK(emulator_set("delay_us", 6000) == 0);
  for (int turn = 0; turn < 3; turn++) {
    t.run.stream = turn == 0 ? NULL : stream;
    DO(vyc_prepared_launch(b.streamed, &t.run));
    if (turn == 0) DO(vyc_context_synchronize(context));
    if (turn == 1) DO(vyc_stream_synchronize(stream));
  }
  CHECK(emulator_set("delay_us", 0) == 0);
  DO(look_at(b.out, 2.0f));
end:
  CHECK(emulator_set("delay_us", 0) == 0);
  vyc_stream_release(stream);
  bench_end(&b);
  return status;
}

static void count_drop(void *drops) { ++*(int *)drops; }

static vyc_status shares(vyc_context *context) {
  bench b = {0};
  task t;
  vyc_stream *legacy = NULL, *own = NULL;
  vyc_buffer *adopted = NULL;
  uint64_t address = 0;
  int dropped = 0, given = 0;
  vyc_status status = VYC_OK;
  DO(bench_make(&b, context));
  DO(vyc_stream_adopt(&legacy, context, 0));
  DO(vyc_stream_create(&own, context));
  DO(vyc_buffer_address(b.out, &address));
  const vyc_foreign_memory memory = {.struct_size = sizeof memory,
                                     .address = address,
                                     .bytes = BYTES,
                                     .source = legacy,
                                     .drop = count_drop,
                                     .owner = &dropped};
  DO(vyc_buffer_adopt(&adopted, context, &memory));
  given = 1;
  for (int turn = 0; turn < 4; turn++) {
    prepare(&t, (float)turn);
    on_buffers(&t, b.in, adopted);
    t.run.stream = turn % 2 ? legacy : own;
    DO(vyc_prepared_launch(b.streamed, &t.run));
    DO(vyc_buffer_order(adopted, own));
  }
  DO(look_at(adopted, 3.0f));
  DO(vyc_buffer_export(b.in));
  vyc_buffer_release(b.in);
  DO(vyc_stream_synchronize(legacy));
end:
  vyc_buffer_release(adopted);
  CHECK(dropped == given); /* once, and never of memory that was not adopted */
  vyc_stream_release(legacy);
  vyc_stream_release(own);
  bench_end(&b);
  return status;
}

#endif
