/* What the last launches are called in messages: origins that a host gave, and names that outlive
 * their kernels for as long as a note has them, and no longer. Made for the sanitizers. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif
#include "bench_test.h"

#include <malloc.h>

#define KERNELS 10000
#define THREADS 4

static vyc_prepared *named(vyc_module *module, const char *name) {
  vyc_prepared_desc desc = scale_desc(STREAMED);
  desc.name = name;
  vyc_prepared *prepared = NULL;
  OK(vyc_prepared_create(&prepared, module, &desc));
  return prepared;
}

static char text[8192];

/* Without arguments; test_labels.c is about those. */
static void drop_arguments(void) {
  for (char *with = strstr(text, " with 0x"); with != NULL; with = strstr(text, " with 0x")) {
    char *end = with + strlen(" with 0x");
    while (strncmp(end, ", launched at", 13) != 0 && strncmp(end, ", a call", 8) != 0 &&
           !(end[0] == ',' && end[2] >= '1' && end[2] <= '9'))
      end++;
    memmove(with, end, strlen(end) + 1);
  }
}

static const char *in_flight(vyc_context *context) {
  uint32_t count = 0;
  OK(vyc_context_in_flight(context, text, sizeof text, &count));
  drop_arguments();
  return text;
}

/* ---- origins -----------------------------------------------------------------------------------
 */

static void launches_say_where_they_come_from(void) {
  bench b;
  set_up(&b, 2.0f);
  emulator_set("stream_mode", LAZY);
  uint32_t origin = 0, other = 0;
  OK(vyc_origin_add(&origin, "step.cpp:12"));
  OK(vyc_origin_add(&other, "step.cpp:13"));
  CHECK(origin != 0 && other != 0 && origin != other);
  vyc_prepared *prepared = named(b.module, "stretch");
  b.task.run.origin = origin;
  OK(vyc_prepared_launch(prepared, &b.task.run));
  CHECK(strcmp(in_flight(b.context),
               "stretch, launched at step.cpp:12, 1 launch ago in call order") == 0);
  vyc_call *call = NULL;
  OK(vyc_call_create(&call, prepared, &b.task.run));
  for (int turn = 0; turn < 3; turn++) {
    OK(vyc_context_synchronize(b.context));
    OK(vyc_call_run(call)); /* the run that was bound said where that was */
    OK(vyc_call_run_at(call, other));
    OK(vyc_call_set_run(call, &b.task.run));
    CHECK(strcmp(in_flight(b.context),
                 "stretch, launched at step.cpp:12, 1 launch ago in call order\n"
                 "stretch, launched at step.cpp:13, 2 launches ago in call order\n"
                 "stretch, 3 launches ago in call order") == 0);
  }
  vyc_graph *graph = NULL;
  uint32_t step = 0;
  OK(vyc_graph_create(&graph, b.context));
  OK(vyc_graph_add_launch(graph, &step, prepared, &b.task.run));
  OK(vyc_graph_finish(graph));
  OK(vyc_context_synchronize(b.context));
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  OK(vyc_graph_launch_at(graph, NULL, 0, NULL, other));
  CHECK(strcmp(in_flight(b.context),
               "a graph of 1 step (stretch), launched at step.cpp:13, 1 launch ago in call order\n"
               "a graph of 1 step (stretch), 2 launches ago in call order") == 0);
  OK(vyc_context_synchronize(b.context));
  /* A host that was built before there were origins. */
  b.task.run.struct_size = (uint32_t)offsetof(vyc_run, iterations);
  OK(vyc_prepared_launch(prepared, &b.task.run));
  CHECK(strcmp(in_flight(b.context), "stretch, 1 launch ago in call order") == 0);
  vyc_graph_release(graph);
  vyc_call_release(call);
  vyc_prepared_release(prepared);
  tear_down(&b);
}

static void runs_say_where_they_come_from(void) {
  bench b;
  set_up(&b, 2.0f);
  emulator_set("stream_mode", LAZY);
  uint32_t origin = 0;
  OK(vyc_origin_add(&origin, "step.cpp:20"));
  vyc_prepared *prepared = named(b.module, "stretch");
  task host;
  prepare(&host, 3.0f);
  host.run.origin = origin;
  vyc_ticket *ticket = NULL;
  OK(vyc_prepared_submit(prepared, &ticket, &host.run));
  CHECK(strcmp(in_flight(b.context), "stretch, launched at step.cpp:20, a call with host arrays") ==
        0);
  OK(vyc_ticket_wait(ticket, -1));
  verify(&host);
  vyc_ticket_release(ticket);
  vyc_prepared_release(prepared);
  tear_down(&b);
}

static void a_site_that_nobody_added_says_nothing(void) {
  bench b;
  set_up(&b, 2.0f);
  emulator_set("stream_mode", LAZY);
  vyc_prepared *prepared = named(b.module, "stretch");
  b.task.run.origin = 60000;
  OK(vyc_prepared_launch(prepared, &b.task.run));
  CHECK(strcmp(in_flight(b.context), "stretch, 1 launch ago in call order") == 0);
  vyc_prepared_release(prepared);
  tear_down(&b);
}

