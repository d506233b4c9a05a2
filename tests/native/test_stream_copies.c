/* Copies and fills in the order of a stream: they wait for nothing, come after what they must and
 * before what must come after them, hold their memory, and refuse what is not there. In the
 * emulator's lazy mode work that nobody waits for is never done. */
#include "graph_test.h"

/* Page-locked memory with N floats of one value. */
typedef struct host_array {
  vyc_pinned *pinned;
  float *data;
} host_array;

static host_array host_filled(vyc_context *context, float value) {
  host_array made = {NULL, NULL};
  void *data = NULL;
  OK(vyc_pinned_alloc(&made.pinned, context, BYTES));
  OK(vyc_pinned_data(made.pinned, &data));
  made.data = data;
  for (uint32_t i = 0; i < N; i++) made.data[i] = value;
  return made;
}

static void check_host(const float *data, float value) {
  for (uint32_t i = 0; i < N; i++) CHECK(data[i] == value);
}

static void a_round_trip_waits_for_nothing(const place *p, vyc_stream *stream) {
  host_array from = host_filled(p->context, 3.0f), to = host_filled(p->context, 0.0f);
  vyc_buffer *in = new_buffer(p->context, BYTES), *out = new_buffer(p->context, BYTES);
  vyc_buffer *copied = new_buffer(p->context, BYTES);
  OK(vyc_stream_copy_in(stream, in, 0, from.pinned, 0, BYTES));
  launch(p->prepared, in, out, 2.0f, stream);
  OK(vyc_stream_copy(stream, copied, 0, out, 0, BYTES));
  OK(vyc_stream_fill(stream, copied, 0, 0, 4, 4));
  OK(vyc_stream_copy_out(stream, to.pinned, 0, copied, 0, BYTES));
  check_host(to.data, 0.0f);
  OK(vyc_stream_synchronize(stream));
  CHECK(to.data[0] == 0.0f && to.data[1] == 6.0f && to.data[N - 1] == 6.0f);
  /* Parts, from and to the middle. */
  OK(vyc_stream_copy_out(stream, to.pinned, 8, copied, 0, 8));
  OK(vyc_stream_copy_in(stream, in, BYTES - 4, to.pinned, 8, 4));
  OK(vyc_stream_synchronize(stream));
  CHECK(to.data[2] == 0.0f && to.data[3] == 6.0f && to.data[4] == 6.0f);
  float host[N];
  OK(vyc_copy_out(in, 0, host, BYTES));
  CHECK(host[N - 1] == 0.0f && host[N - 2] == 3.0f);
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  vyc_buffer_release(copied);
  vyc_pinned_release(from.pinned);
  vyc_pinned_release(to.pinned);
}

/* Work in call order comes before and after it, as with a launch on the stream. */
static void call_order_is_kept(const place *p, vyc_stream *stream) {
  vyc_buffer *buffer = filled(p->context, 1.0f), *other = filled(p->context, 0.0f);
  host_array from = host_filled(p->context, 5.0f);
  launch(p->prepared, buffer, other, 4.0f, NULL);
  OK(vyc_stream_copy(stream, buffer, 0, other, 0, BYTES));
  check_filled(buffer, 4.0f);
  OK(vyc_stream_copy_in(stream, buffer, 0, from.pinned, 0, BYTES));
  check_filled(buffer, 5.0f);
  OK(vyc_stream_fill(stream, buffer, 0, (uint32_t)bits(7.0f), 4, BYTES));
  launch(p->prepared, buffer, other, 1.0f, stream);
  OK(vyc_fill_zero(buffer, 0, BYTES));
  check_filled(buffer, 0.0f);
  check_filled(other, 7.0f);
  vyc_buffer_release(buffer);
  vyc_buffer_release(other);
  vyc_pinned_release(from.pinned);
}

/* What is released at once is reused behind the copy, whoever asks next. */
static void released_memory_stays_until_the_copy_has_ended(const place *p, vyc_stream *stream) {
  host_array from = host_filled(p->context, 8.0f);
  const float *address = from.data;
  vyc_buffer *buffer = new_buffer(p->context, BYTES), *other = new_buffer(p->context, BYTES);
  OK(vyc_stream_copy_in(stream, other, 0, from.pinned, 0, BYTES));
  OK(vyc_stream_copy(stream, buffer, 0, other, 0, BYTES));
  vyc_pinned_release(from.pinned);
  vyc_buffer_release(other);
  host_array next = host_filled(p->context, -1.0f);
  CHECK(next.data != address);
  vyc_buffer *another = filled(p->context, -1.0f);
  check_filled(buffer, 8.0f);
  vyc_buffer_release(buffer);
  vyc_buffer_release(another);
  vyc_pinned_release(next.pinned);
}

