/* The pools of device and page-locked memory: reuse, order, budgets, shortage, failing driver
 * calls.
 */
#include "pool_test.h"

/* ---- reuse ----------------------------------------------------------------------------------- */

static void what_a_thread_gave_it_takes_back_without_the_driver(int kind) {
  vyc_context *context = open_context();
  for (size_t i = 0; i < SIZE_COUNT; i++) {
    const piece first = new_piece(kind, context, SIZES[i]);
    end_piece(&first);
    const uint64_t calls = kind == DEVICE ? count_of("calls") : 0;
    const int small = SIZES[i] < MIB; /* the rest is more than a magazine here holds */
    const piece again = new_piece(kind, context, SIZES[i]);
    if (kind == DEVICE && small) CHECK(count_of("calls") == calls);
    CHECK(again.data == first.data);
    end_piece(&again);
  }
  const stats s = read_stats(kind, context);
  CHECK(s.hits >= SIZE_COUNT && s.misses <= SIZE_COUNT && s.frees == 0);
  CHECK(s.live == 0 && s.count == 0 && s.peak == 8 * MIB);
  OK(vyc_context_trim(context));
  const stats t = read_stats(kind, context);
  CHECK(t.idle == 0 && t.frees == t.misses && t.hits == s.hits);
  end_context(context);
}

/* More blocks of one size, and more sizes, than a magazine holds. */
static void every_idle_block_is_found_again(int kind) {
  enum { COUNT = 100 };
  piece pieces[COUNT];
  vyc_context *context = open_context();
  set_budget(kind, context, 1024 * MIB);
  for (int round = 0; round < 3; round++) {
    for (uint64_t i = 0; i < COUNT; i++) {
      const uint64_t bytes = i % 2 == 0 ? 1000 : (i + 1) * MIB / 16;
      pieces[i] = new_piece(kind, context, bytes);
      memset(pieces[i].data, (int)i, bytes);
    }
    for (uint64_t i = 0; i < COUNT; i++) {
      CHECK(pieces[i].data[0] == i && pieces[i].data[pieces[i].bytes - 1] == i);
      end_piece(&pieces[i]);
    }
  }
  const stats s = read_stats(kind, context);
  CHECK(s.misses == COUNT && s.hits == 2 * COUNT && s.idle == s.peak && s.live == 0);
  end_context(context);
}

/* ---- order ----------------------------------------------------------------------------------- */

static void launch_on(vyc_prepared *prepared, const piece *in, const piece *out,
                      vyc_stream *stream) {
  task t;
  prepare(&t, 2.0f);
  on_buffers(&t, in->buffer, out->buffer);
  t.run.stream = stream;
  OK(vyc_prepared_launch(prepared, &t.run));
}

/* In lazy mode a question moves a stream on by one operation, so the first answer is "not yet". */
static void a_block_is_reused_behind_every_stream_that_used_it(void) {
  const scene s = begin_scene(LAZY);
  vyc_stream *streams[2] = {new_stream(s.context), new_stream(s.context)};
  piece in = new_piece(DEVICE, s.context, N * 4), out = new_piece(DEVICE, s.context, N * 4);
  OK(vyc_fill_zero(in.buffer, 0, N * 4));
  for (int i = 0; i < 8; i++) launch_on(s.prepared, &in, &out, streams[i % 2]);
  const uint64_t looks = count_of("cuStreamQuery");
  end_piece(&out);
  const piece other = new_piece(DEVICE, s.context, N * 4);
  CHECK(other.data != out.data);
  CHECK(count_of("cuStreamQuery") == looks);
  OK(vyc_stream_synchronize(streams[0]));
  const piece third = new_piece(DEVICE, s.context, N * 4);
  CHECK(third.data != out.data); /* the second stream has not passed */
  OK(vyc_stream_synchronize(streams[1]));
  const piece fourth = new_piece(DEVICE, s.context, N * 4);
  CHECK(fourth.data == out.data);
  end_piece(&in);
  end_piece(&other);
  end_piece(&third);
  end_piece(&fourth);
  for (int i = 0; i < 2; i++) vyc_stream_release(streams[i]);
  end_scene(&s);
}

