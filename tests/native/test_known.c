/* A prepared kernel with known values: every function that takes a run refuses another value, with
 * both in its message, and nothing of it is kept. */
#include "bench_test.h"

#define OTHER_A "kernel scale: a is 3.0, but the kernel was compiled for 2.0"
#define OTHER_SIZE "kernel scale: px.size is 499, but the kernel was compiled for 500"

static const vyc_known KNOWN[] = {
    {VYC_PARAMETER_SCALAR, 0, VYC_TYPE_F32, 0, 0x40000000u, "a"},
    {VYC_PARAMETER_SIZE, 0, 0, 0, N, "px.size"},
};

static vyc_prepared *with_known(vyc_module *module) {
  vyc_known known[2];
  char names[2][16];
  vyc_prepared_desc desc = scale_desc(STREAMED);
  memcpy(known, KNOWN, sizeof known);
  for (int i = 0; i < 2; i++) known[i].name = strcpy(names[i], KNOWN[i].name);
  desc.known = known;
  desc.known_count = 2;
  vyc_prepared *prepared = NULL;
  OK(vyc_prepared_create(&prepared, module, &desc));
  memset(known, 0, sizeof known); /* all of it was copied */
  memset(names, 0, sizeof names);
  return prepared;
}

static void refused(vyc_status status, const char *words) {
  vyc_error error = {.struct_size = sizeof error};
  CHECK(status == VYC_E_INVALID);
  OK(vyc_last_error(&error));
  CHECK(strcmp(error.message, words) == 0);
}

static vyc_status run(bench *b, vyc_prepared *prepared, const vyc_run *given) {
  (void)b;
  return vyc_prepared_run(prepared, NULL, given);
}

static vyc_status submit(bench *b, vyc_prepared *prepared, const vyc_run *given) {
  vyc_ticket *ticket = NULL;
  (void)b;
  const vyc_status status = vyc_prepared_submit(prepared, &ticket, given);
  if (status == VYC_OK) OK(vyc_ticket_wait(ticket, -1));
  vyc_ticket_release(ticket);
  return status;
}

static vyc_status launch_again(bench *b, vyc_prepared *prepared, const vyc_run *given) {
  for (int i = 0; i < 3; i++) OK(vyc_prepared_launch(prepared, &b->task.run)); /* then: relaunch */
  return vyc_prepared_launch(prepared, given);
}

static vyc_status bind(bench *b, vyc_prepared *prepared, const vyc_run *given) {
  vyc_call *call = NULL;
  (void)b;
  const vyc_status status = vyc_call_create(&call, prepared, given);
  if (status == VYC_OK) OK(vyc_call_run(call));
  vyc_call_release(call);
  return status;
}

static vyc_status rebind(bench *b, vyc_prepared *prepared, const vyc_run *given) {
  vyc_call *call = NULL;
  OK(vyc_call_create(&call, prepared, &b->task.run));
  for (int i = 0; i < 3; i++) OK(vyc_call_set_run(call, &b->task.run));
  const vyc_status status = vyc_call_set_run(call, given);
  if (status != VYC_OK) CHECK(vyc_call_set(call, given) == status);
  OK(vyc_call_run(call)); /* with what was bound before */
  vyc_call_release(call);
  return status;
}

static vyc_status record(bench *b, vyc_prepared *prepared, const vyc_run *given) {
  vyc_graph *graph = NULL;
  uint32_t step = 0;
  OK(vyc_graph_create(&graph, b->context));
  const vyc_status status = vyc_graph_add_launch(graph, &step, prepared, given);
  vyc_graph_release(graph);
  return status;
}

static vyc_status change(bench *b, vyc_prepared *prepared, const vyc_run *given) {
  vyc_graph *graph = NULL;
  uint32_t step = 0;
  OK(vyc_graph_create(&graph, b->context));
  OK(vyc_graph_add_launch(graph, &step, prepared, &b->task.run));
  OK(vyc_graph_finish(graph));
  const vyc_graph_change other = {.step = step, .run = given};
  const vyc_status status = vyc_graph_launch(graph, &other, 1, NULL);
  OK(vyc_graph_launch(graph, NULL, 0, NULL)); /* as it was recorded */
  vyc_graph_release(graph);
  return status;
}

