/* The C layer as a C host uses it, on the emulator: open, load, run, submit, launch, bind, from one
 * thread and from eight, with children released in any order. Made for the sanitizers. */
#include "dispatch_test.h"

#define THREADS 8
#define TURNS 40

/* ---- one thread's share --------------------------------------------------------------------- */

typedef struct share {
  vyc_context *context;
  vyc_prepared *prepared;
  vyc_call *call;
  float seed;
} share;

/* Pageable arrays that cross in chunks, of which the kernel scales the beginning. What a dropped
 * run would write to is gone at once. */
static void work_large(vyc_prepared *prepared, float a) {
  enum { MANY = (1 << 18) + 1, SCALED = 512 };
  float *in = malloc(MANY * sizeof *in), *out = malloc(MANY * sizeof *out);
  float *unwanted = malloc(MANY * sizeof *unwanted);
  task *t = malloc(sizeof *t);
  vyc_ticket *ticket = NULL, *dropped = NULL;
  CHECK(in != NULL && out != NULL && unwanted != NULL && t != NULL);
  for (uint32_t i = 0; i < MANY; i++) in[i] = (float)i + a;
  prepare(t, a);
  t->arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = MANY, .data = in};
  t->arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = MANY, .result = unwanted};
  t->run.grid[0] = SCALED / 128;
  OK(vyc_prepared_submit(prepared, &dropped, &t->run));
  t->arguments[1].result = out;
  OK(vyc_prepared_submit(prepared, &ticket, &t->run));
  memset(in, 0, MANY * sizeof *in);
  vyc_ticket_release(dropped);
  free(unwanted);
  OK(vyc_ticket_wait(ticket, -1));
  vyc_ticket_release(ticket);
  for (uint32_t i = 0; i < MANY; i++) CHECK(out[i] == (i < SCALED ? a * ((float)i + a) : 0.0f));
  free(in);
  free(out);
  free(t);
}

static void *work(void *argument) {
  const share *s = argument;
  task *first = malloc(sizeof *first), *second = malloc(sizeof *second);
  CHECK(first != NULL && second != NULL);
  vyc_buffer *in = NULL, *out = NULL;
  OK(vyc_buffer_alloc(&in, s->context, N * 4));
  OK(vyc_buffer_alloc(&out, s->context, N * 4));
  for (int turn = 0; turn < TURNS; turn++) {
    const float a = s->seed + (float)turn;
    if (turn % 10 == 0) work_large(s->prepared, a);
    vyc_ticket *ticket = NULL, *dropped = NULL;
    prepare(first, a);
    OK(vyc_prepared_run(s->prepared, NULL, &first->run));
    verify(first);
    prepare(second, a + 0.5f);
    OK(vyc_prepared_submit(s->prepared, &ticket, &second->run));
    OK(vyc_prepared_submit(s->prepared, &dropped, &first->run));
    vyc_ticket_release(dropped);
    OK(vyc_ticket_wait(ticket, -1));
    verify(second);
    vyc_ticket_release(ticket);
    OK(vyc_copy_in(in, 0, first->in, N * 4));
    on_buffers(first, in, out);
    OK(vyc_prepared_launch(s->prepared, &first->run));
    OK(vyc_call_run(s->call));
    OK(vyc_copy_out(out, 0, first->out, N * 4));
    verify(first);
  }
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  free(first);
  free(second);
  return NULL;
}

static void many_threads(vyc_context *context, vyc_prepared *prepared, vyc_call *call) {
  pthread_t threads[THREADS];
  share shares[THREADS];
  for (int i = 0; i < THREADS; i++) {
    shares[i] = (share){context, prepared, call, (float)(i * 1000)};
    CHECK(pthread_create(&threads[i], NULL, work, &shares[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

/* ---- life ----------------------------------------------------------------------------------- */

static void closed(vyc_context *context, vyc_prepared *prepared, vyc_call *call) {
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  prepare(t, 1.0f);
  CHECK(vyc_prepared_run(prepared, NULL, &t->run) == VYC_E_UNAVAILABLE);
  CHECK(vyc_call_run(call) == VYC_E_UNAVAILABLE);
  CHECK(vyc_context_synchronize(context) == VYC_E_UNAVAILABLE);
  free(t);
}

static void session(int close_first) {
  vyc_context *context = open_context();
  vyc_module *module = NULL;
  vyc_stream *stream = NULL;
  vyc_event *event = NULL;
  vyc_call *call = NULL;
  vyc_pinned *pinned = NULL;
  void *image = NULL;
  size_t image_bytes = 0;
  char log[512];
  OK(vyc_module_link(&image, &image_bytes, log, sizeof log, context, PTX, strlen(PTX) + 1));
  OK(vyc_module_load(&module, log, sizeof log, context, image, image_bytes));
  free(image);
  vyc_prepared *prepared = scale_prepared(module, STREAMED);
  vyc_module_release(module);
  OK(vyc_stream_create(&stream, context));
  OK(vyc_pinned_alloc(&pinned, context, 100));
  vyc_buffer *in = NULL, *out = NULL;
  OK(vyc_buffer_alloc(&in, context, N * 4));
  OK(vyc_buffer_alloc(&out, context, N * 4));
  OK(vyc_fill_zero(in, 0, N * 4));
  OK(vyc_context_synchronize(context));
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  prepare(t, 3.0f);
  on_buffers(t, in, out);
  t->run.stream = stream;
  OK(vyc_call_create(&call, prepared, &t->run));
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  OK(vyc_call_run(call));
  OK(vyc_stream_record(stream, &event));
  OK(vyc_event_synchronize(event));
  many_threads(context, prepared, call);
  if (close_first) {
    OK(vyc_context_close(context));
    closed(context, prepared, call);
  }
  vyc_context_release(context);
  vyc_prepared_release(prepared);
  vyc_call_release(call);
  vyc_event_release(event);
  vyc_stream_release(stream);
  vyc_pinned_release(pinned);
  free(t);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  session(1);
  session(0);
  check_nothing_lives();
  puts("dispatch: 2 sessions passed");
  return 0;
}
