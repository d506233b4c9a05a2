/* Contexts that a host takes part in: on a CUcontext of its own, with memory of its own, listening.
 */
#include "bundle_test.h"

static int (*primary_retain)(void **context, int device);
static int (*primary_release)(int device);
static int (*get_current)(void **context);

static vyc_driver *open_driver(void) {
  vyc_driver *driver = NULL;
  OK(vyc_driver_open(&driver, emulator_path));
  return driver;
}

static void find_functions(void) {
  void *library = dlopen(emulator_path, RTLD_NOW);
  CHECK(library != NULL);
  *(void **)&primary_retain = symbol(library, "cuDevicePrimaryCtxRetain");
  *(void **)&primary_release = symbol(library, "cuDevicePrimaryCtxRelease_v2");
  *(void **)&get_current = symbol(library, "cuCtxGetCurrent");
}

/* A host array and a launch on buffers. */
static void use(vyc_context *context) {
  vyc_module *module = load_module(context);
  vyc_prepared *prepared = scale_prepared(module, COPIED);
  static task t;
  prepare(&t, 3.0f);
  OK(vyc_prepared_run(prepared, NULL, &t.run));
  verify(&t);
  vyc_buffer *in = new_buffer(context, sizeof t.in), *out = new_buffer(context, sizeof t.out);
  OK(vyc_copy_in(in, 0, t.in, sizeof t.in));
  on_buffers(&t, in, out);
  OK(vyc_prepared_launch(prepared, &t.run));
  memset(t.out, 0, sizeof t.out);
  OK(vyc_copy_out(out, 0, t.out, sizeof t.out));
  verify(&t);
  vyc_buffer_release(in);
  vyc_buffer_release(out);
  vyc_prepared_release(prepared);
  vyc_module_release(module);
}

/* ---- contexts -------------------------------------------------------------------------------- */

static void a_context_of_the_host_is_used_and_left_alone(void) {
  void *handle = NULL, *current = &handle;
  vyc_driver *driver = open_driver();
  CHECK(primary_retain(&handle, 0) == 0);
  const vyc_context_options options = {.struct_size = sizeof options,
                                       .handle = (uint64_t)(uintptr_t)handle};
  vyc_context *context = NULL, *second = NULL;
  OK(vyc_context_open_with(&context, driver, 0, &options));
  OK(vyc_context_open_with(&second, driver, 0, &options));
  CHECK(get_current(&current) == 0 && current == NULL);
  use(context);
  use(second);
  OK(vyc_context_close(context));
  vyc_context_release(context);
  use(second);
  vyc_context_release(second);
  CHECK(count_of("contexts") == 1 && count_of("allocations") == 0 && count_of("streams") == 0);
  CHECK(primary_release(0) == 0);
  vyc_driver_release(driver);
  check_nothing_lives();
}

static void what_is_no_context_is_refused(void) {
  int none = 0;
  vyc_driver *driver = open_driver();
  vyc_context *context = NULL;
  vyc_context_options options = {.struct_size = sizeof options,
                                 .handle = (uint64_t)(uintptr_t)&none};
  CHECK(vyc_context_open_with(&context, driver, 0, &options) == VYC_E_INVALID);
  options.handle = 0;
  options.flags = 1;
  CHECK(vyc_context_open_with(&context, driver, 0, &options) == VYC_E_INVALID);
  options.flags = 0;
  options.struct_size = 0;
  CHECK(vyc_context_open_with(&context, driver, 0, &options) == VYC_E_INVALID);
  CHECK(context == NULL);
  options.struct_size = 8; /* an older caller's */
  OK(vyc_context_open_with(&context, driver, 0, &options));
  vyc_context_release(context);
  vyc_driver_release(driver);
  check_nothing_lives();
}

/* ---- memory and messages --------------------------------------------------------------------- */

typedef struct host {
  int (*alloc)(void *address_out, size_t bytes);
  int (*free)(uint64_t address);
  int (*alloc_pinned)(void **address_out, size_t bytes, unsigned flags);
  int (*free_pinned)(void *address);
  uint32_t device_live, pinned_live, device_taken, pinned_taken;
  uint32_t refusals; /* to come */
  uint32_t messages;
  char message[256];
} host;

static int32_t alloc_device(void *user, uint64_t *address_out, uint64_t bytes) {
  host *self = user;
  if (self->refusals > 0) {
    self->refusals--;
    return 1;
  }
  self->device_live++;
  self->device_taken++;
  return self->alloc(address_out, bytes);
}

static void free_device(void *user, uint64_t address) {
  host *self = user;
  self->device_live--;
  CHECK(self->free(address) == 0);
}

static int32_t alloc_pinned(void *user, uint64_t *address_out, uint64_t bytes) {
  host *self = user;
  void *address = NULL;
  self->pinned_live++;
  self->pinned_taken++;
  const int failed = self->alloc_pinned(&address, bytes, 3); /* portable, mapped */
  *address_out = (uint64_t)(uintptr_t)address;
  return failed;
}

