/* Streams and memory of another library: adopted, ordered with what their owner does, given back.
 * In lazy mode an order that is not enforced shows. */
#include "other_library.h"

/* ---- streams --------------------------------------------------------------------------------- */

static void one_handle_is_one_stream(vyc_context *context) {
  CUstream raw;
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  vyc_stream *first = adopted(context, raw), *again = adopted(context, raw);
  vyc_stream *own = new_stream(context);
  uint64_t handle = 0;
  CHECK(first == again);
  OK(vyc_stream_handle(first, &handle));
  CHECK(handle == (uint64_t)(uintptr_t)raw);
  OK(vyc_stream_handle(own, &handle));
  vyc_stream *same = adopted(context, (CUstream)(uintptr_t)handle);
  CHECK(same == own);
  vyc_stream *legacy = adopted(context, NULL), *one = adopted(context, CU_STREAM_LEGACY);
  CHECK(legacy == one && legacy != first);
  vyc_stream *all[] = {first, again, own, same, legacy, one};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) vyc_stream_release(all[i]);
  CU(cu.stream_destroy(raw));
}

/* Also where streams have no numbers left. */
static void one_handle_is_one_stream_beside_many(vyc_context *context) {
  enum { MANY = 70 };
  vyc_stream *many[MANY];
  CUstream raw;
  for (int i = 0; i < MANY; i++) many[i] = new_stream(context);
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  vyc_stream *first = adopted(context, raw), *again = adopted(context, raw);
  uint64_t handle = 0;
  CHECK(first == again);
  OK(vyc_stream_handle(many[MANY - 1], &handle));
  vyc_stream *same = adopted(context, (CUstream)(uintptr_t)handle);
  CHECK(same == many[MANY - 1]);
  vyc_stream_release(first);
  vyc_stream_release(again);
  vyc_stream_release(same);
  for (int i = 0; i < MANY; i++) vyc_stream_release(many[i]);
  CU(cu.stream_destroy(raw));
}

/* Fills that the stream was given before, and copies it is given after, by its owner. */
static void a_launch_keeps_the_order_of_the_stream(vyc_context *context, vyc_prepared *prepared) {
  CUstream raws[3] = {NULL, CU_STREAM_PER_THREAD, NULL};
  CU(cu.stream_create(&raws[2], CU_STREAM_NON_BLOCKING));
  for (int kind = 0; kind < 3; kind++) {
    for (int times = 1; times <= 3; times++) {
      vyc_stream *stream = adopted(context, raws[kind]);
      vyc_buffer *in = new_buffer(context, BYTES), *out = new_buffer(context, BYTES);
      uint64_t from = 0, to = 0;
      float host[N];
      OK(vyc_buffer_address(in, &from));
      OK(vyc_buffer_address(out, &to));
      CU(cu.fill((CUdeviceptr)from, pattern(2.0f), N, raws[kind]));
      for (int i = 0; i < times; i++) launch(prepared, in, out, (float)(i + 3), stream);
      CU(cu.copy_out(host, (CUdeviceptr)to, BYTES, raws[kind]));
      for (uint32_t i = 0; i < N; i++) CHECK(host[i] == 2.0f * (float)(times + 2));
      vyc_stream_release(stream);
      vyc_buffer_release(in);
      vyc_buffer_release(out);
    }
  }
  CU(cu.stream_destroy(raws[2]));
}

/* Its owner destroys the stream with our launch on it; the launch is waited for all the same. */
static void a_destroyed_stream_is_waited_for(vyc_context *context, vyc_prepared *prepared) {
  for (int how = 0; how < 4; how++) {
    CUstream raw;
    CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
    vyc_stream *stream = adopted(context, raw);
    vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 1.0f);
    launch(prepared, in, out, 4.0f, stream);
    CHECK(emulator_set("stream_mode", THREADED) == 0);
    CU(cu.stream_destroy(raw));
    if (how == 0) OK(vyc_context_synchronize(context));
    if (how == 1) OK(vyc_stream_synchronize(stream));
    if (how == 2) vyc_stream_release(stream);
    check_filled(out, 8.0f);
    if (how != 2) vyc_stream_release(stream);
    CHECK(emulator_set("stream_mode", LAZY) == 0);
    vyc_buffer_release(in);
    vyc_buffer_release(out);
  }
}

