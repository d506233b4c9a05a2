/* What a caller may get wrong: absent arguments, hostile counts, shorter structs. Each is refused
 * with the right status before anything is touched. */
#define _DEFAULT_SOURCE
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dispatch_test.h"

#define REFUSED(call) CHECK((call) == VYC_E_INVALID)

static void absent_handles_are_refused(void) {
  vyc_driver_info info = {.struct_size = sizeof info};
  vyc_caps caps = {.struct_size = sizeof caps};
  vyc_memory_stats stats = {.struct_size = sizeof stats};
  vyc_function_info function = {.struct_size = sizeof function};
  char text[8], byte = 0;
  uint64_t word = 0;
  size_t size = 0;
  float real = 0;
  void *pointer = NULL;
  const char *name = NULL;
  REFUSED(vyc_last_error(NULL));
  REFUSED(vyc_driver_open(NULL, NULL));
  REFUSED(vyc_driver_started(NULL, NULL));
  REFUSED(vyc_driver_info_get(NULL, &info));
  REFUSED(vyc_driver_device_name(NULL, text, sizeof text, 0));
  REFUSED(vyc_caps_field(NULL, &size, 0));
  REFUSED(vyc_caps_field(&name, &size, UINT32_MAX));
  REFUSED(vyc_context_open(NULL, NULL, 0));
  REFUSED(vyc_context_caps(NULL, &caps));
  REFUSED(vyc_context_synchronize(NULL));
  REFUSED(vyc_context_synchronize_for(NULL, 0));
  REFUSED(vyc_context_close(NULL));
  REFUSED(vyc_context_close_for(NULL, 0));
  REFUSED(vyc_context_set_patience(NULL, 0));
  REFUSED(vyc_fence_create(NULL, NULL));
  REFUSED(vyc_fence_wait(NULL, 0));
  REFUSED(vyc_context_memory_stats(NULL, &stats));
  REFUSED(vyc_context_trim(NULL));
  REFUSED(vyc_stream_create(NULL, NULL));
  REFUSED(vyc_stream_synchronize(NULL));
  REFUSED(vyc_stream_synchronize_for(NULL, 0));
  REFUSED(vyc_stream_query(NULL));
  REFUSED(vyc_stream_handle(NULL, &word));
  REFUSED(vyc_stream_record(NULL, NULL));
  REFUSED(vyc_stream_wait(NULL, NULL));
  REFUSED(vyc_event_synchronize(NULL));
  REFUSED(vyc_event_synchronize_for(NULL, 0));
  REFUSED(vyc_event_query(NULL));
  REFUSED(vyc_event_elapsed(NULL, &real, NULL));
  REFUSED(vyc_buffer_alloc(NULL, NULL, 1));
  REFUSED(vyc_buffer_try_alloc(NULL, NULL, 1));
  REFUSED(vyc_context_set_memory_budget(NULL, 0, 0));
  REFUSED(vyc_buffer_address(NULL, &word));
  REFUSED(vyc_buffer_synchronize_for(NULL, 1, 0));
  REFUSED(vyc_copy_in(NULL, 0, &byte, 1));
  REFUSED(vyc_copy_out(NULL, 0, &byte, 1));
  REFUSED(vyc_copy(NULL, 0, NULL, 0, 1));
  REFUSED(vyc_upload(NULL, NULL, 0));
  REFUSED(vyc_download(NULL, NULL, 0));
  REFUSED(vyc_fill_zero(NULL, 0, 1));
  REFUSED(vyc_pinned_alloc(NULL, NULL, 1));
  REFUSED(vyc_pinned_register(NULL, NULL, &byte, 1));
  REFUSED(vyc_pinned_data(NULL, &pointer));
  REFUSED(vyc_module_load(NULL, NULL, 0, NULL, "", 1));
  REFUSED(vyc_module_link(NULL, NULL, NULL, 0, NULL, "", 1));
  REFUSED(vyc_prepared_create(NULL, NULL, NULL));
  REFUSED(vyc_prepared_function(NULL, &function));
  REFUSED(vyc_prepared_run(NULL, NULL, NULL));
  REFUSED(vyc_prepared_submit(NULL, NULL, NULL));
  REFUSED(vyc_prepared_launch(NULL, NULL));
  REFUSED(vyc_ticket_query(NULL));
  REFUSED(vyc_ticket_wait(NULL, 0));
  REFUSED(vyc_ticket_timing(NULL, NULL));
  REFUSED(vyc_call_create(NULL, NULL, NULL));
  REFUSED(vyc_call_set(NULL, NULL));
  REFUSED(vyc_call_run(NULL));
  REFUSED(vyc_context_is_behind(NULL, NULL));
  REFUSED(vyc_call_set_run(NULL, NULL));
}