/* Neither a release nor a copy looks at other streams for the sake of one that is gone. */
static void what_an_ended_stream_used_is_free_at_once(void) {
  const scene s = begin_scene(LAZY);
  vyc_stream *ended = new_stream(s.context), *busy = new_stream(s.context);
  piece in = new_piece(DEVICE, s.context, N * 4), out = new_piece(DEVICE, s.context, N * 4);
  const piece copied = new_piece(DEVICE, s.context, N * 4);
  const piece others = new_piece(DEVICE, s.context, N * 4);
  float host[N];
  OK(vyc_fill_zero(in.buffer, 0, N * 4));
  OK(vyc_context_synchronize(s.context));
  launch_on(s.prepared, &in, &out, ended);
  launch_on(s.prepared, &in, &copied, ended);
  OK(vyc_stream_synchronize(ended));
  vyc_stream_release(ended);
  const uint64_t given = count_of("cuLaunchKernel") + count_of("cuGraphLaunch");
  for (int i = 0; i < 4; i++) launch_on(s.prepared, &in, &others, busy);
  CHECK(count_of("cuLaunchKernel") + count_of("cuGraphLaunch") == given + 4);
  const uint64_t looks = count_of("cuStreamQuery");
  end_piece(&out);
  const piece next = new_piece(DEVICE, s.context, N * 4);
  CHECK(next.data == out.data);
  CHECK(count_of("cuStreamQuery") == looks);
  OK(vyc_copy_out(copied.buffer, 0, host, N * 4));
  CHECK(vyc_stream_query(busy) == VYC_NOT_READY);
  OK(vyc_stream_synchronize(busy));
  const piece *all[] = {&in, &copied, &others, &next};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) end_piece(all[i]);
  vyc_stream_release(busy);
  end_scene(&s);
}

/* ---- budgets --------------------------------------------------------------------------------- */

static void idle_memory_stays_within_the_budget(int kind) {
  vyc_context *context = open_context();
  piece pieces[8];
  set_budget(kind, context, 10 * MIB);
  for (int i = 0; i < 8; i++) pieces[i] = new_piece(kind, context, 2 * MIB);
  for (int i = 0; i < 8; i++) {
    end_piece(&pieces[i]);
    CHECK(read_stats(kind, context).idle <= 10 * MIB);
  }
  const stats s = read_stats(kind, context);
  CHECK(s.idle == 8 * MIB && s.frees == 4 && s.budget == 10 * MIB);
  for (int i = 7; i >= 4; i--) { /* those given last are still there */
    const piece p = new_piece(kind, context, 2 * MIB);
    CHECK(p.data == pieces[i].data);
    pieces[i] = p;
  }
  for (int i = 4; i < 8; i++) end_piece(&pieces[i]);
  set_budget(kind, context, 0);
  CHECK(read_stats(kind, context).idle == 0);
  const piece p = new_piece(kind, context, 100);
  end_piece(&p);
  CHECK(read_stats(kind, context).idle == 0);
  end_context(context);
}

/* What is over the budget waits for the main stream, and nobody waits with it. */
static void memory_over_the_budget_is_not_freed_under_work(void) {
  CHECK(emulator_set("stream_mode", LAZY) == 0);
  vyc_context *context = open_context();
  set_budget(DEVICE, context, 0);
  const piece p = new_piece(DEVICE, context, 1000);
  for (int i = 0; i < 8; i++) OK(vyc_fill_zero(p.buffer, 0, 1000));
  const uint64_t frees = count_of("cuMemFree"), waits = count_of("cuStreamSynchronize");
  end_piece(&p);
  CHECK(count_of("cuMemFree") == frees && count_of("cuStreamSynchronize") == waits);
  CHECK(read_stats(DEVICE, context).live == 0);
  OK(vyc_context_synchronize(context));
  CHECK(read_stats(DEVICE, context).idle == 0);
  CHECK(count_of("cuMemFree") == frees + 1);
  end_context(context);
}

/* ---- shortage -------------------------------------------------------------------------------- */

static const char *limit_of(int kind) { return kind == DEVICE ? "memory_limit" : "host_limit"; }

