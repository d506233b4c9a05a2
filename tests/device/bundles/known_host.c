/* A host of a bundle with saxpy for a = 2.5 and 64 elements: what it says to these and to others,
 * a line for each way to run it. Takes the library of the driver and the bundle. */
#include <stdio.h>
#include <string.h>

#include "vyre_cuda.h"

#define N 64u

static void say(const char *what, vyc_status status) {
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  printf("%s %d %s\n", what, (int)status, status == VYC_OK ? "" : error.message);
}

#define TRY(call)                                                                                  \
  do {                                                                                             \
    const vyc_status tried = (call);                                                               \
    if (tried == VYC_OK) break;                                                                    \
    say(#call, tried);                                                                             \
    return 1;                                                                                      \
  } while (0)

static void run_all(vyc_bundled_kernel *kernel, const vyc_run *run) {
  vyc_ticket *ticket = NULL;
  say("run", vyc_bundled_kernel_run(kernel, NULL, run));
  say("submit", vyc_bundled_kernel_submit(kernel, &ticket, run));
  if (ticket != NULL) vyc_ticket_wait(ticket, -1);
  vyc_ticket_release(ticket);
}

int main(int argc, char **argv) {
  float x[N] = {0}, out[N];
  vyc_driver *driver = NULL;
  vyc_context *context = NULL;
  vyc_bundle *bundle = NULL;
  vyc_bundled_kernel *kernel = NULL;
  vyc_known known;
  if (argc != 3) return 2;
  TRY(vyc_driver_open(&driver, argv[1]));
  TRY(vyc_context_open(&context, driver, 0));
  TRY(vyc_bundle_open(&bundle, argv[2], NULL, 0));
  vyc_bundle_kernel row = {.struct_size = sizeof row};
  TRY(vyc_bundle_kernel_get(bundle, &row, 0));
  for (uint32_t i = 0; i < row.known_count; i++) {
    TRY(vyc_bundle_known_get(bundle, &known, 0, i));
    printf("known %s %llu\n", known.name, (unsigned long long)known.value);
  }
  say("past the last", vyc_bundle_known_get(bundle, &known, 0, row.known_count));
  TRY(vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, "saxpy", 0));
  uint64_t a = vyc_bits_f32(2.5f);
  vyc_argument arguments[] = {{.kind = VYC_ARGUMENT_HOST, .count = N, .data = x},
                              {.kind = VYC_ARGUMENT_HOST, .count = N, .data = x},
                              {.kind = VYC_ARGUMENT_HOST, .count = N, .result = out}};
  const vyc_run run = {.struct_size = sizeof run,
                       .argument_count = 3,
                       .arguments = arguments,
                       .scalar_count = 1,
                       .scalars = &a,
                       .timeout_ns = -1};
  run_all(kernel, &run);
  a = vyc_bits_f32(3.0f);
  run_all(kernel, &run);
  a = vyc_bits_f32(2.5f);
  for (int i = 0; i < 3; i++) arguments[i].count = N - 1;
  run_all(kernel, &run);
  vyc_bundled_kernel_release(kernel);
  vyc_bundle_release(bundle);
  vyc_context_release(context);
  vyc_driver_release(driver);
  return 0;
}