static void nothing_is_released(void) {
  vyc_driver_release(NULL);
  vyc_context_release(NULL);
  vyc_stream_release(NULL);
  vyc_event_release(NULL);
  vyc_buffer_release(NULL);
  OK(vyc_buffer_try_release(NULL));
  vyc_pinned_release(NULL);
  vyc_module_release(NULL);
  vyc_prepared_release(NULL);
  vyc_call_release(NULL);
  vyc_ticket_release(NULL);
}

static void a_run_is_checked(vyc_context *context, vyc_prepared *prepared) {
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  vyc_ticket *ticket = NULL;
  vyc_timing timing = {.struct_size = sizeof timing - 1};
  REFUSED(vyc_prepared_run(prepared, NULL, NULL));
  prepare(t, 1.0f);
  t->run.argument_count = 1;
  REFUSED(vyc_prepared_run(prepared, NULL, &t->run));
  prepare(t, 1.0f);
  t->run.struct_size = 8;
  REFUSED(vyc_prepared_submit(prepared, &ticket, &t->run));
  prepare(t, 1.0f);
  t->run.arguments = NULL;
  REFUSED(vyc_prepared_run(prepared, NULL, &t->run));
  prepare(t, 1.0f);
  t->run.scalars = NULL;
  REFUSED(vyc_prepared_run(prepared, NULL, &t->run));
  prepare(t, 1.0f);
  t->run.timing_out = &timing;
  REFUSED(vyc_prepared_run(prepared, NULL, &t->run));
  prepare(t, 1.0f);
  t->arguments[1].result = NULL;
  REFUSED(vyc_prepared_run(prepared, NULL, &t->run));
  prepare(t, 1.0f);
  t->arguments[0].kind = 9;
  REFUSED(vyc_prepared_run(prepared, NULL, &t->run));
  prepare(t, 1.0f);
  t->arguments[0].count = UINT64_MAX / 2;
  REFUSED(vyc_prepared_run(prepared, NULL, &t->run));
  CHECK(ticket == NULL);
  vyc_buffer *buffer = new_buffer(context, 16);
  prepare(t, 1.0f);
  on_buffers(t, buffer, buffer);
  REFUSED(vyc_prepared_launch(prepared, &t->run));
  t->arguments[0].count = t->arguments[1].count = 4;
  REFUSED(vyc_prepared_launch(prepared, &t->run));
  REFUSED(vyc_prepared_run(prepared, NULL, &t->run));
  t->arguments[1].offset = 8;
  t->arguments[0].count = t->arguments[1].count = 2;
  OK(vyc_prepared_launch(prepared, &t->run));
  t->arguments[1].offset = 10; /* misaligned */
  t->arguments[0].count = t->arguments[1].count = 1;
  REFUSED(vyc_prepared_launch(prepared, &t->run));
  REFUSED(vyc_prepared_run(prepared, NULL, &t->run));
  prepare(t, 1.0f);
  REFUSED(vyc_prepared_launch(prepared, &t->run));
  vyc_buffer_release(buffer);
  free(t);
}