static void a_shortage_frees_what_is_idle_and_tries_once_more(int kind) {
  vyc_context *context = open_context();
  CHECK(emulator_set(limit_of(kind), 8 * (int64_t)MIB) == 0);
  for (uint64_t i = 0; i < 3; i++) { /* idle in the pool and in the magazine */
    const piece p = new_piece(kind, context, 1000 + i * MIB);
    end_piece(&p);
  }
  const char *const call = kind == DEVICE ? "cuMemAlloc" : "cuMemHostAlloc";
  const uint64_t before = count_of(call), queries = count_of("cuMemGetInfo");
  const piece large = new_piece(kind, context, 8 * MIB);
  CHECK(count_of(call) == before + 2 && count_of("cuMemGetInfo") == queries);
  piece none;
  CHECK(try_piece(&none, kind, context, 2 * MIB) == VYC_E_MEMORY);
  CHECK(none.data == NULL && count_of(call) == before + 4);
  vyc_error error = {.struct_size = sizeof error};
  OK(vyc_last_error(&error));
  CHECK(error.driver_result == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(strstr(error.message, "asked for 2097152 bytes, live 8388608, idle in the pool 0") != NULL);
  CHECK(read_stats(kind, context).count == 1);
  end_piece(&large);
  const piece p = new_piece(kind, context, 2 * MIB);
  end_piece(&p);
  end_context(context);
}

/* What was released under work comes back as well, once that has ended. */
static void a_shortage_waits_for_released_blocks(void) {
  const scene s = begin_scene(LAZY);
  vyc_stream *stream = new_stream(s.context);
  CHECK(emulator_set("memory_limit", 6 * (int64_t)MIB) == 0);
  const piece in = new_piece(DEVICE, s.context, 2 * MIB),
              out = new_piece(DEVICE, s.context, 2 * MIB);
  for (int i = 0; i < 4; i++) launch_on(s.prepared, &in, &out, stream);
  end_piece(&in);
  end_piece(&out);
  const piece large = new_piece(DEVICE, s.context, 6 * MIB);
  end_piece(&large);
  vyc_stream_release(stream);
  end_scene(&s);
}

/* ---- room for host arguments ----------------------------------------------------------------- */

enum { RUNS = 8, ROOM = 512 * 1024 };

/* As many runs at once, each with that many bytes in and out. */
static void burst(vyc_prepared *prepared) {
  static float in[ROOM / 4], out[RUNS * ROOM / 4];
  task t;
  vyc_ticket *tickets[RUNS];
  prepare(&t, 2.0f);
  t.run.grid[0] = ROOM / 4 / 128;
  t.arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = ROOM / 4, .data = in};
  t.arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = ROOM / 4};
  memset(out, 0, sizeof out);
  for (int i = 0; i < ROOM / 4; i++) in[i] = (float)(i + 1);
  for (int i = 0; i < RUNS; i++) {
    t.arguments[1].result = out + (size_t)i * (ROOM / 4);
    OK(vyc_prepared_submit(prepared, &tickets[i], &t.run));
  }
  for (int i = 0; i < RUNS; i++) {
    OK(vyc_ticket_wait(tickets[i], -1));
    vyc_ticket_release(tickets[i]);
  }
  for (size_t i = 0; i < RUNS * ROOM / 4; i++) CHECK(out[i] == 2.0f * in[i % (ROOM / 4)]);
}

static void a_trim_takes_the_room_of_runs_that_have_ended(void) {
  const scene s = begin_scene(LAZY); /* none ends before all are submitted */
  burst(s.prepared);
  for (int kind = 0; kind < KINDS; kind++)
    CHECK(read_stats(kind, s.context).live >= (uint64_t)RUNS * ROOM);
  OK(vyc_context_trim(s.context));
  for (int kind = 0; kind < KINDS; kind++) {
    const stats found = read_stats(kind, s.context);
    CHECK(found.live <= (uint64_t)RUNS * 256 && found.idle == 0);
  }
  burst(s.prepared);
  end_scene(&s);
}

/* Their arguments are in it. */
static void a_trim_leaves_the_room_of_runs_in_flight(void) {
  const scene s = begin_scene(LAZY);
  task t;
  vyc_ticket *ticket = NULL;
  prepare(&t, 3.0f);
  OK(vyc_prepared_submit(s.prepared, &ticket, &t.run));
  OK(vyc_context_trim(s.context));
  const piece other = new_piece(DEVICE, s.context, N * 4);
  OK(vyc_fill_zero(other.buffer, 0, N * 4));
  OK(vyc_ticket_wait(ticket, -1));
  verify(&t);
  vyc_ticket_release(ticket);
  end_piece(&other);
  end_scene(&s);
}

static void a_shortage_takes_the_room_of_runs_that_have_ended(int kind) {
  const scene s = begin_scene(LAZY);
  CHECK(emulator_set(limit_of(kind), 10 * (int64_t)MIB) == 0);
  burst(s.prepared);
  const piece large = new_piece(kind, s.context, 8 * MIB);
  end_piece(&large);
  burst(s.prepared);
  end_scene(&s);
}

/* ---- failing calls --------------------------------------------------------------------------- */

/* The last three give something back: what they refuse is lost, and counted as such from then on.
 */
static const char *const CALLS[] = {"cuMemAlloc",    "cuMemHostAlloc",      "cuEventCreate",
                                    "cuEventRecord", "cuEventQuery",        "cuStreamQuery",
                                    "cuMemGetInfo",  "cuStreamSynchronize", "cuMemFree",
                                    "cuMemFreeHost", "cuEventDestroy"};
