/* Two devices of one driver: copies between them, buffers of a peer, and the order of both, in the
 * emulator's lazy mode. */
#define _POSIX_C_SOURCE 200809L
#include "dispatch_test.h"

static vyc_context *first, *second;

static vyc_buffer *filled_on(vyc_context *context, float value) {
  float values[N];
  for (uint32_t i = 0; i < N; i++) values[i] = value;
  vyc_buffer *buffer = NULL;
  OK(vyc_buffer_alloc(&buffer, context, BYTES));
  OK(vyc_copy_in(buffer, 0, values, BYTES));
  return buffer;
}

static void refused(vyc_status status, const char *words) {
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  CHECK(status == VYC_E_INVALID);
  CHECK(strstr(error.message, words) != NULL);
}

static void copies_go_behind_the_work_of_both(void) {
  vyc_buffer *from = filled_on(second, 5.0f), *to = filled_on(first, 1.0f);
  vyc_buffer *other = filled_on(second, 9.0f);
  OK(vyc_copy(to, 0, from, 0, BYTES));
  OK(vyc_copy(from, 0, other, 0, BYTES)); /* behind the copy, which has not run yet */
  check_filled(to, 5.0f);
  check_filled(from, 9.0f);
  OK(vyc_copy(to, 0, from, 0, BYTES));
  vyc_buffer_release(from); /* its block is reused behind the copy */
  vyc_buffer *next = filled_on(second, 7.0f);
  check_filled(to, 9.0f);
  check_filled(next, 7.0f);
  refused(vyc_copy(to, 0, next, 4, BYTES), "bytes from byte 4");
  vyc_buffer_release(to);
  vyc_buffer_release(next);
  vyc_buffer_release(other);
}

static void memory_of_a_peer_needs_access(void) {
  vyc_buffer *theirs = filled_on(second, 2.0f), *mine = filled_on(first, 3.0f), *view = NULL;
  refused(vyc_buffer_adopt_peer(&view, first, theirs), "vyc_context_enable_peer");
  OK(vyc_copy(mine, 0, theirs, 0, BYTES)); /* gives none */
  refused(vyc_buffer_adopt_peer(&view, first, theirs), "vyc_context_enable_peer");
  refused(vyc_buffer_adopt_peer(&view, first, mine), "device 0");
  CHECK(vyc_context_enable_peer(first, first) == VYC_E_INVALID);
  OK(vyc_context_enable_peer(first, second));
  OK(vyc_context_enable_peer(first, second));
  OK(vyc_buffer_adopt_peer(&view, first, theirs));
  refused(vyc_buffer_adopt_peer(&view, second, mine), "device 1");
  CHECK(view == NULL);
  vyc_buffer_release(theirs);
  vyc_buffer_release(mine);
}

static void work_on_memory_of_a_peer_is_ordered_with_the_peers(void) {
  vyc_buffer *theirs = filled_on(second, 2.0f), *mine = filled_on(first, 3.0f), *view = NULL;
  vyc_buffer *more = filled_on(second, 8.0f);
  OK(vyc_buffer_adopt_peer(&view, first, theirs));
  OK(vyc_copy(theirs, 0, more, 0, BYTES)); /* by the peer, and not run yet */
  OK(vyc_copy(mine, 0, view, 0, BYTES));
  OK(vyc_fill_zero(view, 0, BYTES));
  OK(vyc_copy(more, 0, theirs, 0, BYTES));
  check_filled(mine, 8.0f);
  check_filled(more, 0.0f);
  check_filled(view, 0.0f);
  vyc_buffer_release(theirs); /* the view holds it */
  check_filled(view, 0.0f);
  vyc_buffer_release(view);
  vyc_buffer_release(mine);
  vyc_buffer_release(more);
}

static void a_copy_that_fails_leaves_both_usable(void) {
  vyc_buffer *theirs = filled_on(second, 2.0f), *mine = filled_on(first, 3.0f);
  CHECK(emulator_fail("cuMemcpyPeerAsync", 1, 999, 0) == 0);
  CHECK(vyc_copy(mine, 0, theirs, 0, BYTES) == VYC_E_DRIVER);
  OK(vyc_copy(mine, 0, theirs, 0, BYTES));
  check_filled(mine, 2.0f);
  vyc_buffer_release(theirs);
  vyc_buffer_release(mine);
}

static void access_is_asked_for(void) {
  uint32_t can = 0;
  OK(vyc_context_can_access_peer(first, 1, &can));
  CHECK(can == 1);
  CHECK(emulator_set("peer_access", 0) == 0);
  OK(vyc_context_can_access_peer(first, 1, &can));
  CHECK(can == 0);
  CHECK(vyc_context_can_access_peer(first, 2, &can) == VYC_E_INVALID);
  CHECK(vyc_context_enable_peer(second, first) == VYC_E_UNSUPPORTED);
  vyc_buffer *theirs = filled_on(second, 2.0f), *mine = filled_on(first, 3.0f);
  OK(vyc_copy(theirs, 0, mine, 0, BYTES)); /* by way of the host */
  check_filled(theirs, 3.0f);
  vyc_buffer_release(theirs);
  vyc_buffer_release(mine);
}

static void a_closed_peer_is_told(void) {
  vyc_buffer *theirs = filled_on(second, 2.0f), *mine = filled_on(first, 3.0f), *view = NULL;
  OK(vyc_buffer_adopt_peer(&view, first, theirs));
  OK(vyc_context_close(second));
  CHECK(vyc_copy(mine, 0, theirs, 0, BYTES) == VYC_E_UNAVAILABLE);
  CHECK(vyc_copy(mine, 0, view, 0, BYTES) == VYC_E_UNAVAILABLE);
  check_filled(mine, 3.0f);
  vyc_buffer_release(view);
  vyc_buffer_release(theirs);
  vyc_buffer_release(mine);
}

int main(int argc, char **argv) {
  CHECK(setenv("VYRE_CUDA_EMULATOR_DEVICES", "2", 1) == 0);
  emulator_open(argc, argv);
  CHECK(emulator_set("stream_mode", LAZY) == 0);
  vyc_driver *driver = NULL;
  OK(vyc_driver_open(&driver, argv[1]));
  OK(vyc_context_open(&first, driver, 0));
  OK(vyc_context_open(&second, driver, 1));
  copies_go_behind_the_work_of_both();
  memory_of_a_peer_needs_access();
  work_on_memory_of_a_peer_is_ordered_with_the_peers();
  a_copy_that_fails_leaves_both_usable();
  access_is_asked_for();
  a_closed_peer_is_told();
  vyc_context_release(first);
  vyc_context_release(second);
  vyc_driver_release(driver);
  puts("peers: ok");
  return 0;
}
