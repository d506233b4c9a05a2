/* Bundles from C: opening and refusing them, and their kernels by name on the emulator. */
#include "bundle_test.h"

static uint8_t *contents;
static size_t contents_bytes;

static void read_example(void) {
  FILE *file = fopen(example_path(), "rb");
  CHECK(file != NULL);
  CHECK(fseek(file, 0, SEEK_END) == 0);
  contents_bytes = (size_t)ftell(file);
  rewind(file);
  contents = malloc(contents_bytes);
  CHECK(contents != NULL && fread(contents, 1, contents_bytes, file) == contents_bytes);
  fclose(file);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void opens_from_a_file_and_from_memory(void) {
  vyc_bundle *file = open_example(), *memory = NULL;
  OK(vyc_bundle_open(&memory, NULL, contents, contents_bytes));
  vyc_bundle_info a = {.struct_size = sizeof a}, b = {.struct_size = sizeof b};
  OK(vyc_bundle_info_get(file, &a));
  OK(vyc_bundle_info_get(memory, &b));
  CHECK(memcmp(&a, &b, sizeof a) == 0);
  CHECK(a.format_version >= 1 && a.format_version <= VYC_BUNDLE_FORMAT);
  CHECK(a.bytes == contents_bytes && a.kernel_count >= 1);
  vyc_bundle_release(memory);
  vyc_bundle_release(file);
}

static void wrong_calls_are_refused(void) {
  vyc_bundle *bundle = NULL;
  CHECK(vyc_bundle_open(NULL, example_path(), NULL, 0) == VYC_E_INVALID);
  CHECK(vyc_bundle_open(&bundle, NULL, NULL, 0) == VYC_E_INVALID);
  CHECK(vyc_bundle_open(&bundle, example_path(), contents, contents_bytes) == VYC_E_INVALID);
  CHECK(vyc_bundle_open(&bundle, "/nowhere/x.vyre", NULL, 0) == VYC_E_FILE);
  CHECK(vyc_bundle_open(&bundle, "/", NULL, 0) == VYC_E_FILE);
  CHECK(vyc_bundle_open(&bundle, "/dev/null", NULL, 0) == VYC_E_FORMAT);
  CHECK(bundle == NULL);
  vyc_bundle_release(NULL);
}

/* Whatever is cut off or changed, the digest or the length shows it. */
static void damaged_bundles_are_refused(void) {
  vyc_bundle *bundle = NULL;
  for (size_t bytes = 0; bytes < contents_bytes; bytes += bytes < 400 ? 1 : 97)
    CHECK(vyc_bundle_open(&bundle, NULL, contents, bytes) == VYC_E_FORMAT);
  for (size_t at = 0; at < contents_bytes; at += at < 400 ? 1 : 61) {
    contents[at] ^= 0x10;
    const vyc_status status = vyc_bundle_open(&bundle, NULL, contents, contents_bytes);
    CHECK(status == VYC_E_FORMAT || status == VYC_E_VERSION);
    contents[at] ^= 0x10;
  }
}

static void newer_formats_are_refused_by_name(void) {
  vyc_bundle *bundle = NULL;
  const unsigned char format = contents[8];
  contents[8] = VYC_BUNDLE_FORMAT + 1;
  CHECK(vyc_bundle_open(&bundle, NULL, contents, contents_bytes) == VYC_E_VERSION);
  contents[8] = format;
}

/* ---- looking --------------------------------------------------------------------------------- */

static void parameters_and_variants_are_told(void) {
  vyc_bundle *bundle = open_example();
  uint32_t index = 99;
  OK(vyc_bundle_kernel_find(bundle, &index, "saxpy"));
  vyc_bundle_kernel kernel = {.struct_size = sizeof kernel};
  OK(vyc_bundle_kernel_get(bundle, &kernel, index));
  CHECK(strcmp(kernel.name, "saxpy") == 0 && kernel.block[0] == 256 && kernel.axes == 1);
  CHECK(kernel.parameter_count == 4 && kernel.buffer_count == 3 && kernel.scalar_count == 1);
  vyc_bundle_parameter out = {.struct_size = sizeof out};
  OK(vyc_bundle_parameter_get(bundle, &out, index, 2));
  CHECK(strcmp(out.name, "out") == 0 && out.role == VYC_ROLE_OUT && out.type == VYC_TYPE_F32);
  CHECK(out.element_bytes == 4 && out.slot == 2 && out.is_sized == 1);
  vyc_bundle_variant variant = {.struct_size = sizeof variant};
  OK(vyc_bundle_variant_get(bundle, &variant, index, 0));
  CHECK(variant.sm == 80 && variant.ptx[variant.ptx_bytes - 1] == '\0' && variant.cubin == NULL);
  CHECK(vyc_bundle_variant_get(bundle, &variant, index, kernel.variant_count) == VYC_E_INVALID);
  CHECK(vyc_bundle_parameter_get(bundle, &out, index, 4) == VYC_E_INVALID);
  CHECK(vyc_bundle_kernel_get(bundle, &kernel, 1000) == VYC_E_INVALID);
  CHECK(vyc_bundle_kernel_find(bundle, &index, "nothing") == VYC_E_INVALID);
  vyc_bundle_release(bundle);
}

static void sizes_and_grids_are_worked_out(void) {
  vyc_bundle *bundle = open_example();
  uint32_t index = 0, grid[3] = {9, 9, 9};
  OK(vyc_bundle_kernel_find(bundle, &index, "saxpy"));
  uint64_t counts[3] = {1000, 1000, 0};
  const uint64_t scalar = 0;
  OK(vyc_bundle_shape(bundle, counts, grid, index, &scalar));
  CHECK(counts[2] == 1000 && grid[0] == 4 && grid[1] == 1 && grid[2] == 1);
  counts[0] = 0;
  OK(vyc_bundle_shape(bundle, counts, grid, index, &scalar));
  CHECK(counts[2] == 0 && grid[0] == 0 && grid[1] == 0 && grid[2] == 0);
  counts[0] = UINT64_C(1) << 32;
  CHECK(vyc_bundle_shape(bundle, counts, grid, index, &scalar) != VYC_OK);
  vyc_bundle_release(bundle);
}

/* ---- extents --------------------------------------------------------------------------------- */

static vyc_bundle *open_extents(uint32_t *kernel_out, const char *name) {
  vyc_bundle *bundle = NULL;
  OK(vyc_bundle_open(&bundle, path_beside("extents.vyre"), NULL, 0));
  OK(vyc_bundle_kernel_find(bundle, kernel_out, name));
  return bundle;
}

/* outer: x of (:, 4), y, z of size(y) + 1, o of (n, x.1, size(y)), and the scalar n; the extents
 * x.0, x.1, o.0, o.1 and o.2 are further scalars, of which the call gives x.0. */
enum { Y = 1, O = 3, SLOT_N = 0, SLOT_X0 = 1, OUTER_SCALARS = 6, OUTER_BUFFERS = 4 };

static void extents_follow_from_the_other_arguments(void) {
  uint32_t index = 0, grid[3];
  vyc_bundle *bundle = open_extents(&index, "outer");
  uint64_t counts[OUTER_BUFFERS] = {12, 2, 3, 99};
  uint64_t scalars[OUTER_SCALARS] = {2, 3, 77, 77, 77, 77};
  const uint64_t expected[OUTER_SCALARS] = {2, 3, 4, 2, 4, 2};
  OK(vyc_bundle_extents(bundle, scalars, index, counts));
  CHECK(memcmp(scalars, expected, sizeof expected) == 0);
  CHECK(counts[O] == 99);
  OK(vyc_bundle_shape(bundle, counts, grid, index, scalars));
  CHECK(counts[O] == 16 && grid[0] == 1 && grid[1] == 1 && grid[2] == 1);

  scalars[SLOT_N] = scalars[SLOT_X0] = counts[0] = 0;
  counts[Y] = 5;
  counts[2] = 6;
  const uint64_t none[OUTER_SCALARS] = {0, 0, 4, 0, 4, 5};
  OK(vyc_bundle_extents(bundle, scalars, index, counts));
  CHECK(memcmp(scalars, none, sizeof none) == 0);
  OK(vyc_bundle_shape(bundle, counts, grid, index, scalars));
  CHECK(counts[O] == 0 && grid[0] == 0);
  vyc_bundle_release(bundle);
}

static void sized_extents_are_those_that_follow(void) {
  static const struct {
    const char *name;
    uint32_t is_sized;
  } expected[] = {{"n", 0}, {"x.0", 0}, {"x.1", 1}, {"o.0", 1}, {"o.1", 1}, {"o.2", 1}};
  uint32_t index = 0, scalars = 0;
  vyc_bundle *bundle = open_extents(&index, "outer");
  vyc_bundle_kernel kernel = {.struct_size = sizeof kernel};
  OK(vyc_bundle_kernel_get(bundle, &kernel, index));
  CHECK(kernel.buffer_count == OUTER_BUFFERS && kernel.scalar_count == OUTER_SCALARS);
  for (uint32_t i = 0; i < kernel.parameter_count; i++) {
    vyc_bundle_parameter p = {.struct_size = sizeof p};
    OK(vyc_bundle_parameter_get(bundle, &p, index, i));
    if (p.role != VYC_ROLE_SCALAR) continue;
    CHECK(p.slot == scalars && strcmp(p.name, expected[scalars].name) == 0);
    CHECK(p.is_sized == expected[scalars].is_sized);
    scalars++;
  }
  CHECK(scalars == OUTER_SCALARS);
  vyc_bundle_release(bundle);
}

static int is_refused_for(vyc_status status, const char *text) {
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  return status == VYC_E_INVALID && strstr(error.message, text) != NULL;
}

static void extents_that_are_no_sizes_are_refused(void) {
  uint32_t index = 0;
  vyc_bundle *bundle = open_extents(&index, "outer");
  const uint64_t counts[OUTER_BUFFERS] = {12, 2, 3, 0};
  uint64_t scalars[OUTER_SCALARS] = {UINT32_MAX, 3, 0, 0, 0, 0};
  CHECK(is_refused_for(vyc_bundle_extents(bundle, scalars, index, counts),
                       "extent o.0 is negative or out of range of its type: -1"));
  vyc_bundle_release(bundle);

  bundle = open_extents(&index, "spread");
  const uint64_t most[2] = {65535, 0}, more[2] = {65536, 0};
  OK(vyc_bundle_extents(bundle, scalars, index, most));
  CHECK(scalars[0] == UINT64_C(65535) * 65536 && scalars[1] == 1);
  CHECK(is_refused_for(vyc_bundle_extents(bundle, scalars, index, more), "extent o.0 is "));
  vyc_bundle_release(bundle);
}

static void extents_of_nothing_are_refused(void) {
  uint32_t index = 0;
  vyc_bundle *bundle = open_extents(&index, "outer");
  const uint64_t counts[OUTER_BUFFERS] = {12, 2, 3, 0};
  uint64_t scalars[OUTER_SCALARS] = {2, 3};
  CHECK(vyc_bundle_extents(NULL, scalars, index, counts) == VYC_E_INVALID);
  CHECK(vyc_bundle_extents(bundle, NULL, index, counts) == VYC_E_INVALID);
  CHECK(vyc_bundle_extents(bundle, scalars, index, NULL) == VYC_E_INVALID);
  CHECK(vyc_bundle_extents(bundle, scalars, 2, counts) == VYC_E_INVALID);
  vyc_bundle_release(bundle);
}

static void a_kernel_without_extents_keeps_its_scalars(void) {
  vyc_bundle *bundle = open_example();
  uint32_t index = 0;
  uint64_t a = 42;
  const uint64_t counts[3] = {1000, 1000, 0};
  OK(vyc_bundle_kernel_find(bundle, &index, "saxpy"));
  OK(vyc_bundle_extents(bundle, &a, index, counts));
  CHECK(a == 42);
  vyc_bundle_release(bundle);
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct saxpy_call {
  vyc_run run;
  vyc_argument arguments[3];
  uint64_t a;
  float x[N], y[N], out[N];
} saxpy_call;

static void prepare_saxpy(saxpy_call *call) {
  memset(call, 0, sizeof *call);
  for (uint32_t i = 0; i < N; i++) {
    call->x[i] = (float)i;
    call->y[i] = 1.0f;
  }
  call->a = bits(2.0f);
  call->arguments[0] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = N, .data = call->x};
  call->arguments[1] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = N, .data = call->y};
  call->arguments[2] = (vyc_argument){.kind = VYC_ARGUMENT_HOST, .count = N, .result = call->out};
  call->run = (vyc_run){.struct_size = sizeof call->run,
                        .argument_count = 3,
                        .scalar_count = 1,
                        .arguments = call->arguments,
                        .scalars = &call->a,
                        .timeout_ns = -1};
}