static void a_prepared_kernel_is_checked(vyc_module *module) {
  vyc_prepared *prepared = NULL;
  vyc_parameter narrow[] = {{VYC_PARAMETER_POINTER, 0, 0, 4, {0}}};
  vyc_prepared_desc desc = scale_desc(STREAMED);
  desc.block[1] = 0;
  REFUSED(vyc_prepared_create(&prepared, module, &desc));
  desc = scale_desc(STREAMED);
  desc.entry = "absent";
  REFUSED(vyc_prepared_create(&prepared, module, &desc));
  CHECK(strstr(vyc_last_message(), "absent") != NULL);
  desc = scale_desc(STREAMED);
  desc.block[0] = desc.block[1] = desc.block[2] = UINT32_MAX;
  REFUSED(vyc_prepared_create(&prepared, module, &desc));
  desc = scale_desc(STREAMED);
  desc.scalar_count = UINT32_MAX;
  REFUSED(vyc_prepared_create(&prepared, module, &desc));
  desc = scale_desc(STREAMED);
  desc.dynamic_shared_bytes = UINT32_MAX;
  REFUSED(vyc_prepared_create(&prepared, module, &desc));
  desc = scale_desc(STREAMED);
  desc.parameters = NULL;
  REFUSED(vyc_prepared_create(&prepared, module, &desc));
  desc = scale_desc(STREAMED);
  desc.parameter_bytes = 23;
  REFUSED(vyc_prepared_create(&prepared, module, &desc));
  desc = scale_desc(STREAMED);
  desc.parameters = narrow;
  desc.parameter_count = 1;
  REFUSED(vyc_prepared_create(&prepared, module, &desc));
  CHECK(prepared == NULL);
}

/* 2^31 * 2^31 * 4 blocks, which is 0 in 64 bits. */
static void a_cooperative_grid_is_checked_without_wrapping(vyc_module *module) {
  vyc_prepared_desc desc = scale_desc(STREAMED);
  desc.flags = VYC_PREPARED_COOPERATIVE;
  vyc_prepared *prepared = NULL;
  OK(vyc_prepared_create(&prepared, module, &desc));
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  prepare(t, 2.0f);
  OK(vyc_prepared_run(prepared, NULL, &t->run));
  verify(t);
  t->run.grid[0] = t->run.grid[1] = 1u << 31;
  t->run.grid[2] = 4;
  CHECK(vyc_prepared_run(prepared, NULL, &t->run) == VYC_E_UNSUPPORTED);
  vyc_prepared_release(prepared);
  free(t);
}

static void memory_is_checked(vyc_context *context) {
  char bytes[16] = {0};
  vyc_buffer *buffer = NULL;
  vyc_pinned *pinned = NULL;
  CHECK(vyc_buffer_alloc(&buffer, context, UINT64_MAX) == VYC_E_MEMORY);
  CHECK(vyc_buffer_alloc(&buffer, context, UINT64_MAX - (3 << 20)) == VYC_E_MEMORY);
  CHECK(vyc_pinned_alloc(&pinned, context, UINT64_MAX) == VYC_E_MEMORY);
  CHECK(buffer == NULL && pinned == NULL);
  buffer = new_buffer(context, sizeof bytes);
  REFUSED(vyc_copy_in(buffer, 8, bytes, 16));
  REFUSED(vyc_copy_in(buffer, 0, NULL, 1));
  REFUSED(vyc_copy_out(buffer, UINT64_MAX, bytes, 2));
  REFUSED(vyc_copy(buffer, 0, buffer, 1, 16));
  REFUSED(vyc_fill_zero(buffer, 1, UINT64_MAX));
  OK(vyc_copy_in(buffer, 16, NULL, 0));
  vyc_buffer_release(buffer);
}

static void page_locked_arguments_are_checked(vyc_context *context, vyc_prepared *prepared) {
  vyc_context *other = open_context();
  task *t = malloc(sizeof *t);
  CHECK(t != NULL);
  vyc_pinned *in = NULL, *foreign = NULL, *none = NULL;
  OK(vyc_pinned_register(&in, context, t->in, sizeof t->in));
  OK(vyc_pinned_alloc(&foreign, other, sizeof t->in));
  REFUSED(vyc_pinned_register(&none, context, &t->in[1], 8));
  CHECK(none == NULL);
  prepare(t, 1.0f);
  t->arguments[0].kind = VYC_ARGUMENT_PINNED;
  t->arguments[0].pinned = foreign;
  REFUSED(vyc_prepared_run(prepared, NULL, &t->run));
  t->arguments[0].pinned = in;
  t->arguments[0].data = &t->in[1];
  REFUSED(vyc_prepared_run(prepared, NULL, &t->run));
  t->arguments[0].data = (const char *)t->in - 4;
  REFUSED(vyc_prepared_run(prepared, NULL, &t->run));
  t->arguments[0].data = (const char *)t->in + 2; /* misaligned */
  t->arguments[0].count = N - 1;
  REFUSED(vyc_prepared_run(prepared, NULL, &t->run));
  t->arguments[0].data = t->in;
  t->arguments[0].count = N;
  OK(vyc_prepared_run(prepared, NULL, &t->run));
  verify(t);
  vyc_pinned_release(in);
  vyc_pinned_release(foreign);
  free(t);
  vyc_context_release(other);
}