static void everything_that_waits_covers_adopted_streams(vyc_context *context,
                                                         vyc_prepared *prepared) {
  CUstream raw;
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  vyc_stream *stream = adopted(context, raw);
  for (int how = 0; how < 3; how++) {
    vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 1.0f);
    launch(prepared, in, out, 4.0f, stream);
    if (how == 0) OK(vyc_context_synchronize(context));
    if (how == 1) OK(vyc_stream_synchronize(stream));
    if (how == 2) check_filled(out, 8.0f);
    CU(cu.stream_query(raw));
    vyc_buffer_release(in);
    vyc_buffer_release(out);
  }
  vyc_stream_release(stream);
  CU(cu.stream_destroy(raw));
}

/* A buffer that goes while an adopted stream works on it: its block is not handed on too early. */
static void a_block_is_reused_behind_an_adopted_stream(vyc_context *context,
                                                       vyc_prepared *prepared) {
  OK(vyc_context_trim(context));
  CUstream raw;
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  vyc_stream *stream = adopted(context, raw);
  vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 1.0f);
  launch(prepared, in, out, 4.0f, stream);
  vyc_buffer_release(out);
  vyc_buffer *next = filled(context, 5.0f);
  OK(vyc_stream_synchronize(stream));
  check_filled(next, 5.0f);
  vyc_buffer_release(in);
  vyc_buffer_release(next);
  vyc_stream_release(stream);
  CU(cu.stream_destroy(raw));
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The owner fills before and reads after, on a stream that the launch itself does not go to. */
static void adopted_memory_is_ordered_with_its_owner(vyc_context *context, vyc_prepared *prepared) {
  CUstream raw;
  CUdeviceptr x, y;
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  CU(cu.alloc(&x, BYTES));
  CU(cu.alloc(&y, BYTES));
  vyc_stream *source = adopted(context, raw), *own = new_stream(context);
  vyc_stream *places[] = {NULL, own, source};
  int drops = 0;
  for (int i = 0; i < 3; i++) {
    vyc_buffer *in = adopted_memory(context, x, source, VYC_FOREIGN_READ_ONLY, &drops);
    vyc_buffer *out = adopted_memory(context, y, source, 0, &drops);
    task t;
    prepare(&t, 3.0f);
    on_buffers(&t, in, out);
    t.run.stream = places[i];
    vyc_call *call = NULL;
    OK(vyc_call_create(&call, prepared, &t.run));
    for (int k = 0; k < 3; k++) {
      float host[N];
      CU(cu.fill(x, pattern((float)(k + 1)), N, raw));
      if (k == 0)
        OK(vyc_prepared_launch(prepared, &t.run));
      else
        OK(vyc_call_run(call));
      CU(cu.copy_out(host, y, BYTES, raw));
      for (uint32_t j = 0; j < N; j++) CHECK(host[j] == 3.0f * (float)(k + 1));
    }
    CU(cu.fill(y, pattern(9.0f), N, raw));
    check_filled(out, 9.0f);
    vyc_buffer_release(in);
    vyc_buffer_release(out);
    CHECK(drops == 2 * i); /* the call holds both */
    vyc_call_release(call);
    CHECK(drops == 2 * (i + 1));
  }
  vyc_stream_release(source);
  vyc_stream_release(own);
  CU(cu.release(x));
  CU(cu.release(y));
  CU(cu.stream_destroy(raw));
}

