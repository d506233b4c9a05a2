/* Two devices of one driver: copies between them, buffers of a peer, the order of both, and graphs
 * that are launched together, in the emulator's lazy mode. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

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

/* ---- a close beside calls of others ------------------------------------------------------------
 */

static void *clear_until_closed(void *data) {
  vyc_buffer *view = data;
  vyc_status status = VYC_OK;
  while (status == VYC_OK) status = vyc_fill_zero(view, 0, BYTES);
  CHECK(status == VYC_E_UNAVAILABLE);
  return NULL;
}

/* The emulator's device is lost by work on memory that was freed. */
static void a_close_waits_for_calls_that_use_its_memory(vyc_driver *driver) {
  CHECK(emulator_set("peer_access", 1) == 0);
  for (uint32_t round = 0; round < 40; round++) {
    vyc_context *closing = NULL;
    vyc_buffer *view = NULL;
    pthread_t thread;
    OK(vyc_context_open(&closing, driver, 1));
    OK(vyc_context_enable_peer(first, closing));
    vyc_buffer *theirs = filled_on(closing, 1.0f);
    OK(vyc_buffer_adopt_peer(&view, first, theirs));
    CHECK(pthread_create(&thread, NULL, clear_until_closed, view) == 0);
    const struct timespec some = {0, 20000 * (long)(round % 8)};
    nanosleep(&some, NULL);
    OK(vyc_context_close(closing));
    pthread_join(thread, NULL);
    OK(vyc_context_synchronize(first));
    vyc_buffer_release(view);
    vyc_buffer_release(theirs);
    vyc_context_release(closing);
  }
}

/* ---- graphs that are launched together --------------------------------------------------------
 */

typedef struct pair { /* a graph of each device, which fills a buffer there */
  vyc_graph *graphs[2];
  vyc_buffer *buffers[2];
} pair;

static vyc_graph_transfer filling(vyc_buffer *to, float value) {
  return (vyc_graph_transfer){.struct_size = sizeof(vyc_graph_transfer),
                              .element_bytes = 4,
                              .value = (uint32_t)bits(value),
                              .bytes = BYTES,
                              .to = to};
}

static void make_pair(pair *p) {
  vyc_context *const contexts[] = {first, second};
  for (uint32_t i = 0; i < 2; i++) {
    p->buffers[i] = filled_on(contexts[i], 1.0f);
    const vyc_graph_transfer fill = filling(p->buffers[i], 2.0f);
    OK(vyc_graph_create(&p->graphs[i], contexts[i]));
    OK(vyc_graph_add_transfer(p->graphs[i], NULL, &fill));
    OK(vyc_graph_finish(p->graphs[i]));
  }
}

static void release_pair(const pair *p) {
  for (uint32_t i = 0; i < 2; i++) {
    vyc_graph_release(p->graphs[i]);
    vyc_buffer_release(p->buffers[i]);
  }
}

static vyc_graph_part part_of(vyc_graph *graph) {
  return (vyc_graph_part){.struct_size = sizeof(vyc_graph_part), .graph = graph};
}

static void graphs_are_launched_together_or_none_is(void) {
  pair p;
  uint32_t launched = 7;
  make_pair(&p);
  vyc_graph *unfinished = NULL;
  OK(vyc_graph_create(&unfinished, second));
  OK(vyc_graph_launch_together(NULL, 0, &launched, 0));
  CHECK(launched == 0);
  const vyc_graph_part twice[] = {part_of(p.graphs[0]), part_of(p.graphs[0])};
  refused(vyc_graph_launch_together(twice, 2, &launched, 0), "belong to device 0");
  const vyc_graph_part other[] = {part_of(p.graphs[0]), part_of(unfinished)};
  refused(vyc_graph_launch_together(other, 2, &launched, 0), "is not finished");
  const vyc_graph_part turned[] = {other[1], other[0]};
  refused(vyc_graph_launch_together(turned, 2, &launched, 0), "is not finished");
  CHECK(launched == 0);
  check_filled(p.buffers[0], 1.0f);
  const vyc_graph_part both[] = {part_of(p.graphs[1]), part_of(p.graphs[0])};
  OK(vyc_graph_launch_together(both, 2, &launched, 0));
  CHECK(launched == 2);
  check_filled(p.buffers[0], 2.0f);
  check_filled(p.buffers[1], 2.0f);
  const vyc_graph_part many[VYC_MOST_TOGETHER + 1] = {0};
  refused(vyc_graph_launch_together(many, VYC_MOST_TOGETHER + 1, &launched, 0),
          "at most 32 can be");
  vyc_graph_release(unfinished);
  release_pair(&p);
}