static void capabilities_have_names(vyc_context *context) {
  OK(vyc_context_supports(context, "cooperative_launch"));
  OK(vyc_context_supports(context, "conditional_nodes"));
  CHECK(vyc_context_supports(context, "cooperation") == VYC_E_INVALID);
  CHECK(vyc_context_supports(context, NULL) == VYC_E_INVALID);
  CHECK(vyc_context_supports(NULL, "cooperative_launch") == VYC_E_INVALID);
}

static void an_image_is_checked(vyc_context *context) {
  vyc_module *module = NULL;
  void *image = NULL;
  size_t bytes = 0;
  char log[512];
  char *text = malloc(strlen(PTX)); /* not one byte more */
  CHECK(text != NULL);
  memcpy(text, PTX, strlen(PTX));
  REFUSED(vyc_module_load(&module, NULL, 0, context, text, strlen(PTX)));
  REFUSED(vyc_module_link(&image, &bytes, NULL, 0, context, text, strlen(PTX)));
  REFUSED(vyc_module_load(&module, NULL, 0, context, NULL, 1));
  CHECK(vyc_module_load(&module, log, sizeof log, context, "nonsense", 9) == VYC_E_COMPILE);
  CHECK(strlen(log) > 0);
  CHECK(module == NULL && image == NULL);
  free(text);
}

/* A caller built against an older header has shorter structs: their rest is left alone. */
static void shorter_structs_are_filled_as_far_as_they_go(vyc_context *context,
                                                         vyc_prepared *prepared) {
  vyc_caps caps;
  vyc_memory_stats stats;
  vyc_function_info info;
  vyc_error error;
  memset(&caps, 0x55, sizeof caps);
  memset(&stats, 0x55, sizeof stats);
  memset(&info, 0x55, sizeof info);
  memset(&error, 0x55, sizeof error);
  caps.struct_size = offsetof(vyc_caps, driver_version);
  stats.struct_size = offsetof(vyc_memory_stats, peak_bytes);
  info.struct_size = offsetof(vyc_function_info, local_bytes);
  error.struct_size = offsetof(vyc_error, tag);
  OK(vyc_context_caps(context, &caps));
  OK(vyc_context_memory_stats(context, &stats));
  OK(vyc_prepared_function(prepared, &info));
  OK(vyc_last_error(&error));
  CHECK(caps.struct_size == offsetof(vyc_caps, driver_version) && caps.ordinal == 0);
  CHECK(caps.driver_version == 0x55555555);
  CHECK(stats.reserved == 0 && stats.peak_bytes == UINT64_C(0x5555555555555555));
  CHECK(info.registers != 0x55555555 && info.local_bytes == 0x55555555);
  CHECK(error.tag == UINT64_C(0x5555555555555555));
}

/* ---- structs of an earlier version ------------------------------------------------------------
 */

/* The first version's part of a run, at the end of readable memory. */
static vyc_run *first_version(const vyc_run *run, void **memory_out) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = offsetof(vyc_run, iterations);
  uint8_t *memory =
      mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED && mprotect(memory + page, page, PROT_NONE) == 0);
  vyc_run *old = (vyc_run *)(void *)(memory + page - bytes);
  memcpy(old, run, bytes);
  old->struct_size = (uint32_t)bytes;
  *memory_out = memory;
  return old;
}