#define CALL_COUNT (sizeof CALLS / sizeof CALLS[0])

/* Allocation, use on two streams, release under work, budget, trim; no two live blocks overlap. */
static void use_pools(vyc_context *context, vyc_prepared *prepared, vyc_stream **streams) {
  piece pieces[6];
  int have[6] = {0};
  for (int i = 0; i < 6; i++)
    have[i] = try_piece(&pieces[i], i % 2, context, i < 4 ? N * 4 : 3 * MIB) == VYC_OK;
  for (int i = 0; i < 6; i++) {
    for (int j = 0; have[i] && j < i; j++) {
      CHECK(!have[j] || pieces[i].data + pieces[i].bytes <= pieces[j].data ||
            pieces[j].data + pieces[j].bytes <= pieces[i].data);
    }
  }
  task t;
  for (int i = 0; have[0] && have[2] && i < 4; i++) {
    prepare(&t, 2.0f);
    on_buffers(&t, pieces[0].buffer, pieces[2].buffer);
    t.run.stream = streams[i % 2];
    vyc_prepared_launch(prepared, &t.run); /* may fail, as any of these */
  }
  vyc_context_set_memory_budget(context, 4 * MIB, 4 * MIB);
  for (int i = 0; i < 6; i++)
    if (have[i]) end_piece(&pieces[i]);
  vyc_context_trim(context);
}

static void any_call_may_fail(void) {
  for (size_t i = 0; i < CALL_COUNT; i++) {
    for (uint64_t nth = 1; nth <= 4; nth++) {
      vyc_context *context = open_context();
      vyc_module *module = load_module(context);
      vyc_prepared *prepared = scale_prepared(module, COPIED);
      vyc_stream *streams[2] = {new_stream(context), new_stream(context)};
      CHECK(emulator_set("stream_mode", nth % 2 == 0 ? LAZY : THREADED) == 0);
      CHECK(emulator_fail(CALLS[i], nth, CUDA_ERROR_UNKNOWN, 0) == 0);
      use_pools(context, prepared, streams);
      CHECK(emulator_reset() == 0);
      use_pools(context, prepared, streams);
      for (int kind = 0; kind < KINDS; kind++) CHECK(read_stats(kind, context).count == 0);
      for (int j = 0; j < 2; j++) vyc_stream_release(streams[j]);
      vyc_prepared_release(prepared);
      vyc_module_release(module);
      vyc_context_release(context);
      if (i < CALL_COUNT - 3) check_nothing_lives();
    }
  }
}

/* A block that no event and no wait could vouch for is not handed out again. */
static void a_block_that_cannot_be_waited_for_is_put_aside(void) {
  const scene s = begin_scene(LAZY);
  vyc_stream *stream = new_stream(s.context);
  const piece in = new_piece(DEVICE, s.context, N * 4), out = new_piece(DEVICE, s.context, N * 4);
  launch_on(s.prepared, &in, &out, stream);
  CHECK(emulator_fail("cuEventRecord", 1, CUDA_ERROR_UNKNOWN, 1) == 0);
  CHECK(emulator_fail("cuStreamQuery", 1, CUDA_ERROR_UNKNOWN, 1) == 0);
  end_piece(&out);
  CHECK(emulator_reset() == 0);
  CHECK(emulator_set("stream_mode", LAZY) == 0);
  const stats found = read_stats(DEVICE, s.context);
  CHECK(found.count == 1 && found.idle == 0);
  const piece other = new_piece(DEVICE, s.context, N * 4);
  CHECK(other.data != out.data);
  end_piece(&in);
  end_piece(&other);
  vyc_stream_release(stream);
  end_scene(&s);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  for (int kind = 0; kind < KINDS; kind++) {
    what_a_thread_gave_it_takes_back_without_the_driver(kind);
    every_idle_block_is_found_again(kind);
    idle_memory_stays_within_the_budget(kind);
    a_shortage_frees_what_is_idle_and_tries_once_more(kind);
    a_shortage_takes_the_room_of_runs_that_have_ended(kind);
  }
  a_block_is_reused_behind_every_stream_that_used_it();
  what_an_ended_stream_used_is_free_at_once();
  memory_over_the_budget_is_not_freed_under_work();
  a_shortage_waits_for_released_blocks();
  a_trim_takes_the_room_of_runs_that_have_ended();
  a_trim_leaves_the_room_of_runs_in_flight();
  a_block_that_cannot_be_waited_for_is_put_aside();
  any_call_may_fail();
  puts("pool: passed");
  return 0;
}
