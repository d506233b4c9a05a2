/* A bundle from C: saxpy on host arrays, and a recorded graph of three of them on device arrays.
 *
 *   vyre-cuda bundle ../saxpy.vir -o saxpy.vyre
 *   cc -std=c11 host.c $(pkg-config --cflags --libs vyre_cuda) -o c_host
 *   ./c_host saxpy.vyre x.bin y.bin 2.5 out.bin graph.bin [DRIVER]
 *
 * The files are arrays of f32. out.bin gets a x + y; graph.bin gets a (a (a x + y) + y) + y.
 * DRIVER is a driver library, like the emulator's; without it, NVIDIA's. */
#include <stdio.h>
#include <stdlib.h>
#include <vyre_cuda.h>

enum { STEPS = 3 };

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void check(vyc_status status) {
  if (status == VYC_OK) return;
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  fail(error.operation, error.message);
}

/* ---- files ------------------------------------------------------------------------------------
 */

typedef struct array {
  float *data;
  size_t count;
} array;

static array new_array(size_t count) {
  array a = {malloc(count * sizeof(float) + 1), count};
  if (a.data == NULL) fail("malloc", "no memory");
  return a;
}

static array read_array(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) fail(path, "cannot be read");
  array a = new_array((size_t)ftell(file) / sizeof(float));
  rewind(file);
  if (fread(a.data, sizeof(float), a.count, file) != a.count) fail(path, "cannot be read");
  fclose(file);
  return a;
}

static void write_array(const char *path, array a) {
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(a.data, sizeof(float), a.count, file) != a.count || fclose(file) != 0)
    fail(path, "cannot be written");
}

/* ---- dispatch ---------------------------------------------------------------------------------
 */

/* A run of saxpy; the grid is left to the kernel. */
static vyc_run saxpy_run(const vyc_argument arguments[3], const uint64_t *a) {
  return (vyc_run){.struct_size = sizeof(vyc_run),
                   .argument_count = 3,
                   .scalar_count = 1,
                   .arguments = arguments,
                   .scalars = a,
                   .timeout_ns = -1};
}

static void on_host(vyc_bundled_kernel *kernel, array x, array y, const uint64_t *a, array out) {
  const vyc_argument arguments[] = {
      {.kind = VYC_ARGUMENT_HOST, .count = x.count, .data = x.data},
      {.kind = VYC_ARGUMENT_HOST, .count = y.count, .data = y.data},
      {.kind = VYC_ARGUMENT_HOST, .count = out.count, .result = out.data}};
  const vyc_run run = saxpy_run(arguments, a);
  check(vyc_bundled_kernel_run(kernel, NULL, &run));
}

static vyc_argument on_device(vyc_buffer *buffer, uint64_t count) {
  return (vyc_argument){.kind = VYC_ARGUMENT_BUFFER, .count = count, .buffer = buffer};
}

/* Each step reads what the one before wrote; the graph finds that out by itself. */
static void as_graph(vyc_context *context, vyc_bundled_kernel *kernel, array x, array y,
                     const uint64_t *a, array out) {
  const uint64_t bytes = x.count * sizeof(float);
  vyc_buffer *values[STEPS + 1], *addend;
  vyc_prepared *prepared;
  vyc_graph *graph;
  for (size_t i = 0; i <= STEPS; i++) check(vyc_buffer_alloc(&values[i], context, bytes));
  check(vyc_buffer_alloc(&addend, context, bytes));
  check(vyc_copy_in(values[0], 0, x.data, bytes));
  check(vyc_copy_in(addend, 0, y.data, bytes));
  check(vyc_bundled_kernel_prepared(kernel, &prepared));
  check(vyc_graph_create(&graph, context));
  for (size_t i = 0; i < STEPS; i++) {
    const vyc_argument arguments[] = {on_device(values[i], x.count), on_device(addend, x.count),
                                      on_device(values[i + 1], x.count)};
    vyc_run run = saxpy_run(arguments, a);
    uint32_t step;
    check(vyc_bundled_kernel_resolve(kernel, &run));
    check(vyc_graph_add_launch(graph, &step, prepared, &run));
  }
  check(vyc_graph_finish(graph));
  check(vyc_graph_launch(graph, NULL, 0, NULL));
  check(vyc_copy_out(values[STEPS], 0, out.data, bytes));
  vyc_graph_release(graph);
  vyc_prepared_release(prepared);
  vyc_buffer_release(addend);
  for (size_t i = 0; i <= STEPS; i++) vyc_buffer_release(values[i]);
}

int main(int count, char **words) {
  if (count != 7 && count != 8) fail(words[0], "BUNDLE X Y A OUT GRAPH_OUT [DRIVER]");
  const float factor = strtof(words[4], NULL);
  const array x = read_array(words[2]), y = read_array(words[3]);
  if (x.count != y.count) fail(words[3], "has another size");
  const uint64_t a = vyc_bits_f32(factor);

  vyc_driver *driver;
  vyc_context *context;
  vyc_bundle *bundle;
  vyc_bundled_kernel *kernel;
  check(vyc_driver_open(&driver, count == 8 ? words[7] : NULL));
  check(vyc_context_open(&context, driver, 0));
  check(vyc_bundle_open(&bundle, words[1], NULL, 0));
  check(vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, "saxpy", 0));

  const array out = new_array(x.count);
  on_host(kernel, x, y, &a, out);
  write_array(words[5], out);
  as_graph(context, kernel, x, y, &a, out);
  write_array(words[6], out);
  printf("%zu elements, twice\n", x.count);

  free(out.data);
  free(y.data);
  free(x.data);
  vyc_bundled_kernel_release(kernel); /* in any order */
  vyc_bundle_release(bundle);
  vyc_context_release(context);
  vyc_driver_release(driver);
  return 0;
}
