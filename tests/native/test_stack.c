/* How much of its caller's stack the library takes up to a driver call, whatever the kernel, and
 * that it touches each page of what it takes.
 *
 * Every function of the driver's table is reached through a few instructions that keep the lowest
 * stack pointer seen. */
#define _DEFAULT_SOURCE
#include <sys/mman.h>

#include "base/driver.h" /* in front of what takes short names */

#include "dispatch_test.h"

#define BUFFERS 256u
#define SCALARS 3800u
#define LOST_BUFFER 7u /* that launches change */
#define ELEMENTS 4u

/* Sanitizers surround every variable with room of their own, and what is not optimized keeps all of
 * them apart. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define MOST_BYTES (4u * 8192u)
#else
#define MOST_BYTES 8192u
#endif

static uintptr_t lowest;

/* ---- the driver's table ---------------------------------------------------------------------- */

#if defined(__x86_64__)
/* movabs rax, &lowest; cmp [rax], rsp; jbe over; mov [rax], rsp; over: movabs rax, real; jmp rax */
static const uint8_t CODE[] = {0x48, 0xb8, 0,    0,    0,    0,    0,    0,    0,    0,
                               0x48, 0x39, 0x20, 0x76, 0x03, 0x48, 0x89, 0x20, 0x48, 0xb8,
                               0,    0,    0,    0,    0,    0,    0,    0,    0xff, 0xe0};
#define LOWEST_AT 2
#define REAL_AT 20

static void watch(vyc_driver *driver) {
  const size_t count = offsetof(struct vyc_driver, library) / sizeof(void *);
  uint8_t *code =
      mmap(NULL, count * 32, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED);
  uint8_t *const table = (uint8_t *)driver;
  for (size_t i = 0; i < count; i++) {
    uint8_t *at = code + 32 * i;
    uintptr_t *const where = &lowest;
    void *real;
    memcpy(&real, table + i * sizeof real, sizeof real);
    memcpy(at, CODE, sizeof CODE);
    memcpy(at + LOWEST_AT, &where, sizeof where);
    memcpy(at + REAL_AT, &real, sizeof real);
    if (real != NULL) memcpy(table + i * sizeof real, &at, sizeof at);
  }
  CHECK(mprotect(code, count * 32, PROT_READ | PROT_EXEC) == 0);
}
#else /* then nothing is measured but by the paint below */
static void watch(vyc_driver *driver) { (void)driver; }
#endif

/* ---- a kernel of many arguments ---------------------------------------------------------------
 */

typedef struct wide {
  vyc_context *context;
  vyc_module *module;
  vyc_prepared *prepared;
  vyc_stream *stream;
  vyc_buffer *buffers[BUFFERS], *other;
  vyc_argument arguments[BUFFERS];
  uint64_t scalars[SCALARS];
  uint32_t data[BUFFERS][ELEMENTS];
  vyc_run run;
  vyc_call *call;
  vyc_graph *graph;
} wide;

static wide w;