static void verify_saxpy(const saxpy_call *call) {
  for (uint32_t i = 0; i < N; i++) CHECK(call->out[i] == 2.0f * (float)i + 1.0f);
}

static vyc_bundled_kernel *load(vyc_context *context, const char *name, uint64_t tag) {
  vyc_bundle *bundle = open_example();
  vyc_bundled_kernel *kernel = NULL;
  OK(vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, name, tag));
  vyc_bundle_release(bundle); /* the kernel holds it */
  return kernel;
}

static void host_arrays_are_dispatched_by_name(void) {
  vyc_context *context = open_context();
  vyc_bundled_kernel *kernel = load(context, "saxpy", 0);
  vyc_bundled_kernel_info info = {.struct_size = sizeof info};
  static saxpy_call call;
  prepare_saxpy(&call);
  OK(vyc_bundled_kernel_info_get(kernel, &info));
  CHECK(info.variant == 1 && info.is_cubin == 0);
  OK(vyc_bundled_kernel_run(kernel, NULL, &call.run));
  verify_saxpy(&call);
  prepare_saxpy(&call);
  vyc_ticket *ticket = NULL;
  OK(vyc_bundled_kernel_submit(kernel, &ticket, &call.run));
  OK(vyc_ticket_wait(ticket, -1));
  verify_saxpy(&call);
  vyc_ticket_release(ticket);
  call.arguments[2].count = N - 1;
  CHECK(vyc_bundled_kernel_run(kernel, NULL, &call.run) == VYC_E_INVALID);
  call.run.argument_count = 2;
  CHECK(vyc_bundled_kernel_run(kernel, NULL, &call.run) == VYC_E_INVALID);
  vyc_bundled_kernel_release(kernel);
  vyc_context_release(context);
}