static void a_refusal_of_the_driver_says_how_many_were_launched(void) {
  pair p;
  uint32_t launched = 7;
  make_pair(&p);
  const vyc_graph_part both[] = {part_of(p.graphs[0]), part_of(p.graphs[1])};
  for (uint32_t nth = 1; nth <= 2; nth++) {
    CHECK(emulator_fail("cuGraphLaunch", nth, 999, 0) == 0);
    CHECK(vyc_graph_launch_together(both, 2, &launched, 0) == VYC_E_DRIVER);
    CHECK(launched == nth - 1);
  }
  OK(vyc_graph_launch_together(both, 2, &launched, 0));
  check_filled(p.buffers[0], 2.0f);
  check_filled(p.buffers[1], 2.0f);
  release_pair(&p);
}

enum { LAUNCHES = 50 };
typedef struct turn {
  const pair *p;
  bool is_turned;
  float value;
} turn;

static void *launch_often(void *data) {
  const turn *t = data;
  vyc_graph_transfer fills[2];
  vyc_graph_change changes[2];
  vyc_graph_part parts[2];
  uint32_t launched = 0;
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t of = t->is_turned ? 1 - i : i;
    fills[i] = filling(t->p->buffers[of], t->value);
    changes[i] = (vyc_graph_change){.transfer = &fills[i]};
    parts[i] = part_of(t->p->graphs[of]);
    parts[i].change_count = 1;
    parts[i].changes = &changes[i];
  }
  for (int i = 0; i < LAUNCHES; i++) OK(vyc_graph_launch_together(parts, 2, &launched, 0));
  return NULL;
}

/* They claim the graphs in one order, and give both devices the same one last. */
static void threads_launch_together(void) {
  pair p;
  make_pair(&p);
  turn turns[] = {{&p, false, 3.0f}, {&p, true, 4.0f}};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    CHECK(pthread_create(&threads[i], NULL, launch_often, &turns[i]) == 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  float values[2][N];
  for (int i = 0; i < 2; i++) OK(vyc_copy_out(p.buffers[i], 0, values[i], BYTES));
  CHECK(memcmp(values[0], values[1], BYTES) == 0);
  release_pair(&p);
}

/* What a graph fills is changed for good: inside that call it lets go of the memory before. */
static void a_call_may_be_the_last_to_hold_a_peer(vyc_driver *driver) {
  vyc_context *last = NULL;
  vyc_graph *graph = NULL;
  vyc_buffer *view = NULL, *mine = filled_on(first, 0.0f);
  OK(vyc_context_open(&last, driver, 1));
  OK(vyc_context_set_patience(last, INT64_C(300000000000)));
  OK(vyc_context_enable_peer(first, last));
  vyc_buffer *theirs = filled_on(last, 1.0f);
  OK(vyc_buffer_adopt_peer(&view, first, theirs));
  const vyc_graph_transfer before = filling(view, 2.0f), after = filling(mine, 3.0f);
  OK(vyc_graph_create(&graph, first));
  OK(vyc_graph_add_transfer(graph, NULL, &before));
  OK(vyc_graph_finish(graph));
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  OK(vyc_context_synchronize(first));
  vyc_buffer_release(view);
  vyc_buffer_release(theirs);
  vyc_context_release(last);

  const vyc_graph_change change = {.transfer = &after};
  OK(vyc_graph_update(graph, &change, 1)); /* to wait for all calls would be to wait for itself */

  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  check_filled(mine, 3.0f);
  vyc_graph_release(graph);
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
  graphs_are_launched_together_or_none_is();
  a_refusal_of_the_driver_says_how_many_were_launched();
  threads_launch_together();
  a_close_waits_for_calls_that_use_its_memory(driver);
  a_call_may_be_the_last_to_hold_a_peer(driver);
  a_closed_peer_is_told();
  vyc_context_release(first);
  vyc_context_release(second);
  vyc_driver_release(driver);
  puts("peers: ok");
  return 0;
}
