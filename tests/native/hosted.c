/* A host that owns the CUcontext, the stream and the memory that libvyre_cuda works with, on the
 * emulator or on a GPU. It keeps all of it: what the host has current stays current, everything
 * that was taken from it is given back, and both may end before the other.
 *
 *   hosted DRIVER BUNDLE primary|created
 *
 * BUNDLE is example.vyre. The context is the retained primary one, or one of cuCtxCreate, which the
 * emulator does not have. Every test is a process of its own, so that a fault ends one of them
 * alone. */
#define _POSIX_C_SOURCE 200809L
#include "hosted.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- tests ------------------------------------------------------------------------------------
 */

static void *run_elsewhere(void *argument) {
  host *self = argument;
  work w;
  check_current(NULL);
  begin(&w, self->vyc);
  run_all(&w, self->vyc);
  end(&w);
  check_current(NULL);
  return NULL;
}

static void the_context_is_used_and_left_as_it_was(void) {
  static host self;
  pthread_t thread;
  work w;
  CUdeviceptr kept = 0;
  float back[N] = {0};
  make_context(&self);
  CU(alloc(&kept, BYTES));
  open_ours(&self);
  begin(&w, self.vyc);
  CU(upload(kept, w.x, BYTES, NULL));
  run_all(&w, self.vyc);
  run_on_stream_of_the_host(&w, self.vyc);
  CHECK(pthread_create(&thread, NULL, run_elsewhere, &self) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  end(&w);
  OK(vyc_context_close(self.vyc));
  check_given_back(&self);
  check_current(self.context);
  vyc_context_release(self.vyc);
  CU(download(back, kept, BYTES, NULL));
  CU(synchronize());
  CHECK(memcmp(back, w.x, BYTES) == 0);
  CU(free(kept));
  end_context(&self);
}

static void a_last_reference_closes_and_gives_everything_back(void) {
  static host self;
  vyc_pinned *pinned = NULL;
  work w;
  make_context(&self);
  open_ours(&self);
  begin(&w, self.vyc);
  run_all(&w, self.vyc);
  OK(vyc_pinned_alloc(&pinned, self.vyc, BYTES));
  vyc_pinned_release(pinned);
  vyc_context_release(self.vyc);
  run_host_arrays(&w);
  end(&w);
  check_given_back(&self);
  check_current(self.context);
  CU(synchronize());
  end_context(&self);
}

/* Of memory of ours that outlives the close. */
static void page_locked_memory_goes_back_when_it_is_released(void) {
  static host self;
  vyc_pinned *pinned = NULL;
  work w;
  void *data = NULL;
  make_context(&self);
  open_ours(&self);
  begin(&w, self.vyc);
  OK(vyc_pinned_alloc(&pinned, self.vyc, BYTES));
  OK(vyc_pinned_data(pinned, &data));
  OK(vyc_context_close(self.vyc));
  CHECK(self.device_taken == self.device_given && self.pinned_taken == self.pinned_given + 1);
  memset(data, 1, BYTES);
  vyc_pinned_release(pinned);
  end(&w);
  vyc_context_release(self.vyc);
  CHECK(self.pinned_taken == self.pinned_given);
  end_context(&self);
}

static void a_failed_assertion_leaves_the_context_well(void) {
  static host self;
  work w;
  vyc_bundled_kernel *checked = NULL;
  vyc_error error = {.struct_size = sizeof error};
  vyc_site site = {.struct_size = sizeof site};
  int32_t x[4] = {5, 6, 1, 7};
  make_context(&self);
  open_ours(&self);
  begin(&w, self.vyc);
  OK(vyc_bundled_kernel_load(&checked, NULL, 0, self.vyc, w.bundle, "checked", 9));
  const vyc_argument argument = {.kind = VYC_ARGUMENT_HOST, .count = 4, .data = x, .result = x};
  const uint64_t least = 3;
  const vyc_run run = {.struct_size = sizeof run,
                       .argument_count = 1,
                       .scalar_count = 1,
                       .arguments = &argument,
                       .scalars = &least,
                       .timeout_ns = -1};
  CHECK(vyc_bundled_kernel_run(checked, NULL, &run) == VYC_E_ASSERT);
  OK(vyc_last_error(&error));
  CHECK(error.tag == 9 && error.report >> 20 == 2);
  OK(vyc_bundled_kernel_site(checked, &site, error.report));
  CHECK(strcmp(site.message, "too small") == 0);
  run_all(&w, self.vyc);
  vyc_bundled_kernel_release(checked);
  end(&w);
  vyc_context_release(self.vyc);
  check_given_back(&self);
  end_context(&self);
}

static const char POKE[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                           ".visible .entry poke()\n{\n.reg .b64 %a;\n.reg .b32 %b;\n"
                           "mov.u64 %a, 16;\nmov.u32 %b, 1;\nst.global.u32 [%a], %b;\nret;\n}\n";

static void a_fault_is_told_and_everything_is_given_back(void) {
  static host self;
  work w;
  vyc_module *module = NULL;
  vyc_prepared *prepared = NULL;
  vyc_error error = {.struct_size = sizeof error};
  make_context(&self);
  open_ours(&self);
  begin(&w, self.vyc);
  run_all(&w, self.vyc);
  OK(vyc_module_load(&module, NULL, 0, self.vyc, POKE, sizeof POKE));
  const vyc_prepared_desc desc = {.struct_size = sizeof desc, .block = {1, 1, 1}, .entry = "poke"};
  const vyc_run run = {.struct_size = sizeof run, .grid = {1, 1, 1}, .timeout_ns = -1};
  OK(vyc_prepared_create(&prepared, module, &desc));
  OK(vyc_prepared_launch(prepared, &run));
  CHECK(vyc_context_synchronize(self.vyc) == VYC_E_LOST);
  OK(vyc_last_error(&error));
  CHECK(error.driver_result == CUDA_ERROR_ILLEGAL_ADDRESS &&
        strstr(error.launches, "poke") != NULL);
  on_host(&w, 1);
  CHECK(vyc_bundled_kernel_run(w.saxpy, NULL, &w.run) == VYC_E_LOST);
  CHECK(self.messages >= 1);
  vyc_prepared_release(prepared);
  vyc_module_release(module);
  end(&w);
  vyc_context_close(self.vyc);
  vyc_context_release(self.vyc);
  check_given_back(&self);
  check_current(self.context);
  if (is_created) cu.destroy(self.context); /* answers with the fault, as everything does now */
}

/* ---- the host's context ends first ------------------------------------------------------------
 */

static void check_destroyed(vyc_status status) {
  vyc_error error = {.struct_size = sizeof error};
  CHECK(status == VYC_E_UNAVAILABLE);
  OK(vyc_last_error(&error));
  CHECK(strstr(error.message, "destroyed") != NULL);
}

/* In a new context everything goes on. */
static void open_again(void) {
  static host again;
  work w;
  make_context(&again);
  open_ours(&again);
  begin(&w, again.vyc);
  run_all(&w, again.vyc);
  end(&w);
  OK(vyc_context_close(again.vyc));
  vyc_context_release(again.vyc);
  check_given_back(&again);
  end_context(&again);
}

static void a_destroyed_context_is_told_by_every_call(void) {
  static host self;
  work w;
  vyc_buffer *buffer = NULL;
  vyc_stream *stream = NULL;
  make_context(&self);
  open_ours(&self);
  begin(&w, self.vyc);
  run_all(&w, self.vyc);
  end_context(&self);
  check_destroyed(vyc_context_synchronize(self.vyc));
  check_destroyed(vyc_buffer_alloc(&buffer, self.vyc, 64 << 20));
  check_destroyed(vyc_stream_create(&stream, self.vyc));
  check_destroyed(vyc_copy_out(w.buffers[0], 0, w.out, BYTES));
  on_host(&w, 1);
  check_destroyed(vyc_bundled_kernel_run(w.saxpy, NULL, &w.run));
  CHECK(self.messages >= 1);
  end(&w);
  OK(vyc_context_close(self.vyc)); /* which has nothing new to tell */
  vyc_context_release(self.vyc);
  open_again();
}

static void a_close_tells_that_the_context_was_destroyed(void) {
  static host self;
  work w;
  make_context(&self);
  open_ours(&self);
  begin(&w, self.vyc);
  run_all(&w, self.vyc);
  end_context(&self);
  check_destroyed(vyc_context_close(self.vyc));
  OK(vyc_context_close(self.vyc));
  end(&w);
  vyc_context_release(self.vyc);
  open_again();
}

/* The next context may have the same handle. */
static void a_context_is_not_taken_for_the_next_one(void) {
  static host self, next;
  work w;
  make_context(&self);
  open_ours(&self);
  begin(&w, self.vyc);
  end_context(&self);
  make_context(&next);
  check_destroyed(vyc_context_synchronize(self.vyc));
  end(&w);
  vyc_context_release(self.vyc);
  check_current(next.context);
  CU(synchronize());
  end_context(&next);
}

/* One of everything that can be held, with work in flight. */
typedef struct held {
  vyc_stream *stream;
  vyc_event *event;
  vyc_fence *fence;
  vyc_ticket *ticket;
  vyc_prepared *prepared;
  vyc_call *call;
  vyc_replay *replay;
  vyc_graph *graph;
  vyc_pinned *pinned, *registered;
  char locked[4096];
} held;

static void hold(held *h, work *w, vyc_context *context) {
  uint32_t step = 0;
  OK(vyc_stream_create(&h->stream, context));
  OK(vyc_bundled_kernel_prepared(w->saxpy, &h->prepared));
  on_device(w, 2);
  vyc_run run = w->run;
  run.stream = h->stream;
  OK(vyc_bundled_kernel_resolve(w->saxpy, &run));
  OK(vyc_call_create(&h->call, h->prepared, &run));
  OK(vyc_call_run(h->call));
  run.stream = NULL;
  OK(vyc_graph_create(&h->graph, context));
  OK(vyc_graph_add_launch(h->graph, &step, h->prepared, &run));
  OK(vyc_graph_finish(h->graph));
  OK(vyc_graph_launch(h->graph, NULL, 0, NULL));
  OK(vyc_stream_record(h->stream, &h->event));
  OK(vyc_fence_create(&h->fence, context));
  OK(vyc_replay_load(&h->replay, NULL, 0, context, w->bundle, "step", 0));
  OK(vyc_pinned_alloc(&h->pinned, context, BYTES));
  OK(vyc_pinned_register(&h->registered, context, h->locked, sizeof h->locked));
  on_host(w, 3);
  OK(vyc_bundled_kernel_submit(w->saxpy, &h->ticket, &w->run));
}

static void let_go(held *h) {
  vyc_pinned_release(h->registered);
  vyc_pinned_release(h->pinned);
  vyc_ticket_release(h->ticket);
  vyc_fence_release(h->fence);
  vyc_event_release(h->event);
  vyc_replay_release(h->replay);
  vyc_call_release(h->call);
  vyc_graph_release(h->graph);
  vyc_prepared_release(h->prepared);
  vyc_stream_release(h->stream);
}

/* Everything is released with nobody asking before, or after a close. */
static void release_after_the_end(int closes) {
  static host self;
  static held h;
  work w;
  make_context(&self);
  open_ours(&self);
  begin(&w, self.vyc);
  run_all(&w, self.vyc);
  hold(&h, &w, self.vyc);
  end_context(&self);
  if (closes) check_destroyed(vyc_context_close(self.vyc));
  const int given = self.device_given + self.pinned_given;
  let_go(&h);
  end(&w);
  vyc_context_release(self.vyc);
  CHECK(self.device_given + self.pinned_given == given);
  open_again();
}

static void releases_after_the_end_call_nobody(void) { release_after_the_end(0); }
static void releases_after_end_and_close_call_nobody(void) { release_after_the_end(1); }

static const struct {
  const char *name;
  void (*run)(void);
  int leaves; /* something with the driver, which the fault keeps from going */
  int outlives; /* the context: a driver cannot tell what is left of one that cuCtxCreate made */
} TESTS[] = {
    {"the context is used and left as it was", the_context_is_used_and_left_as_it_was, 0, 0},
    {"a last reference closes", a_last_reference_closes_and_gives_everything_back, 0, 0},
    {"page-locked memory goes back", page_locked_memory_goes_back_when_it_is_released, 0, 0},
    {"a failed assertion", a_failed_assertion_leaves_the_context_well, 0, 0},
    {"a fault", a_fault_is_told_and_everything_is_given_back, 1, 0},
    {"a destroyed context is told", a_destroyed_context_is_told_by_every_call, 1, 1},
    {"a close tells it", a_close_tells_that_the_context_was_destroyed, 1, 1},
    {"the next context", a_context_is_not_taken_for_the_next_one, 1, 1},
    {"releases after the end", releases_after_the_end_call_nobody, 1, 1},
    {"releases after end and close", releases_after_end_and_close_call_nobody, 1, 1},
};

static int run_test(size_t index) {
  fflush(NULL);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    open_driver();
    TESTS[index].run();
    if (!TESTS[index].leaves) check_nothing_lives();
    exit(0);
  }
  int state = 0;
  CHECK(waitpid(child, &state, 0) == child);
  if (state == 0) return 0;
  fprintf(stderr, "%s: %s %d\n", TESTS[index].name, WIFSIGNALED(state) ? "signal" : "status",
          WIFSIGNALED(state) ? WTERMSIG(state) : WEXITSTATUS(state));
  return 1;
}

int main(int count, char **words) {
  const int known =
      count == 4 && (strcmp(words[3], "primary") == 0 || strcmp(words[3], "created") == 0);
  if (!known) {
    fprintf(stderr, "%s DRIVER BUNDLE primary|created\n", words[0]);
    return 2;
  }
  driver_path = words[1];
  bundle_path = words[2];
  is_created = strcmp(words[3], "created") == 0;
  int run = 0, failed = 0;
  for (size_t i = 0; i < sizeof TESTS / sizeof *TESTS; i++) {
    if (is_created && TESTS[i].outlives) continue;
    run++;
    failed += run_test(i);
  }
  printf("%d tests, %d failed\n", run, failed);
  return failed != 0;
}