/* The owner works on a stream that it made here. */
static void a_stream_of_this_library_may_be_a_source(vyc_context *context, vyc_prepared *prepared) {
  CUdeviceptr x;
  CU(cu.alloc(&x, BYTES));
  vyc_stream *source = new_stream(context), *own = new_stream(context);
  vyc_stream *places[] = {NULL, own, source};
  int drops = 0;
  for (int i = 0; i < 3; i++) {
    vyc_buffer *foreign = adopted_memory(context, x, source, 0, &drops);
    vyc_buffer *alias = adopted_memory(context, x, NULL, 0, &drops); /* nothing orders it */
    vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 0.0f);
    launch(prepared, in, alias, 3.0f, source);
    launch(prepared, foreign, out, 5.0f, places[i]); /* behind the source */
    check_filled(out, 30.0f);
    launch(prepared, in, foreign, 7.0f, places[i]);
    launch(prepared, alias, out, 1.0f, source); /* which is behind that */
    check_filled(out, 14.0f);
    OK(vyc_copy(foreign, 0, in, 0, BYTES));
    launch(prepared, alias, out, 1.0f, source);
    check_filled(out, 2.0f);
    launch(prepared, in, alias, 4.0f, source);
    check_filled(foreign, 8.0f);
    vyc_buffer_release(foreign);
    vyc_buffer_release(alias);
    vyc_buffer_release(in);
    vyc_buffer_release(out);
  }
  CHECK(drops == 6);
  vyc_stream_release(source);
  vyc_stream_release(own);
  CU(cu.release(x));
}

static void copies_of_adopted_memory_are_ordered(vyc_context *context) {
  CUstream raw;
  CUdeviceptr x;
  float host[N];
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  CU(cu.alloc(&x, BYTES));
  vyc_stream *source = adopted(context, raw);
  int drops = 0;
  vyc_buffer *foreign = adopted_memory(context, x, source, 0, &drops);
  vyc_buffer *mine = filled(context, 7.0f);
  OK(vyc_copy(foreign, 0, mine, 0, BYTES));
  CU(cu.copy_out(host, x, BYTES, raw));
  CHECK(host[0] == 7.0f && host[N - 1] == 7.0f);
  CU(cu.fill(x, pattern(8.0f), N, raw));
  OK(vyc_copy(mine, 0, foreign, 0, BYTES));
  CU(cu.fill(x, pattern(1.0f), N, raw));
  check_filled(mine, 8.0f);
  OK(vyc_fill_zero(foreign, 0, BYTES));
  CU(cu.copy_out(host, x, BYTES, raw));
  CHECK(host[0] == 0.0f && host[N - 1] == 0.0f);
  vyc_buffer_release(foreign);
  vyc_buffer_release(mine);
  vyc_stream_release(source);
  CU(cu.release(x));
  CU(cu.stream_destroy(raw));
  CHECK(drops == 1);
}

static void what_is_no_stream_is_refused(vyc_context *context) {
  vyc_stream *stream = NULL;
  CHECK(vyc_stream_adopt(&stream, context, 12345) == VYC_E_INVALID && stream == NULL);
  CUstream gone = NULL;
  CU(cu.stream_create(&gone, CU_STREAM_NON_BLOCKING));
  CU(cu.stream_destroy(gone));
  CHECK(vyc_stream_adopt(&stream, context, (uint64_t)(uintptr_t)gone) == VYC_E_INVALID);
  CHECK(stream == NULL);
}

static void what_is_not_memory_of_the_device_is_refused(vyc_context *context,
                                                        vyc_prepared *prepared) {
  int drops = 0;
  float host[N] = {0};
  vyc_buffer *buffer = NULL;
  vyc_foreign_memory memory = {.struct_size = sizeof memory,
                               .address = (uint64_t)(uintptr_t)host,
                               .bytes = sizeof host,
                               .drop = note_drop,
                               .owner = &drops};
  CHECK(vyc_buffer_adopt(&buffer, context, &memory) == VYC_E_INVALID && buffer == NULL);
  CUdeviceptr x;
  CU(cu.alloc(&x, BYTES));
  memory.address = (uint64_t)x;
  memory.bytes = BYTES + 1;
  CHECK(vyc_buffer_adopt(&buffer, context, &memory) == VYC_E_INVALID);
  memory.bytes = 0;
  memory.address = 0;
  OK(vyc_buffer_adopt(&buffer, context, &memory));
  vyc_buffer_release(buffer);
  CHECK(drops == 1);
  vyc_buffer *fixed = adopted_memory(context, x, NULL, VYC_FOREIGN_READ_ONLY, &drops);
  vyc_buffer *mine = new_buffer(context, BYTES);
  uint32_t read_only = 0;
  OK(vyc_buffer_is_read_only(fixed, &read_only));
  CHECK(read_only == 1);
  CHECK(vyc_copy_in(fixed, 0, host, BYTES) == VYC_E_INVALID);
  CHECK(vyc_copy(fixed, 0, mine, 0, BYTES) == VYC_E_INVALID);
  CHECK(vyc_fill_zero(fixed, 0, BYTES) == VYC_E_INVALID);
  task t;
  prepare(&t, 1.0f);
  on_buffers(&t, mine, fixed);
  CHECK(vyc_prepared_launch(prepared, &t.run) == VYC_E_INVALID);
  vyc_buffer_release(fixed);
  vyc_buffer_release(mine);
  CU(cu.release(x));
}

