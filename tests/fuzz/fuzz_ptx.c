/* Fuzzing of the emulator's reader of PTX, which is handed the text of every bundle: it is a module
 * or VYC_E_COMPILE. Nothing is launched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vyre_cuda.h>

static vyc_context *context;

static void check(vyc_status status) {
  if (status == VYC_OK) return;
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  fprintf(stderr, "%s: %s\n", error.operation, error.message);
  abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  vyc_driver *driver = NULL;
  check(vyc_driver_open(&driver, VYC_EMULATOR));
  check(vyc_context_open(&context, driver, 0));
  vyc_driver_release(driver);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  char log[256];
  vyc_module *module = NULL;
  char *text = malloc(bytes + 1);
  if (text == NULL) abort();
  memcpy(text, data, bytes);
  text[bytes] = '\0';
  const vyc_status status = vyc_module_load(&module, log, sizeof log, context, text, bytes + 1);
  if (status != VYC_E_COMPILE) check(status);
  if (memchr(log, 0, sizeof log) == NULL) abort();
  vyc_module_release(module);
  free(text);
  return 0;
}