static void a_run_of_the_first_version_is_read_no_further(void) {
  vyc_context *context = open_context();
  vyc_module *module = load_module(context);
  vyc_prepared *prepared = scale_prepared(module, STREAMED);
  vyc_buffer *in = filled(context, 3.0f), *out = new_buffer(context, BYTES);
  vyc_call *call = NULL;
  vyc_graph *graph = NULL;
  vyc_ticket *ticket = NULL;
  task t;
  void *memory = NULL, *host_memory = NULL;
  uint32_t step = 0;
  prepare(&t, 2.0f);
  vyc_run *host = first_version(&t.run, &host_memory);
  OK(vyc_prepared_run(prepared, NULL, host));
  verify(&t);
  OK(vyc_prepared_submit(prepared, &ticket, host));
  OK(vyc_ticket_wait(ticket, -1));
  vyc_ticket_release(ticket);
  on_buffers(&t, in, out);
  vyc_run *run = first_version(&t.run, &memory);
  for (int i = 0; i < 3; i++) OK(vyc_prepared_launch(prepared, run));
  OK(vyc_call_create(&call, prepared, run));
  OK(vyc_call_set(call, run));
  for (int i = 0; i < 3; i++) OK(vyc_call_set_run(call, run));
  OK(vyc_graph_create(&graph, context));
  OK(vyc_graph_add_launch(graph, &step, prepared, run));
  OK(vyc_graph_finish(graph));
  const vyc_graph_change change = {.step = step, .run = run};
  OK(vyc_graph_update(graph, &change, 1));
  OK(vyc_graph_launch(graph, &change, 1, NULL));
  check_filled(out, 6.0f);
  vyc_graph_release(graph);
  vyc_call_release(call);
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  vyc_prepared_release(prepared);
  vyc_module_release(module);
  vyc_context_release(context);
  munmap(memory, 2 * (size_t)sysconf(_SC_PAGESIZE));
  munmap(host_memory, 2 * (size_t)sysconf(_SC_PAGESIZE));
}

/* A struct that ends before the second appended field still has the first one. */
static void iterations_count_without_an_origin(void) {
  vyc_context *context = open_context();
  vyc_module *module = load_module(context);
  vyc_prepared *prepared = scale_prepared(module, COPIED);
  task t;
  prepare(&t, 2.0f);
  t.run.struct_size = offsetof(vyc_run, origin);
  t.run.iterations = 3;
  uint64_t before = 0, after = 0;
  OK(vyc_context_stats(context, &before, 1)); /* kernel_launches */
  OK(vyc_prepared_run(prepared, NULL, &t.run));
  OK(vyc_context_stats(context, &after, 1));
  CHECK(after - before == 3);
  vyc_prepared_release(prepared);
  vyc_module_release(module);
  vyc_context_release(context);
}

/* ---- after a close -----------------------------------------------------------------------------
 */

static void page_locked_memory_has_its_address_in_every_state(void) {
  vyc_context *context = open_context();
  vyc_pinned *pinned = NULL;
  void *before = NULL, *after = NULL;
  OK(vyc_pinned_alloc(&pinned, context, 4096));
  OK(vyc_pinned_data(pinned, &before));
  OK(vyc_context_close(context));
  OK(vyc_pinned_data(pinned, &after));
  CHECK(after != NULL && after == before);
  vyc_pinned_release(pinned);
  vyc_context_release(context);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  vyc_context *context = open_context();
  vyc_module *module = load_module(context);
  vyc_prepared *prepared = scale_prepared(module, STREAMED);
  absent_handles_are_refused();
  nothing_is_released();
  a_run_is_checked(context, prepared);
  a_prepared_kernel_is_checked(module);
  a_cooperative_grid_is_checked_without_wrapping(module);
  memory_is_checked(context);
  page_locked_arguments_are_checked(context, prepared);
  an_image_is_checked(context);
  capabilities_have_names(context);
  shorter_structs_are_filled_as_far_as_they_go(context, prepared);
  vyc_prepared_release(prepared);
  vyc_module_release(module);
  vyc_context_release(context);
  check_nothing_lives();
  puts("contract: passed");
  a_run_of_the_first_version_is_read_no_further();
  iterations_count_without_an_origin();
  page_locked_memory_has_its_address_in_every_state();
  return 0;
}