static void free_pinned(void *user, uint64_t address) {
  host *self = user;
  self->pinned_live--;
  CHECK(self->free_pinned((void *)(uintptr_t)address) == 0);
}

static void listen(void *user, int32_t level, const char *message) {
  host *self = user;
  CHECK(level == VYC_LOG_WARNING || level == VYC_LOG_INFO);
  self->messages++;
  snprintf(self->message, sizeof self->message, "%s", message);
}

static vyc_context *open_hosted(host *self) {
  memset(self, 0, sizeof *self);
  void *library = dlopen(emulator_path, RTLD_NOW);
  *(void **)&self->alloc = symbol(library, "cuMemAlloc_v2");
  *(void **)&self->free = symbol(library, "cuMemFree_v2");
  *(void **)&self->alloc_pinned = symbol(library, "cuMemHostAlloc");
  *(void **)&self->free_pinned = symbol(library, "cuMemFreeHost");
  const vyc_context_options options = {.struct_size = sizeof options,
                                       .device_memory = {alloc_device, free_device, self},
                                       .pinned_memory = {alloc_pinned, free_pinned, self},
                                       .log = listen,
                                       .log_user = self};
  vyc_driver *driver = open_driver();
  vyc_context *context = NULL;
  OK(vyc_context_open_with(&context, driver, 0, &options));
  vyc_driver_release(driver);
  return context;
}

static void all_memory_comes_from_the_host_and_goes_back(void) {
  static host self;
  vyc_context *context = open_hosted(&self);
  use(context);
  CHECK(self.device_taken > 0 && self.pinned_taken > 0);
  CHECK(count_of("allocations") == self.device_live && count_of("pinned") == self.pinned_live);
  OK(vyc_context_trim(context));
  const uint32_t taken = self.device_taken;
  vyc_buffer *buffer = new_buffer(context, 1 << 20), *kept = new_buffer(context, 64);
  vyc_pinned *pinned = NULL;
  OK(vyc_pinned_alloc(&pinned, context, 1 << 16));
  CHECK(self.device_taken > taken);
  vyc_buffer_release(buffer);
  OK(vyc_context_close(context));
  CHECK(self.device_live == 0 && self.pinned_live == 1); /* page-locked memory outlives a close */
  vyc_pinned_release(pinned);
  CHECK(self.pinned_live == 0);
  vyc_buffer_release(kept);
  vyc_context_release(context);
  check_nothing_lives();
}

static void a_refusal_of_the_host_is_out_of_memory(void) {
  static host self;
  vyc_context *context = open_hosted(&self);
  vyc_buffer *buffer = NULL;
  self.refusals = 1; /* asked once more */
  OK(vyc_buffer_alloc(&buffer, context, 1 << 20));
  CHECK(self.messages == 1 && strstr(self.message, "idle blocks") != NULL);
  vyc_buffer_release(buffer);
  buffer = NULL;
  self.refusals = 2;
  CHECK(vyc_buffer_alloc(&buffer, context, 8 << 20) == VYC_E_MEMORY && buffer == NULL);
  vyc_context_release(context);
  check_nothing_lives();
}

static void the_host_hears_of_what_was_passed_over_and_lost(void) {
  static host self;
  vyc_context *context = open_hosted(&self);
  vyc_bundle *bundle = open_example();
  vyc_bundled_kernel *kernel = NULL;
  CHECK(emulator_fail("cuModuleLoadDataEx", 1, 218, 0) == 0); /* CUDA_ERROR_INVALID_PTX */
  OK(vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, "saxpy", 0));
  CHECK(self.messages == 1 && strstr(self.message, "sm_90 is skipped") != NULL);
  vyc_bundled_kernel_release(kernel);
  CHECK(emulator_fail("cuModuleLoadDataEx", 1, 218, 1) == 0);
  CHECK(vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, "saxpy", 0) == VYC_E_COMPILE);
  CHECK(self.messages == 3);
  CHECK(emulator_reset() == 0);
  CHECK(emulator_fail("cuModuleLoadDataEx", 1, 700, 0) == 0); /* CUDA_ERROR_ILLEGAL_ADDRESS */
  CHECK(vyc_bundled_kernel_load(&kernel, NULL, 0, context, bundle, "saxpy", 0) == VYC_E_LOST);
  CHECK(self.messages == 4 && strstr(self.message, "lost") != NULL);
  CHECK(emulator_reset() == 0);
  vyc_bundle_release(bundle);
  vyc_context_release(context);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  find_functions();
  a_context_of_the_host_is_used_and_left_alone();
  what_is_no_context_is_refused();
  all_memory_comes_from_the_host_and_goes_back();
  a_refusal_of_the_host_is_out_of_memory();
  the_host_hears_of_what_was_passed_over_and_lost();
  check_nothing_lives();
  return 0;
}