static void sites_end_without_a_failure(void) {
  uint32_t origin = 1;
  char line[64];
  CHECK(vyc_origin_add(NULL, "x") == VYC_E_INVALID);
  CHECK(vyc_origin_add(&origin, NULL) == VYC_E_INVALID);
  uint32_t before = 0;
  for (int i = 0; i < 70000 && origin != 0; i++) {
    snprintf(line, sizeof line, "many.cpp:%d", i);
    OK(vyc_origin_add(&origin, line));
    CHECK(origin == 0 || origin > before);
    before = origin;
  }
  CHECK(origin == 0);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void a_name_outlives_its_kernel_while_its_launch_may_be_told(void) {
  bench b;
  set_up(&b, 2.0f);
  emulator_set("stream_mode", LAZY);
  vyc_prepared *kept = named(b.module, "kept");
  vyc_stream *stream = new_stream(b.context);
  OK(vyc_prepared_launch(kept, &b.task.run));
  for (int i = 0; i < 3000; i++) vyc_prepared_release(named(b.module, "passing"));
  b.task.run.stream = stream;
  vyc_prepared *short_lived = named(b.module, "short-lived");
  OK(vyc_prepared_launch(short_lived, &b.task.run));
  vyc_prepared_release(short_lived); /* waits for what it has in flight; the note stays */
  for (int i = 0; i < 3000; i++) vyc_prepared_release(named(b.module, "passing"));
  CHECK(strstr(in_flight(b.context), "passing") == NULL);
  CHECK(strstr(text, "kept, 1 launch ago in call order") != NULL);
  CHECK(strstr(text, "short-lived, 1 launch ago on stream ") != NULL);
  vyc_stream_release(stream);
  vyc_prepared_release(kept);
  tear_down(&b);
}

/* Bytes that the process has allocated; 0 where a sanitizer allocates. */
static size_t allocated(void) {
#ifdef SANITIZED
  return 0;
#else
  return mallinfo2().uordblks;
#endif
}

static void pass(bench *b, int first, int count) {
  char name[64];
  for (int i = first; i < first + count; i++) {
    snprintf(name, sizeof name, "a kernel with a name of its own, number %d", i);
    vyc_prepared *prepared = named(b->module, name);
    OK(vyc_prepared_launch(prepared, &b->task.run));
    OK(vyc_context_synchronize(b->context));
    vyc_prepared_release(prepared);
  }
}

static void kernels_that_come_and_go_leave_nothing(void) {
  bench b;
  set_up(&b, 2.0f);
  pass(&b, 0, KERNELS / 4);
  const size_t before = allocated();
  pass(&b, KERNELS / 4, KERNELS);
  const size_t after = allocated();
  /* Up to about a thousand names wait to be looked for together. */
  CHECK(after <= before + 256 * 1024);
  tear_down(&b);
}

static void *give_a_text(void *context) {
  OK(vyc_context_trace(context, "the text of another thread"));
  return NULL;
}

/* The next context may have the address of the one before, and its texts the memory of the old. */
static void a_text_is_of_its_context_alone(void) {
  bench b;
  char room[1024];
  uint32_t count = 0;
  vyc_context *before = NULL, *again = open_context();
  for (int i = 0; i < 64 && again != before; i++) {
    OK(vyc_context_trace(again, "a text of an earlier context"));
    vyc_context_release(again);
    before = again;
    again = open_context();
  }
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, give_a_text, again) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  set_up_on(&b, again, 2.0f);
  vyc_prepared *prepared = named(b.module, "scale");
  OK(vyc_prepared_launch(prepared, &b.task.run));
  OK(vyc_context_in_flight(again, room, sizeof room, &count));
  CHECK(count == 1 && strstr(room, "scale") != NULL && strstr(room, "text") == NULL);
  vyc_prepared_release(prepared);
  tear_down(&b);
}

typedef struct reader {
  vyc_context *context;
  volatile int *over;
} reader;

static void *read_on(void *argument) {
  const reader *r = argument;
  char room[2048];
  uint32_t count = 0;
  while (!__atomic_load_n(r->over, __ATOMIC_ACQUIRE))
    OK(vyc_context_in_flight(r->context, room, sizeof room, &count));
  return NULL;
}

static void *come_and_go(void *argument) {
  bench *shared = argument;
  bench own = *shared;
  on_buffers(&own.task, own.in, own.out);
  own.task.run.arguments = own.task.arguments;
  own.task.run.scalars = &own.task.scalar;
  own.task.run.stream = new_stream(own.context);
  char name[64];
  for (int i = 0; i < 1500; i++) {
    snprintf(name, sizeof name, "kernel %d of %p", i, (void *)&own);
    vyc_prepared *prepared = named(own.module, name);
    OK(vyc_prepared_launch(prepared, &own.task.run));
    vyc_prepared_release(prepared);
  }
  vyc_stream_release(own.task.run.stream);
  return NULL;
}

static void names_are_read_while_they_are_freed(void) {
  bench b;
  set_up(&b, 2.0f);
  volatile int over = 0;
  reader r = {b.context, &over};
  pthread_t readers[2], makers[THREADS];
  for (int i = 0; i < 2; i++) CHECK(pthread_create(&readers[i], NULL, read_on, &r) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&makers[i], NULL, come_and_go, &b) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(makers[i], NULL) == 0);
  __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 2; i++) CHECK(pthread_join(readers[i], NULL) == 0);
  tear_down(&b);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  launches_say_where_they_come_from();
  runs_say_where_they_come_from();
  a_site_that_nobody_added_says_nothing();
  a_name_outlives_its_kernel_while_its_launch_may_be_told();
  kernels_that_come_and_go_leave_nothing();
  a_text_is_of_its_context_alone();
  names_are_read_while_they_are_freed();
  sites_end_without_a_failure();
  printf("ok\n");
  return 0;
}
