/* A kernel with an entry for several elements a thread: which launches take it, with how many
 * blocks, by every function that launches. Each block of `one` counts 1, each of `several` 1000. */
#include "bench_test.h"

enum { BLOCK = 32, ELEMENTS = 4, FROM = 10 * BLOCK };

#define COUNTING(name, step)                                                                       \
  ".visible .entry " name "(.param .u64 p)\n{\n.reg .pred %p<1>; .reg .b32 %r<2>; .reg .b64 "      \
  "%rd<1>;\nmov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;\nld.param.u64 %rd0, [p];\n"  \
  "mov.u32 %r1, " step ";\nred.relaxed.gpu.global.add.u32 [%rd0], %r1;\nret;\n}\n"

#define HEADER ".version 7.8\n.target sm_90\n.address_size 64\n"
static const char *const TEXT = HEADER COUNTING("one", "1") COUNTING("several", "1000");
static const char *const ONE = HEADER COUNTING("one", "1");
static const char *const OTHER = HEADER COUNTING("other", "1000");

static const vyc_parameter PARAMETERS[] = {{VYC_PARAMETER_POINTER, 0, 0, 8, {0}}};
static const vyc_binding BINDINGS[] = {{VYC_ROLE_INOUT, 0, 4, 0}};

static vyc_prepared_desc description(void) {
  return (vyc_prepared_desc){.struct_size = sizeof(vyc_prepared_desc),
                             .block = {BLOCK, 1, 1},
                             .parameter_bytes = 8,
                             .parameter_count = 1,
                             .binding_count = 1,
                             .entry = "one",
                             .parameters = PARAMETERS,
                             .bindings = BINDINGS,
                             .several = "several",
                             .several_elements = ELEMENTS,
                             .several_from = FROM};
}

typedef struct counter {
  vyc_context *context;
  vyc_prepared *prepared;
  vyc_buffer *buffer;
  vyc_argument argument;
  uint32_t word; /* of host runs */
} counter;

static vyc_run run_of(counter *c, uint32_t blocks, uint32_t flags) {
  c->argument = (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = 1, .buffer = c->buffer};
  return (vyc_run){.struct_size = sizeof(vyc_run),
                   .grid = {blocks, 1, 1},
                   .argument_count = 1,
                   .arguments = &c->argument,
                   .timeout_ns = -1,
                   .flags = flags};
}

static uint32_t counted(counter *c) {
  uint32_t count = 0;
  const uint32_t zero = 0;
  OK(vyc_copy_out(c->buffer, 0, &count, sizeof count));
  OK(vyc_copy_in(c->buffer, 0, &zero, sizeof zero));
  return count;
}

/* ---- the functions that launch ----------------------------------------------------------------
 */

typedef uint32_t door_of(counter *c, vyc_run *run);

static uint32_t host_run(counter *c, vyc_run *run) {
  c->word = 0;
  c->argument =
      (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = 1, .data = &c->word, .result = &c->word};
  OK(vyc_prepared_run(c->prepared, NULL, run));
  return c->word;
}

static uint32_t mixed_submit(counter *c, vyc_run *run) {
  vyc_ticket *ticket = NULL;
  OK(vyc_prepared_submit(c->prepared, &ticket, run));
  OK(vyc_ticket_wait(ticket, -1));
  vyc_ticket_release(ticket);
  return counted(c);
}

static uint32_t launch_on_device(counter *c, vyc_run *run) {
  OK(vyc_prepared_launch(c->prepared, run));
  return counted(c);
}

static uint32_t bind(counter *c, vyc_run *run) {
  vyc_call *call = NULL;
  OK(vyc_call_create(&call, c->prepared, run));
  OK(vyc_call_run(call));
  const uint32_t first = counted(c);
  OK(vyc_call_run(call));
  CHECK(counted(c) == first);
  vyc_call_release(call);
  return first;
}

static vyc_call *bound; /* one whose arguments change from run to run */

static uint32_t rebind(counter *c, vyc_run *run) {
  OK(vyc_call_set_run(bound, run));
  const uint32_t first = counted(c);
  OK(vyc_call_run(bound));
  CHECK(counted(c) == first);
  OK(vyc_call_set(bound, run));
  OK(vyc_call_run(bound));
  CHECK(counted(c) == first);
  return first;
}