static void buffers_are_launched_bound_and_recorded(void) {
  vyc_context *context = open_context();
  vyc_bundled_kernel *kernel = load(context, "saxpy", 0);
  vyc_prepared *prepared = NULL;
  vyc_buffer *buffers[3];
  static saxpy_call call;
  prepare_saxpy(&call);
  for (int i = 0; i < 3; i++) {
    buffers[i] = new_buffer(context, sizeof call.x);
    if (i < 2) OK(vyc_copy_in(buffers[i], 0, i == 0 ? call.x : call.y, sizeof call.x));
    call.arguments[i] =
        (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = N, .buffer = buffers[i]};
  }
  OK(vyc_bundled_kernel_launch(kernel, &call.run));
  OK(vyc_copy_out(buffers[2], 0, call.out, sizeof call.out));
  verify_saxpy(&call);
  OK(vyc_bundled_kernel_resolve(kernel, &call.run));
  CHECK(call.run.grid[0] == (N + 255) / 256);
  OK(vyc_bundled_kernel_prepared(kernel, &prepared));
  vyc_bundled_kernel_release(kernel);
  vyc_call *bound = NULL;
  OK(vyc_fill_zero(buffers[2], 0, sizeof call.out));
  OK(vyc_call_create(&bound, prepared, &call.run));
  OK(vyc_call_run(bound));
  OK(vyc_copy_out(buffers[2], 0, call.out, sizeof call.out));
  verify_saxpy(&call);
  vyc_graph *graph = NULL;
  uint32_t step = 99;
  OK(vyc_graph_create(&graph, context));
  OK(vyc_graph_add_launch(graph, &step, prepared, &call.run));
  OK(vyc_graph_finish(graph));
  OK(vyc_fill_zero(buffers[2], 0, sizeof call.out));
  OK(vyc_graph_launch(graph, NULL, 0, NULL));
  OK(vyc_copy_out(buffers[2], 0, call.out, sizeof call.out));
  verify_saxpy(&call);
  vyc_graph_release(graph);
  vyc_call_release(bound);
  vyc_prepared_release(prepared);
  for (int i = 0; i < 3; i++) vyc_buffer_release(buffers[i]);
  vyc_context_release(context);
}