/* The caller's own memory is the caller's again after its release. */
static void registered_memory_is_waited_for(const place *p, vyc_stream *stream) {
  static float host[N];
  vyc_pinned *pinned = NULL;
  vyc_buffer *buffer = filled(p->context, 9.0f);
  memset(host, 0, sizeof host);
  OK(vyc_pinned_register(&pinned, p->context, host, sizeof host));
  OK(vyc_stream_copy_out(stream, pinned, 0, buffer, 0, BYTES));
  vyc_pinned_release(pinned);
  check_host(host, 9.0f);
  vyc_buffer_release(buffer);
}

static void fills_have_elements_of_each_size(const place *p, vyc_stream *stream) {
  uint8_t bytes[8];
  vyc_buffer *buffer = new_buffer(p->context, sizeof bytes);
  OK(vyc_stream_fill(stream, buffer, 0, 0x11223344u, 4, 8));
  OK(vyc_stream_fill(stream, buffer, 4, 0x5566u, 2, 2));
  OK(vyc_stream_fill(stream, buffer, 7, 0x77u, 1, 1));
  OK(vyc_stream_fill(stream, buffer, 8, 0, 4, 0));
  OK(vyc_copy_out(buffer, 0, bytes, sizeof bytes));
  static const uint8_t expected[] = {0x44, 0x33, 0x22, 0x11, 0x66, 0x55, 0x22, 0x77};
  CHECK(memcmp(bytes, expected, sizeof expected) == 0);
  vyc_buffer_release(buffer);
}

static void a_warm_copy_is_one_driver_call(const place *p, vyc_stream *stream) {
  host_array host = host_filled(p->context, 1.0f);
  vyc_buffer *buffer = new_buffer(p->context, BYTES);
  OK(vyc_stream_copy_in(stream, buffer, 0, host.pinned, 0, BYTES));
  const uint64_t before = count_of("cuMemcpyHtoDAsync"), waits = count_of("cuStreamSynchronize");
  for (int i = 0; i < 10; i++) OK(vyc_stream_copy_in(stream, buffer, 0, host.pinned, 0, BYTES));
  CHECK(count_of("cuMemcpyHtoDAsync") == before + 10);
  CHECK(count_of("cuStreamSynchronize") == waits);
  vyc_buffer_release(buffer);
  vyc_pinned_release(host.pinned);
}

static void each_of_many_streams_has_its_order(const place *p) {
  enum { STREAMS = 130 };
  vyc_stream *streams[STREAMS];
  vyc_buffer *buffer = filled(p->context, 0.0f);
  for (int i = 0; i < STREAMS; i++) streams[i] = new_stream(p->context);
  for (int i = 0; i < STREAMS; i += 43) {
    host_array host = host_filled(p->context, (float)i + 1);
    OK(vyc_stream_copy_in(streams[i], buffer, 0, host.pinned, 0, BYTES));
    vyc_pinned_release(host.pinned);
    check_filled(buffer, (float)i + 1);
  }
  for (int i = 0; i < STREAMS; i++) vyc_stream_release(streams[i]);
  vyc_buffer_release(buffer);
}

static void an_adopted_stream_takes_copies(const place *p) {
  vyc_context *other = open_context();
  vyc_stream *theirs = new_stream(other), *adopted = NULL;
  uint64_t handle = 0;
  OK(vyc_stream_handle(theirs, &handle));
  OK(vyc_stream_adopt(&adopted, p->context, handle));
  host_array host = host_filled(p->context, 6.0f);
  vyc_buffer *buffer = new_buffer(p->context, BYTES);
  OK(vyc_stream_copy_in(adopted, buffer, 0, host.pinned, 0, BYTES));
  CHECK(vyc_stream_query(theirs) == VYC_NOT_READY);
  check_filled(buffer, 6.0f);
  vyc_buffer_release(buffer);
  vyc_pinned_release(host.pinned);
  vyc_stream_release(adopted);
  vyc_stream_release(theirs);
  vyc_context_release(other);
}