static uint32_t record(counter *c, vyc_run *run) {
  vyc_graph *graph = NULL;
  uint32_t step = 0;
  OK(vyc_graph_create(&graph, c->context));
  OK(vyc_graph_add_launch(graph, &step, c->prepared, run));
  OK(vyc_graph_finish(graph));
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  vyc_graph_release(graph);
  return counted(c);
}

static vyc_graph *recorded; /* of one step, which changes from run to run */

static uint32_t change(counter *c, vyc_run *run) {
  const vyc_graph_change other = {.step = 0, .run = run};
  OK(vyc_graph_launch(recorded, &other, 1, NULL));
  return counted(c);
}

/* ---- the launches ------------------------------------------------------------------------------
 */

static void by(door_of *door, counter *c) {
  static const uint32_t blocks[] = {1, 9, 10, 11, 12, 13, 4, 400, 9, 10};
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
    const uint32_t groups = (blocks[i] + ELEMENTS - 1) / ELEMENTS;
    vyc_run run = run_of(c, blocks[i], VYC_RUN_GRID_OF_WORK);
    CHECK(door(c, &run) == (blocks[i] * BLOCK < FROM ? blocks[i] : 1000 * groups));
    run = run_of(c, blocks[i], 0); /* the caller's own grid */
    CHECK(door(c, &run) == blocks[i]);
    run = run_of(c, blocks[i], VYC_RUN_GRID_OF_WORK);
    run.grid[1] = 2;
    CHECK(door(c, &run) == 2 * blocks[i]);
    run = run_of(c, blocks[i], VYC_RUN_GRID_OF_WORK);
    run.struct_size = offsetof(vyc_run, flags); /* of an earlier version */
    CHECK(door(c, &run) == blocks[i]);
  }
}

/* What the kernel reads and writes in host memory has one element a thread. */
static void host_memory(vyc_module *module, counter *c) {
  const vyc_binding streaming = {VYC_ROLE_INOUT, VYC_BINDING_STREAMING, 4, 0};
  vyc_prepared *const copied = c->prepared;
  vyc_prepared_desc desc = description();
  desc.bindings = &streaming;
  OK(vyc_prepared_create(&c->prepared, module, &desc));
  vyc_run run = run_of(c, 400, VYC_RUN_GRID_OF_WORK);
  CHECK(launch_on_device(c, &run) == 100 * 1000);
  CHECK(host_run(c, &run) == 400);
  vyc_prepared_release(c->prepared);
  c->prepared = copied;
}

static void refused(vyc_module *module, const vyc_prepared_desc *desc) {
  vyc_prepared *prepared = NULL;
  CHECK(vyc_prepared_create(&prepared, module, desc) != VYC_OK);
  CHECK(prepared == NULL);
}

static void descriptions_are_checked(vyc_module *module) {
  vyc_prepared_desc desc = description();
  desc.several_elements = 1;
  refused(module, &desc);
  desc = description();
  desc.block[1] = 2;
  refused(module, &desc);
  desc = description();
  desc.flags = VYC_PREPARED_COOPERATIVE;
  refused(module, &desc);
  desc = description();
  desc.several = "missing";
  refused(module, &desc);
  desc.struct_size = offsetof(vyc_prepared_desc, several); /* of an earlier version */
  vyc_prepared *prepared = NULL;
  OK(vyc_prepared_create(&prepared, module, &desc));
  vyc_prepared_release(prepared);
}

static vyc_module *loaded(vyc_context *context, const char *text) {
  vyc_module *module = NULL;
  OK(vyc_module_load(&module, NULL, 0, context, text, strlen(text) + 1));
  return module;
}

static void is_refused(vyc_status status) { CHECK(status == VYC_E_INVALID); }

/* ---- an entry that is added --------------------------------------------------------------------
 */

static door_of *const DOORS[] = {host_run, mixed_submit, launch_on_device, launch_on_device,
                                 bind,     rebind,       record,           change};