static void a_grid_beyond_the_ids_is_refused(void) {
  vyc_context *context = open_context();
  vyc_bundled_kernel *kernel = load(context, "saxpy", 0);
  static saxpy_call call;
  prepare_saxpy(&call);
  call.run.grid[0] = UINT32_C(1) << 24; /* of 256 threads each: all that 32 bits count */
  call.run.grid[1] = call.run.grid[2] = 1;
  OK(vyc_bundled_kernel_resolve(kernel, &call.run));
  call.run.grid[0]++;
  CHECK(vyc_bundled_kernel_resolve(kernel, &call.run) == VYC_E_INVALID);
  vyc_bundled_kernel_release(kernel);
  vyc_context_release(context);
}

static void a_failed_assertion_has_its_text(void) {
  vyc_context *context = open_context();
  vyc_bundled_kernel *kernel = load(context, "checked", 41);
  int32_t x[3] = {5, 1, 7};
  const vyc_argument argument = {.kind = VYC_ARGUMENT_HOST, .count = 3, .data = x, .result = x};
  const uint64_t least = 3;
  const vyc_run run = {.struct_size = sizeof run,
                       .argument_count = 1,
                       .scalar_count = 1,
                       .arguments = &argument,
                       .scalars = &least,
                       .timeout_ns = -1};
  CHECK(vyc_bundled_kernel_run(kernel, NULL, &run) == VYC_E_ASSERT);
  vyc_error error = {.struct_size = sizeof error};
  OK(vyc_last_error(&error));
  CHECK(error.tag == 41 && error.report >> 20 == 1);
  vyc_site site = {.struct_size = sizeof site};
  OK(vyc_bundled_kernel_site(kernel, &site, error.report));
  CHECK(site.kind == VYC_SITE_ASSERT && strcmp(site.message, "too small") == 0);
  vyc_bundled_kernel_release(kernel);
  vyc_context_release(context);
}