/* Adopted bytes and bytes of a buffer of ours may be the same ones. */
static void overlap_is_seen_across_owners(vyc_context *context, vyc_prepared *prepared) {
  vyc_buffer *mine = new_buffer(context, BYTES);
  uint64_t address = 0;
  int drops = 0;
  OK(vyc_buffer_address(mine, &address));
  vyc_buffer *alias = adopted_memory(context, (CUdeviceptr)address, NULL, 0, &drops);
  task t;
  prepare(&t, 1.0f);
  on_buffers(&t, mine, alias);
  CHECK(vyc_prepared_launch(prepared, &t.run) == VYC_E_INVALID);
  vyc_buffer_release(alias);
  vyc_buffer_release(mine);
}

static void memory_outlives_a_close(void) {
  vyc_context *context = open_context();
  enter_other_library();
  CUdeviceptr x;
  CU(cu.alloc(&x, BYTES));
  int drops = 0;
  vyc_buffer *buffer = adopted_memory(context, x, NULL, 0, &drops);
  OK(vyc_context_close(context));
  vyc_context_release(context);
  CHECK(drops == 0);
  vyc_buffer_release(buffer);
  CHECK(drops == 1);
  CU(cu.release(x));
  leave_other_library();
}

/* A stream waits for what a buffer was given, wherever that was. */
static void a_stream_is_ordered_behind_a_buffer(vyc_context *context, vyc_prepared *prepared) {
  CUstream raw;
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  vyc_stream *reader = adopted(context, raw), *own = new_stream(context);
  for (int kind = 0; kind < 2; kind++) {
    vyc_buffer *in = filled(context, 2.0f), *out = filled(context, 1.0f);
    uint64_t address = 0;
    float host[N];
    launch(prepared, in, out, 4.0f, kind == 0 ? NULL : own);
    OK(vyc_buffer_address(out, &address));
    OK(vyc_buffer_order(out, reader));
    CU(cu.copy_out(host, (CUdeviceptr)address, BYTES, raw));
    CHECK(host[0] == 8.0f && host[N - 1] == 8.0f);
    vyc_buffer_release(in);
    vyc_buffer_release(out);
  }
  vyc_stream_release(reader);
  vyc_stream_release(own);
  CU(cu.stream_destroy(raw));
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  open_other_library();
  CHECK(emulator_set("stream_mode", LAZY) == 0);
  vyc_context *context = open_context();
  vyc_module *module = load_module(context);
  vyc_prepared *prepared = scale_prepared(module, COPIED);
  enter_other_library();
  one_handle_is_one_stream(context);
  one_handle_is_one_stream_beside_many(context);
  a_launch_keeps_the_order_of_the_stream(context, prepared);
  a_destroyed_stream_is_waited_for(context, prepared);
  everything_that_waits_covers_adopted_streams(context, prepared);
  a_block_is_reused_behind_an_adopted_stream(context, prepared);
  adopted_memory_is_ordered_with_its_owner(context, prepared);
  a_stream_of_this_library_may_be_a_source(context, prepared);
  copies_of_adopted_memory_are_ordered(context);
  what_is_no_stream_is_refused(context);
  what_is_not_memory_of_the_device_is_refused(context, prepared);
  overlap_is_seen_across_owners(context, prepared);
  a_stream_is_ordered_behind_a_buffer(context, prepared);
  vyc_prepared_release(prepared);
  vyc_module_release(module);
  vyc_context_release(context);
  leave_other_library();
  memory_outlives_a_close();
  check_nothing_lives();
  puts("foreign: passed");
  return 0;
}