static char *wide_ptx(void) {
  const size_t bytes = 64u * (BUFFERS + SCALARS) + 512;
  char *text = malloc(bytes);
  CHECK(text != NULL);
  size_t used = (size_t)snprintf(
      text, bytes, ".version 8.1\n.target sm_90\n.address_size 64\n.visible .entry wide(");
  for (uint32_t i = 0; i < BUFFERS + SCALARS; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s.param .u64 p%u", i == 0 ? "" : ", ", i);
  snprintf(text + used, bytes - used, ")\n{\nret;\n}\n");
  return text;
}

static vyc_prepared *wide_prepared(vyc_module *module) {
  vyc_parameter *parameters = calloc(BUFFERS + SCALARS, sizeof *parameters);
  vyc_binding bindings[BUFFERS];
  CHECK(parameters != NULL);
  for (uint32_t i = 0; i < BUFFERS + SCALARS; i++)
    parameters[i] = (vyc_parameter){i < BUFFERS ? VYC_PARAMETER_POINTER : VYC_PARAMETER_SCALAR,
                                    i < BUFFERS ? i : i - BUFFERS,
                                    8 * i,
                                    8,
                                    {0}};
  for (uint32_t i = 0; i < BUFFERS; i++)
    bindings[i] = (vyc_binding){i % 2 == 0 ? VYC_ROLE_IN : VYC_ROLE_INOUT, 0, 4, 0};
  const vyc_prepared_desc desc = {.struct_size = sizeof desc,
                                  .block = {ELEMENTS, 1, 1},
                                  .parameter_bytes = 8 * (BUFFERS + SCALARS),
                                  .parameter_count = BUFFERS + SCALARS,
                                  .binding_count = BUFFERS,
                                  .scalar_count = SCALARS,
                                  .entry = "wide",
                                  .parameters = parameters,
                                  .bindings = bindings};
  vyc_prepared *prepared = NULL;
  OK(vyc_prepared_create(&prepared, module, &desc));
  free(parameters);
  return prepared;
}

static void on_device(void) {
  for (uint32_t i = 0; i < BUFFERS; i++)
    w.arguments[i] =
        (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = ELEMENTS, .buffer = w.buffers[i]};
}

static void on_host(void) {
  for (uint32_t i = 0; i < BUFFERS; i++)
    w.arguments[i] = (vyc_argument){.kind = VYC_ARGUMENT_HOST,
                                    .count = ELEMENTS,
                                    .data = w.data[i],
                                    .result = i % 2 == 0 ? NULL : w.data[i]};
}

static void set_up(void) {
  vyc_driver *driver = NULL;
  char log[512], *ptx = wide_ptx();
  memset(&w, 0, sizeof w);
  OK(vyc_driver_open(&driver, emulator_path));
  watch(driver);
  OK(vyc_context_open(&w.context, driver, 0));
  vyc_driver_release(driver);
  OK(vyc_module_load(&w.module, log, sizeof log, w.context, ptx, strlen(ptx) + 1));
  free(ptx);
  w.prepared = wide_prepared(w.module);
  w.stream = new_stream(w.context);
  for (uint32_t i = 0; i < BUFFERS; i++) w.buffers[i] = new_buffer(w.context, 4 * ELEMENTS);
  w.other = new_buffer(w.context, 4 * ELEMENTS);
  w.run = (vyc_run){.struct_size = sizeof w.run,
                    .grid = {1, 1, 1},
                    .argument_count = BUFFERS,
                    .scalar_count = SCALARS,
                    .arguments = w.arguments,
                    .scalars = w.scalars,
                    .timeout_ns = -1};
  on_device();
}

static void tear_down(void) {
  vyc_call_release(w.call);
  vyc_graph_release(w.graph);
  for (uint32_t i = 0; i < BUFFERS; i++) vyc_buffer_release(w.buffers[i]);
  vyc_buffer_release(w.other);
  vyc_stream_release(w.stream);
  vyc_prepared_release(w.prepared);
  vyc_module_release(w.module);
  vyc_context_release(w.context);
  check_nothing_lives();
}

/* ---- what is measured ------------------------------------------------------------------------ */

typedef vyc_status (*step)(void);

static vyc_status launch_wide(void) {
  w.scalars[0]++;
  return vyc_prepared_launch(w.prepared, &w.run);
}
static vyc_status launch_moved(void) {
  w.arguments[LOST_BUFFER].buffer = w.other;
  const vyc_status status = vyc_prepared_launch(w.prepared, &w.run);
  w.arguments[LOST_BUFFER].buffer = w.buffers[LOST_BUFFER];
  return status;
}
static vyc_status call_make(void) { return vyc_call_create(&w.call, w.prepared, &w.run); }
static vyc_status call_run(void) { return vyc_call_run(w.call); }
static vyc_status call_set(void) {
  w.scalars[1]++;
  return vyc_call_set(w.call, &w.run);
}
static vyc_status call_set_run(void) {
  w.scalars[2]++;
  return vyc_call_set_run(w.call, &w.run);
}
static vyc_status run_host(void) {
  w.scalars[3]++;
  return vyc_prepared_run(w.prepared, NULL, &w.run);
}
static vyc_status run_timed(void) {
  static vyc_timing timing;
  timing.struct_size = sizeof timing;
  w.run.timing_out = &timing;
  const vyc_status status = vyc_prepared_run(w.prepared, NULL, &w.run);
  w.run.timing_out = NULL;
  return status;
}
static vyc_status submit(void) {
  vyc_ticket *ticket = NULL;
  vyc_status status = vyc_prepared_submit(w.prepared, &ticket, &w.run);
  if (status == VYC_OK) status = vyc_ticket_wait(ticket, -1);
  vyc_ticket_release(ticket);
  return status;
}
static vyc_status graph_make(void) {
  uint32_t number = 0;
  vyc_status status = vyc_graph_create(&w.graph, w.context);
  if (status == VYC_OK) status = vyc_graph_add_launch(w.graph, &number, w.prepared, &w.run);
  if (status == VYC_OK) status = vyc_graph_add_launch(w.graph, &number, w.prepared, &w.run);
  return status == VYC_OK ? vyc_graph_finish(w.graph) : status;
}
static vyc_status graph_launch(void) { return vyc_graph_launch(w.graph, NULL, 0, NULL); }
static vyc_status graph_change(void) {
  w.scalars[4]++;
  w.arguments[LOST_BUFFER].buffer = w.other;
  const vyc_graph_change change = {.step = 1, .run = &w.run};
  const vyc_status status = vyc_graph_launch(w.graph, &change, 1, NULL);
  w.arguments[LOST_BUFFER].buffer = w.buffers[LOST_BUFFER];
  return status;
}
static vyc_status copy_in(void) { return vyc_copy_in(w.buffers[0], 0, w.data[0], 16); }
static vyc_status copy_out(void) { return vyc_copy_out(w.buffers[0], 0, w.data[0], 16); }
static vyc_status upload(void) {
  const vyc_transfer item = {.buffer = w.buffers[0], .bytes = 16, .data = w.data[0]};
  return vyc_upload(w.context, &item, 1);
}
static vyc_status synchronize(void) { return vyc_context_synchronize(w.context); }

/* Bytes from the call of `what` down to the deepest driver call in it. */
__attribute__((noinline)) static size_t depth_of(step what, vyc_status expected, const char *name) {
  const uintptr_t begin = (uintptr_t)__builtin_frame_address(0);
  lowest = begin;
  const vyc_status status = what();
  const size_t depth = begin - lowest;
  CHECK(status == expected);
  if (depth > MOST_BYTES) fprintf(stderr, "%s takes %zu bytes of stack\n", name, depth);
  CHECK(depth <= MOST_BYTES);
  return depth;
}
static size_t deepest;
#define WITHIN(what, expected)                                                                     \
  do {                                                                                             \
    const size_t depth = depth_of(what, expected, #what);                                          \
    if (depth > deepest) deepest = depth;                                                          \
  } while (0)

static void do_all(void) {
  for (int i = 0; i < 4; i++) WITHIN(launch_wide, VYC_OK);
  WITHIN(launch_moved, VYC_OK);
  w.run.stream = w.stream;
  for (int i = 0; i < 3; i++) WITHIN(launch_wide, VYC_OK);
  w.run.stream = NULL;
  WITHIN(call_make, VYC_OK);
  for (int i = 0; i < 3; i++) WITHIN(call_run, VYC_OK);
  WITHIN(call_set, VYC_OK);
  for (int i = 0; i < 3; i++) WITHIN(call_set_run, VYC_OK);
  WITHIN(synchronize, VYC_OK);
  on_host();
  for (int i = 0; i < 3; i++) WITHIN(run_host, VYC_OK);
  WITHIN(run_timed, VYC_OK);
  WITHIN(submit, VYC_OK);
  on_device();
  WITHIN(graph_make, VYC_OK);
  for (int i = 0; i < 2; i++) WITHIN(graph_launch, VYC_OK);
  for (int i = 0; i < 2; i++) WITHIN(graph_change, VYC_OK);
  WITHIN(copy_in, VYC_OK);
  WITHIN(copy_out, VYC_OK);
  WITHIN(upload, VYC_OK);
  WITHIN(synchronize, VYC_OK);
  vyc_call_release(w.call);
  vyc_graph_release(w.graph);
  w.call = NULL;
  w.graph = NULL;
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void every_launch_takes_little_of_the_stack(void) {
  set_up();
  do_all();
  tear_down();
}

static void streams_without_a_number_take_no_more(void) {
  enum { STREAMS = 64 };
  static vyc_stream *streams[STREAMS];
  set_up();
  for (int i = 0; i < STREAMS; i++) streams[i] = new_stream(w.context);
  w.run.stream = streams[STREAMS - 1];
  for (int i = 0; i < 3; i++) WITHIN(launch_wide, VYC_OK);
  w.run.stream = NULL;
  for (int i = 0; i < STREAMS; i++) vyc_stream_release(streams[i]);
  tear_down();
}

static void failures_take_no_more(void) {
  static const char *const CALLS[] = {"cuGraphInstantiateWithFlags",
                                      "cuGraphLaunch",
                                      "cuGraphExecKernelNodeSetParams",
                                      "cuMemAlloc",
                                      "cuMemHostAlloc",
                                      "cuStreamQuery"};
  set_up();
  WITHIN(launch_wide, VYC_OK);
  for (size_t i = 0; i < sizeof CALLS / sizeof CALLS[0]; i++) {
    w.scalars[0] += 1;
    OK(vyc_context_trim(w.context));
    for (int twice = 0; twice < 2; twice++) { /* a launch that builds, one that patches */
      CHECK(emulator_fail(CALLS[i], 1, CUDA_ERROR_OUT_OF_MEMORY, 1) == 0);
      const uintptr_t begin = (uintptr_t)__builtin_frame_address(0);
      lowest = begin;
      launch_wide();
      on_host();
      run_host();
      on_device();
      CHECK(begin - lowest <= MOST_BYTES + 512);
      CHECK(emulator_reset() == 0);
      OK(vyc_context_synchronize(w.context));
      launch_wide();
    }
  }
  tear_down();
}

/* What the thread sanitizer has for each thread, which pthread_create takes from its stack. */
#ifdef __SANITIZE_THREAD__
#define ON_STACK (1u << 20)
#else
#define ON_STACK 0u
#endif

/* A stack of 64 KiB whose lower part is painted, a guard page, and memory of somebody else. */
#define STACK ((64u << 10) * (MOST_BYTES / 8192u) + ON_STACK)
#define GUARD 4096u
#define VICTIM (256u << 10)

static void *all_in_thread(void *unused) {
  (void)unused;
  do_all();
  return NULL;
}

static void a_small_stack_is_enough_and_its_neighbor_is_left_alone(void) {
  set_up();
  CHECK(emulator_set("stream_mode", THREADED) == 0);
  const size_t bytes = VICTIM + GUARD + STACK;
  uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  memset(memory, 0x5a, bytes);
  CHECK(mprotect(memory + VICTIM, GUARD, PROT_NONE) == 0);
  pthread_attr_t attributes;
  pthread_t thread;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstack(&attributes, memory + VICTIM + GUARD, bytes - VICTIM - GUARD) == 0);
  CHECK(pthread_create(&thread, &attributes, all_in_thread, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  size_t left = 0, touched = 0;
  while (memory[VICTIM + GUARD + left] == 0x5a) left++;
  for (size_t i = 0; i < VICTIM; i++) touched += memory[i] != 0x5a;
  printf("of %zu bytes of stack %zu were touched, the driver's among them\n",
         bytes - VICTIM - GUARD, bytes - VICTIM - GUARD - left);
  CHECK(touched == 0);
  CHECK(left > 0);
  pthread_attr_destroy(&attributes);
  munmap(memory, bytes);
  tear_down();
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  every_launch_takes_little_of_the_stack();
  streams_without_a_number_take_no_more();
  failures_take_no_more();
  a_small_stack_is_enough_and_its_neighbor_is_left_alone();
  printf("at most %zu bytes of ours up to a driver call\n", deepest);
  return 0;
}
