/* The model as a whole: where its functions are found, its start, and what is left at the end. */
#define CUDA_NO_PROTOTYPE
#include "base/driver.h"
#include "model_parts.h"

model *the_model;

/* What nobody has modelled yet says so when it is called. */
#define MODEL_STUB(name, ...)                                                                      \
  static CUresult CUDAAPI stub_##name(void) { explorer_fail("the model has no " #name); }
VYC_DRIVER_TABLE(MODEL_STUB)
#define MODEL_STUB_ROW(name, ...) {#name, (void (*)(void))stub_##name},
static const model_row stubs[] = {VYC_DRIVER_TABLE(MODEL_STUB_ROW){NULL, NULL}};

/* NULL: not in the list. */
static void *find(const model_row *rows, const char *name) {
  void *function = NULL;
  for (; function == NULL && rows->name != NULL; rows++)
    if (strcmp(rows->name, name) == 0) memcpy(&function, &rows->function, sizeof function);
  return function;
}

static CUresult CUDAAPI look_up(const char *name, void **out, int version, cuuint64_t flags,
                                CUdriverProcAddressQueryResult *status) {
  static const model_row *const lists[] = {model_context_rows,
                                           model_stream_rows,
                                           model_memory_rows,
                                           model_kernel_rows,
                                           model_graph_rows,
                                           model_capture_rows,
                                           stubs};
  (void)version, (void)flags, (void)status;
  *out = NULL;
  for (size_t i = 0; *out == NULL && i < sizeof lists / sizeof lists[0]; i++)
    *out = find(lists[i], name);
  return *out == NULL ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

static const char nccl_library[] = MODEL_NCCL;

void *explorer_dlopen(const char *path) {
  return strcmp(path, nccl_library) == 0 ? (void *)(uintptr_t)nccl_library : the_model;
}

void *explorer_dlsym(void *library, const char *name) {
  if (library == nccl_library) return find(model_nccl_rows, name);
  if (strcmp(name, "cuGetProcAddress_v2") != 0) return NULL;
  CUresult (*const function)(const char *, void **, int, cuuint64_t,
                             CUdriverProcAddressQueryResult *) = look_up;
  void *address;
  memcpy(&address, &function, sizeof address);
  return address;
}

/* ---- start and end --------------------------------------------------------------------------- */

void model_start(model_hooks hooks) {
  the_model = take(sizeof *the_model);
  the_model->hooks = hooks;
  explorer->device_step = model_step;
  explorer->device_has_work = model_has_work;
  explorer->device_can_write = model_has_memory;
}

void model_begin_process(void) { the_model->faulted &= the_model->plant == MODEL_STAYS_FAULTED; }

void model_be_wrong(model_plant plant) { the_model->plant = plant; }

void model_be_eager(bool eager) { the_model->eager = eager; }

void model_check_thread(void) {
  if (the_model->current[explorer->current] != NULL)
    explorer_fail("a thread is left in the context");
  if (the_model->mode[explorer->current] != CU_STREAM_CAPTURE_MODE_GLOBAL)
    explorer_fail("a thread is left with another capture mode");
}

void model_check_empty(void) {
  int64_t memories = 0, holders = 0;
  for (uint32_t i = 0; i < MODEL_DEVICES; i++) holders += the_model->holders[i];
  for (uint32_t i = 0; i < the_model->memory_count; i++)
    memories += the_model->memories[i].live && !the_model->memories[i].foreign;
  if (the_model->live_streams != 0 || the_model->live_events != 0 || the_model->live_graphs != 0 ||
      the_model->live_execs != 0 || the_model->live_modules != 0 || the_model->live_comms != 0 ||
      holders != 0 || memories != 0)
    explorer_fail("the driver still has %d streams, %d events, %d graphs, %d execs, %d modules, %d "
                  "communicators, %d "
                  "memories, %d holders of the context",
                  (int)the_model->live_streams, (int)the_model->live_events,
                  (int)the_model->live_graphs, (int)the_model->live_execs,
                  (int)the_model->live_modules, (int)the_model->live_comms, (int)memories,
                  (int)holders);
}
