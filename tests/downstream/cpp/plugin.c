/* A host that is not linked to the library: it opens it, uses it from a thread, and closes it, more
 * than once. plugin LIBRARY DRIVER BUNDLE. Also compiled as C++. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <vyre_cuda/functions.h>

static vyc_functions vyre;
static const char *words[2];

static void *use(void *result) {
  float x[256], out[256];
  vyc_driver *driver = NULL;
  vyc_context *context = NULL;
  vyc_bundle *bundle = NULL;
  vyc_bundled_kernel *kernel = NULL;
  vyc_argument arguments[3];
  vyc_run run;
  uint64_t scalar = vyc_bits_f32(2.0f);
  for (int i = 0; i < 256; i++) x[i] = (float)i;
  memset(arguments, 0, sizeof arguments);
  memset(&run, 0, sizeof run);
  for (int i = 0; i < 3; i++) {
    arguments[i].kind = VYC_ARGUMENT_HOST;
    arguments[i].count = 256;
    arguments[i].data = i < 2 ? x : NULL;
    arguments[i].result = i < 2 ? NULL : out;
  }
  run.struct_size = sizeof run;
  run.argument_count = 3;
  run.arguments = arguments;
  run.scalar_count = 1;
  run.scalars = &scalar;
  run.timeout_ns = -1;
  if (vyre.vyc_bundle_open(&bundle, "/nowhere", NULL, 0) != VYC_E_FILE ||
      strstr(vyre.vyc_last_message(), "bundle: /nowhere cannot be opened") == NULL)
    return NULL;
  if (vyre.vyc_driver_open(&driver, words[0]) != VYC_OK ||
      vyre.vyc_context_open(&context, driver, 0) != VYC_OK ||
      vyre.vyc_bundle_open(&bundle, words[1], NULL, 0) != VYC_OK ||
      vyre.vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, "saxpy", 0) != VYC_OK ||
      vyre.vyc_bundled_kernel_run(kernel, NULL, &run) != VYC_OK)
    return NULL;
  vyre.vyc_bundled_kernel_release(kernel);
  vyre.vyc_bundle_release(bundle);
  vyre.vyc_context_release(context);
  vyre.vyc_driver_release(driver);
  *(float *)result = out[100];
  return result;
}

int main(int count, char **given) {
  if (count != 4) return 2;
  words[0] = given[2];
  words[1] = given[3];
  for (int round = 0; round < 3; round++) {
    pthread_t thread;
    float result = 0;
    void *library = dlopen(given[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return 3;
    const char *missing = vyc_functions_find(&vyre, library, dlsym);
    if (missing != NULL || vyc_functions_find(&vyre, dlopen(NULL, RTLD_NOW), dlsym) == NULL)
      return 4;
    if (vyc_functions_find(&vyre, library, dlsym) != NULL) return 5;
    if (pthread_create(&thread, NULL, use, &result) != 0) return 6;
    pthread_join(thread, NULL);
    if (dlclose(library) != 0) return 7;
    printf("%g\n", (double)result);
  }
  return 0;
}
