/* The arguments of a launch in messages: by the labels of its prepared kernel, whole or not at all,
 * however many threads launch on one stream while others read. Made for the sanitizers. */
#define _POSIX_C_SOURCE 200809L
#include "context/room.h"

#include "bench_test.h"

#define THREADS 4
#define ROUNDS 3000

static const vyc_label LABELS[] = {
    {"px", VYC_TYPE_F32, 0}, {"po", VYC_TYPE_F32, 0}, {"a", VYC_TYPE_F32, 0}};

static char text[16384];

static const char *in_flight(vyc_context *context) {
  uint32_t count = 0;
  OK(vyc_context_in_flight(context, text, sizeof text, &count));
  return text;
}

static vyc_prepared *labeled(vyc_module *module, const vyc_label *labels, uint32_t struct_size) {
  vyc_prepared_desc desc = scale_desc(STREAMED);
  desc.struct_size = struct_size;
  desc.labels = labels;
  vyc_prepared *prepared = NULL;
  OK(vyc_prepared_create(&prepared, module, &desc));
  return prepared;
}

/* Of the emulator, whose memory is the host's. */
static uint64_t address_of(vyc_buffer *buffer) {
  uint64_t address = 0;
  OK(vyc_buffer_address(buffer, &address));
  return address;
}

static void launch_and_compare(bench *b, vyc_prepared *prepared, const char *with) {
  char wanted[512];
  snprintf(wanted, sizeof wanted, "scale%s, 1 launch ago in call order", with);
  for (int i = 0; i < 3; i++) { /* plain, by a new graph, by that again */
    OK(vyc_context_synchronize(b->context));
    OK(vyc_prepared_launch(prepared, &b->task.run));
    CHECK(strcmp(in_flight(b->context), wanted) == 0);
  }
  vyc_prepared_release(prepared);
}

static void arguments_are_told_by_their_labels(void) {
  bench b;
  char with[256];
  set_up(&b, 2.5f);
  emulator_set("stream_mode", LAZY);
  const unsigned long long in = address_of(b.in), out = address_of(b.out);
  snprintf(with, sizeof with, " with px=float32[%u] at 0x%llx, po=float32 at 0x%llx, a=2.5", N, in,
           out);
  launch_and_compare(&b, labeled(b.module, LABELS, sizeof(vyc_prepared_desc)), with);
  snprintf(with, sizeof with, " with 0x%llx, 0x%llx, 0x%llx", in, out,
           (unsigned long long)bits(2.5f));
  launch_and_compare(&b, labeled(b.module, NULL, sizeof(vyc_prepared_desc)), with);
  const uint32_t earlier = offsetof(vyc_prepared_desc, labels);
  launch_and_compare(&b, labeled(b.module, LABELS, earlier), with);
  tear_down(&b);
}

static void a_type_that_there_is_not_is_refused(void) {
  bench b;
  set_up(&b, 2.5f);
  const vyc_label wrong[] = {{"px", VYC_TYPE_F32, 0}, {"po", VYC_TYPE_F64 + 1, 0}, {NULL, 0, 0}};
  vyc_prepared_desc desc = scale_desc(STREAMED);
  desc.labels = wrong;
  vyc_prepared *prepared = NULL;
  CHECK(vyc_prepared_create(&prepared, b.module, &desc) == VYC_E_INVALID);
  tear_down(&b);
}

/* As a reader finds an entry that one thread is writing, or that two have written at once. */
static void arguments_that_are_not_the_notes_are_not_told(void) {
  bench b;
  set_up(&b, 2.5f);
  emulator_set("stream_mode", LAZY);
  vyc_prepared *prepared = labeled(b.module, LABELS, sizeof(vyc_prepared_desc));
  OK(vyc_prepared_launch(prepared, &b.task.run));
  vyc_entry *entry = &b.context->history.entries[VYC_SLOT_MAIN][0];
  for (uint32_t i = 0; i <= VYC_NOTED_WORDS; i++) {
    _Atomic uint64_t *word = i == VYC_NOTED_WORDS ? &entry->check : &entry->words[i];
    CHECK(strstr(in_flight(b.context), "scale with px=") != NULL);
    atomic_fetch_xor(word, 1);
    CHECK(strcmp(in_flight(b.context), "scale, 1 launch ago in call order") == 0);
    atomic_fetch_xor(word, 1);
  }
  for (uint32_t i = 0; i < 2; i++) atomic_fetch_xor(&entry->words[i], 256); /* buffers farther on */
  CHECK(strcmp(in_flight(b.context), "scale, 1 launch ago in call order") == 0);
  vyc_prepared_release(prepared);
  tear_down(&b);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct launcher {
  bench *bench;
  vyc_prepared *prepared;
  vyc_buffer *in, *out;
  vyc_call *call;
  task task;
  char with[128];
} launcher;

static void *launch_on(void *argument) {
  launcher *l = argument;
  for (int i = 0; i < ROUNDS; i++) {
    OK(vyc_prepared_launch(l->prepared, &l->task.run));
    OK(vyc_call_run(l->call));
    OK(vyc_call_set_run(l->call, &l->task.run));
  }
  return NULL;
}

typedef struct reader {
  vyc_context *context;
  const launcher *launchers;
  int *over; /* by __atomic */
  uint64_t told; /* by __atomic */
} reader;

static int is_one_of(const launcher *launchers, const char *line) {
  for (int i = 0; i < THREADS; i++)
    if (strstr(line, launchers[i].with) != NULL) return 1;
  return 0;
}

static void *read_on(void *argument) {
  reader *r = argument;
  static char lines[16384];
  while (!__atomic_load_n(r->over, __ATOMIC_ACQUIRE)) {
    uint32_t count = 0;
    char *rest = NULL;
    OK(vyc_context_in_flight(r->context, lines, sizeof lines, &count));
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
      if (strstr(line, " with ") == NULL) continue;
      __atomic_fetch_add(&r->told, 1, __ATOMIC_RELAXED);
      CHECK(is_one_of(r->launchers, line));
    }
  }
  return NULL;
}