static vyc_status ask(bench *b, vyc_prepared *prepared, const vyc_run *given) {
  (void)b;
  return vyc_prepared_check(prepared, given);
}

typedef vyc_status door_of(bench *b, vyc_prepared *prepared, const vyc_run *given);

static void every_door_refuses_another_value(door_of *door, bench *b, vyc_prepared *prepared) {
  float out[N];
  uint64_t a = bits(3.0f);
  vyc_argument arguments[2];
  vyc_run given = b->task.run;
  OK(door(b, prepared, &given));
  given.scalars = &a;
  refused(door(b, prepared, &given), OTHER_A);
  a = bits(2.0f) | UINT64_C(0xabcd) << 32; /* beyond the scalar's bytes: not the kernel's */
  OK(door(b, prepared, &given));
  memcpy(arguments, given.arguments, sizeof arguments);
  arguments[0].count = N - 1;
  given.arguments = arguments;
  refused(door(b, prepared, &given), OTHER_SIZE);
  given.scalar_count = UINT32_MAX;
  CHECK(door(b, prepared, &given) == VYC_E_INVALID);
  OK(vyc_copy_out(b->out, 0, out, sizeof out));
  for (uint32_t i = 0; i < N; i++) CHECK(out[i] == 2.0f * (float)i);
}

static void descriptions_are_checked(vyc_module *module) {
  vyc_prepared *prepared = NULL;
  vyc_prepared_desc desc = scale_desc(STREAMED);
  vyc_known known = KNOWN[0];
  desc.known = &known;
  desc.known_count = 1;
  known.kind = VYC_PARAMETER_POINTER;
  CHECK(vyc_prepared_create(&prepared, module, &desc) == VYC_E_INVALID);
  known = KNOWN[0];
  known.index = 1;
  CHECK(vyc_prepared_create(&prepared, module, &desc) == VYC_E_INVALID);
  known = KNOWN[1];
  known.index = 2;
  CHECK(vyc_prepared_create(&prepared, module, &desc) == VYC_E_INVALID);
  known = KNOWN[0];
  known.name = NULL;
  CHECK(vyc_prepared_create(&prepared, module, &desc) == VYC_E_INVALID);
  known = KNOWN[0];
  known.type = VYC_TYPE_F64 + 1;
  CHECK(vyc_prepared_create(&prepared, module, &desc) == VYC_E_INVALID);
  known = KNOWN[0];
  desc.known_count = 4;
  CHECK(vyc_prepared_create(&prepared, module, &desc) == VYC_E_INVALID);
  desc.known = NULL;
  CHECK(vyc_prepared_create(&prepared, module, &desc) == VYC_E_INVALID);
  CHECK(prepared == NULL);
}

/* What lies behind its struct is not read. */
static void a_caller_of_an_earlier_version_knows_none(vyc_module *module, const task *t) {
  vyc_prepared *prepared = NULL;
  vyc_prepared_desc desc = scale_desc(STREAMED);
  desc.struct_size = offsetof(vyc_prepared_desc, known);
  desc.known = (const vyc_known *)(uintptr_t)1;
  desc.known_count = 7;
  OK(vyc_prepared_create(&prepared, module, &desc));
  OK(vyc_prepared_check(prepared, &t->run));
  vyc_prepared_release(prepared);
}

int main(int argc, char **argv) {
  bench b;
  float data[N];
  door_of *const doors[] = {run, submit, launch_again, bind, rebind, record, change, ask};
  emulator_open(argc, argv);
  set_up(&b, 2.0f);
  for (uint32_t i = 0; i < N; i++) data[i] = (float)i;
  OK(vyc_copy_in(b.in, 0, data, sizeof data));
  vyc_prepared *prepared = with_known(b.module);
  OK(vyc_prepared_run(prepared, NULL, &b.task.run));
  for (size_t i = 0; i < sizeof doors / sizeof doors[0]; i++)
    every_door_refuses_another_value(doors[i], &b, prepared);
  descriptions_are_checked(b.module);
  a_caller_of_an_earlier_version_knows_none(b.module, &b.task);
  vyc_prepared_release(prepared);
  tear_down(&b);
  printf("ok\n");
  return 0;
}