static void what_is_not_there_is_refused(const place *p, vyc_stream *stream) {
  vyc_context *other = open_context();
  vyc_stream *theirs = new_stream(other);
  host_array host = host_filled(p->context, 1.0f);
  vyc_buffer *buffer = filled(p->context, 2.0f);
  const uint64_t before = count_of("calls");
  CHECK(vyc_stream_copy_in(NULL, buffer, 0, host.pinned, 0, 4) == VYC_E_INVALID);
  CHECK(vyc_stream_copy_in(stream, NULL, 0, host.pinned, 0, 4) == VYC_E_INVALID);
  CHECK(vyc_stream_copy_in(stream, buffer, 0, NULL, 0, 4) == VYC_E_INVALID);
  CHECK(vyc_stream_copy_in(stream, buffer, 4, host.pinned, 0, BYTES) == VYC_E_INVALID);
  CHECK(vyc_stream_copy_in(stream, buffer, 0, host.pinned, 4, BYTES) == VYC_E_INVALID);
  CHECK(strstr(vyc_last_message(),
               "2000 bytes from byte 4 does not fit in page-locked memory of 2000 bytes"));
  CHECK(vyc_stream_copy_in(stream, buffer, 0, host.pinned, UINT64_MAX, 2) == VYC_E_INVALID);
  CHECK(vyc_stream_copy_in(theirs, buffer, 0, host.pinned, 0, 4) == VYC_E_INVALID);
  CHECK(vyc_stream_copy_out(stream, host.pinned, 0, buffer, BYTES, 1) == VYC_E_INVALID);
  CHECK(vyc_stream_copy_out(stream, host.pinned, BYTES, buffer, 0, 1) == VYC_E_INVALID);
  CHECK(vyc_stream_copy_out(theirs, host.pinned, 0, buffer, 0, 1) == VYC_E_INVALID);
  CHECK(vyc_stream_copy(stream, buffer, 0, buffer, 4, 8) == VYC_E_INVALID);
  CHECK(vyc_stream_copy(theirs, buffer, 0, buffer, 8, 8) == VYC_E_INVALID);
  CHECK(vyc_stream_fill(stream, buffer, 0, 0, 3, 3) == VYC_E_INVALID);
  CHECK(vyc_stream_fill(stream, buffer, 1, 0, 4, 4) == VYC_E_INVALID);
  CHECK(vyc_stream_fill(stream, buffer, 0, 0, 4, BYTES + 4) == VYC_E_INVALID);
  CHECK(count_of("calls") == before);
  OK(vyc_stream_copy(stream, buffer, 0, buffer, 8, 8));
  check_filled(buffer, 2.0f);
  CHECK(emulator_fail("cuMemcpyHtoDAsync", 1, 2, 0) == 0);
  CHECK(vyc_stream_copy_in(stream, buffer, 0, host.pinned, 0, BYTES) == VYC_E_MEMORY);
  check_filled(buffer, 2.0f);
  vyc_stream_release(theirs);
  OK(vyc_context_close(other));
  vyc_context_release(other);
  vyc_buffer_release(buffer);
  vyc_pinned_release(host.pinned);
}

static void a_closed_context_copies_nothing(void) {
  vyc_context *context = open_context();
  vyc_stream *stream = new_stream(context);
  vyc_buffer *buffer = filled(context, 1.0f);
  host_array host = host_filled(context, 1.0f);
  OK(vyc_context_close(context));
  CHECK(vyc_stream_copy_in(stream, buffer, 0, host.pinned, 0, 4) == VYC_E_UNAVAILABLE);
  CHECK(vyc_stream_fill(stream, buffer, 0, 0, 4, 4) == VYC_E_UNAVAILABLE);
  vyc_stream_release(stream);
  vyc_buffer_release(buffer);
  vyc_pinned_release(host.pinned);
  vyc_context_release(context);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  CHECK(emulator_set("stream_mode", LAZY) == 0);
  const place p = open_place();
  vyc_stream *stream = new_stream(p.context);
  a_round_trip_waits_for_nothing(&p, stream);
  call_order_is_kept(&p, stream);
  released_memory_stays_until_the_copy_has_ended(&p, stream);
  registered_memory_is_waited_for(&p, stream);
  fills_have_elements_of_each_size(&p, stream);
  a_warm_copy_is_one_driver_call(&p, stream);
  each_of_many_streams_has_its_order(&p);
  an_adopted_stream_takes_copies(&p);
  what_is_not_there_is_refused(&p, stream);
  a_closed_context_copies_nothing();
  vyc_stream_release(stream);
  close_place(&p);
  puts("stream copies: all right");
  return 0;
}