static void loading_fails_by_name_and_by_state(void) {
  vyc_context *context = open_context();
  vyc_bundle *bundle = open_example();
  vyc_bundled_kernel *kernel = NULL;
  CHECK(vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, "nothing", 0) == VYC_E_INVALID);
  CHECK(emulator_fail("cuModuleLoadDataEx", 1, 2, 0) == 0);
  CHECK(vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, "saxpy", 0) == VYC_E_MEMORY);
  CHECK(emulator_reset() == 0);
  OK(vyc_context_close(context));
  CHECK(vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, "saxpy", 0) ==
        VYC_E_UNAVAILABLE);
  CHECK(kernel == NULL);
  vyc_bundled_kernel_release(NULL);
  vyc_bundle_release(bundle);
  vyc_context_release(context);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  read_example();
  opens_from_a_file_and_from_memory();
  wrong_calls_are_refused();
  damaged_bundles_are_refused();
  newer_formats_are_refused_by_name();
  parameters_and_variants_are_told();
  sizes_and_grids_are_worked_out();
  extents_follow_from_the_other_arguments();
  sized_extents_are_those_that_follow();
  extents_that_are_no_sizes_are_refused();
  extents_of_nothing_are_refused();
  a_kernel_without_extents_keeps_its_scalars();
  host_arrays_are_dispatched_by_name();
  buffers_are_launched_bound_and_recorded();
  a_grid_beyond_the_ids_is_refused();
  a_failed_assertion_has_its_text();
  loading_fails_by_name_and_by_state();
  check_nothing_lives();
  free(contents);
  return 0;
}