enum { DOOR_COUNT = sizeof DOORS / sizeof DOORS[0] };

/* A call and a graph whose grid changes from run to run, made by a small run. */
static void make_changing(counter *c) {
  const vyc_run first = run_of(c, 1, 0);
  uint32_t step = 0;
  OK(vyc_call_create(&bound, c->prepared, &first));
  OK(vyc_graph_create(&recorded, c->context));
  OK(vyc_graph_add_launch(recorded, &step, c->prepared, &first));
  OK(vyc_graph_finish(recorded));
}

static void release_changing(void) {
  vyc_call_release(bound);
  vyc_graph_release(recorded);
}

/* Until it is there, all runs have one element a thread. */
static void is_added_later(vyc_context *context) {
  counter c = {.context = context, .buffer = new_buffer(context, 4)};
  vyc_module *one = loaded(context, ONE), *other = loaded(context, OTHER);
  vyc_prepared_desc desc = description();
  desc.several = NULL;
  OK(vyc_prepared_create(&c.prepared, one, &desc));
  make_changing(&c);
  counted(&c);
  for (size_t i = 0; i < DOOR_COUNT; i++) {
    vyc_run run = run_of(&c, 400, VYC_RUN_GRID_OF_WORK);
    CHECK(DOORS[i](&c, &run) == 400);
    run = run_of(&c, 1, VYC_RUN_GRID_OF_WORK);
    CHECK(DOORS[i](&c, &run) == 1);
  }
  CHECK(vyc_prepared_add_several(c.prepared, other, "missing", ELEMENTS, FROM) != VYC_OK);
  OK(vyc_prepared_add_several(c.prepared, other, "other", ELEMENTS, FROM));
  is_refused(vyc_prepared_add_several(c.prepared, other, "other", ELEMENTS, FROM));
  vyc_module_release(other); /* the prepared kernel keeps it */
  for (size_t i = 0; i < DOOR_COUNT; i++) by(DOORS[i], &c);
  release_changing();
  vyc_prepared_release(c.prepared);
  vyc_module_release(one);
  vyc_buffer_release(c.buffer);
}

static void additions_are_checked(counter *c, vyc_module *module) {
  vyc_prepared *prepared = NULL;
  vyc_prepared_desc desc = description();
  is_refused(vyc_prepared_add_several(c->prepared, module, "several", ELEMENTS, FROM));
  desc.several = NULL;
  OK(vyc_prepared_create(&prepared, module, &desc));
  is_refused(vyc_prepared_add_several(prepared, module, "several", 1, FROM));
  is_refused(vyc_prepared_add_several(prepared, module, NULL, ELEMENTS, FROM));
  is_refused(vyc_prepared_add_several(prepared, NULL, "several", ELEMENTS, FROM));
  is_refused(vyc_prepared_add_several(NULL, module, "several", ELEMENTS, FROM));
  vyc_context *context = open_context();
  vyc_module *foreign = loaded(context, TEXT);
  is_refused(vyc_prepared_add_several(prepared, foreign, "several", ELEMENTS, FROM));
  vyc_module_release(foreign);
  vyc_context_release(context);
  vyc_prepared_release(prepared);
  desc.block[1] = 2;
  OK(vyc_prepared_create(&prepared, module, &desc));
  is_refused(vyc_prepared_add_several(prepared, module, "several", ELEMENTS, FROM));
  vyc_prepared_release(prepared);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  counter c = {.context = open_context()};
  vyc_module *module = loaded(c.context, TEXT);
  c.buffer = new_buffer(c.context, 4);
  const vyc_prepared_desc desc = description();
  OK(vyc_prepared_create(&c.prepared, module, &desc));
  counted(&c);
  make_changing(&c);
  for (size_t i = 0; i < DOOR_COUNT; i++) by(DOORS[i], &c);
  host_memory(module, &c);
  descriptions_are_checked(module);
  additions_are_checked(&c, module);
  release_changing();
  vyc_prepared_release(c.prepared);
  vyc_buffer_release(c.buffer);
  vyc_module_release(module);
  is_added_later(c.context);
  vyc_context_release(c.context);
  check_nothing_lives();
  return 0;
}