/* Each launcher has arguments of its own, so a line with those of two is seen. */
static void arguments_of_two_launches_are_never_mixed(void) {
  bench b;
  set_up(&b, 2.5f);
  static launcher launchers[THREADS];
  vyc_prepared *prepared = labeled(b.module, LABELS, sizeof(vyc_prepared_desc));
  for (int i = 0; i < THREADS; i++) {
    launcher *l = &launchers[i];
    l->bench = &b;
    l->prepared = prepared;
    l->in = new_buffer(b.context, N * 4);
    l->out = new_buffer(b.context, N * 4);
    prepare(&l->task, (float)i + 0.5f);
    on_buffers(&l->task, l->in, l->out);
    OK(vyc_call_create(&l->call, prepared, &l->task.run));
    snprintf(l->with, sizeof l->with,
             " with px=float32[%u] at 0x%llx, po=float32 at 0x%llx, a=%d.5,", N,
             (unsigned long long)address_of(l->in), (unsigned long long)address_of(l->out), i);
  }
  int over = 0;
  reader r = {b.context, launchers, &over, 0};
  pthread_t reading, launching[THREADS];
  CHECK(pthread_create(&reading, NULL, read_on, &r) == 0);
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&launching[i], NULL, launch_on, &launchers[i]) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(launching[i], NULL) == 0);
  OK(vyc_prepared_launch(prepared, &launchers[0].task.run)); /* there is one to be told at last */
  while (__atomic_load_n(&r.told, __ATOMIC_RELAXED) == 0) {
  }
  __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
  CHECK(pthread_join(reading, NULL) == 0);
  for (int i = 0; i < THREADS; i++) {
    vyc_call_release(launchers[i].call);
    vyc_buffer_release(launchers[i].in);
    vyc_buffer_release(launchers[i].out);
  }
  vyc_prepared_release(prepared);
  tear_down(&b);
}

/* ---- room ------------------------------------------------------------------------------------ */

/* What is in flight when the device is lost, for a caller with room for so many bytes of it. */
static void lose(size_t room, int whole) {
  bench b;
  vyc_error error = {0};
  set_up(&b, 2.5f);
  emulator_set("stream_mode", LAZY);
  vyc_prepared *prepared = labeled(b.module, LABELS, sizeof(vyc_prepared_desc));
  for (int i = 0; i < 30; i++) OK(vyc_prepared_launch(prepared, &b.task.run));
  CHECK(emulator_fail("cuStreamQuery", 1, 700, 0) == 0);
  CHECK(emulator_fail("cuStreamSynchronize", 1, 700, 0) == 0);
  CHECK(vyc_context_synchronize(b.context) == VYC_E_LOST);
  error.struct_size = (uint32_t)(offsetof(vyc_error, launches) + room);
  OK(vyc_last_error(&error));
  const size_t used = strlen(error.launches);
  CHECK(used < room);
  CHECK((used > 0) == whole);
  if (whole) CHECK(strcmp(error.launches + used - strlen("in call order"), "in call order") == 0);
  CHECK(emulator_reset() == 0);
  vyc_prepared_release(prepared);
  vyc_buffer_release(b.in);
  vyc_buffer_release(b.out);
  vyc_module_release(b.module);
  vyc_context_release(b.context);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  arguments_are_told_by_their_labels();
  a_type_that_there_is_not_is_refused();
  arguments_that_are_not_the_notes_are_not_told();
  arguments_of_two_launches_are_never_mixed();
  lose(sizeof((vyc_error *)NULL)->launches, 1);
  lose(1024, 1); /* a caller with less room */
  lose(16, 0);
  printf("ok\n");
  return 0;
}
