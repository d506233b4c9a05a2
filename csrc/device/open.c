/* Opening a context: the properties of the device, its CUcontext, its own stream. */
#include <stdlib.h>
#include <string.h>

#include "room.h"

#define PATIENCE_NS INT64_C(10000000000)

static const vyc_above above = {.end = vyc__context_end,
                                .empty_submissions = vyc__submissions_empty,
                                .submissions_destroy = vyc__submissions_destroy,
                                .submissions_free = vyc__submissions_free,
                                .workers_stop = vyc__workers_stop,
                                .workers_finish = vyc__workers_finish,
                                .workers_note = vyc__workers_note,
                                .workers_reach = vyc__workers_reach,
                                .workers_forget = vyc__workers_forget,
                                .workers_may_run = vyc__workers_may_run};

struct attribute_row {
  const char *name;
  size_t offset;
  CUdevice_attribute attribute;
};

static const struct attribute_row attribute_rows[] = {
#define VYC_ATTRIBUTE_ROW(field, attribute)                                                        \
  {#field, offsetof(vyc_caps, field), CU_DEVICE_ATTRIBUTE_##attribute},
    VYC_ATTRIBUTE_TABLE(VYC_ATTRIBUTE_ROW)
#undef VYC_ATTRIBUTE_ROW
};

vyc_status vyc_caps_field(const char **name_out, size_t *offset_out, uint32_t index) {
  VYC_REQUIRE(name_out != NULL && offset_out != NULL);
  VYC_REQUIRE(index < sizeof attribute_rows / sizeof attribute_rows[0]);
  *name_out = attribute_rows[index].name;
  *offset_out = attribute_rows[index].offset;
  return VYC_OK;
}

static vyc_status probe(vyc_context *context) {
  VYC_CU_RESULT;
  vyc_caps *caps = &context->caps;
  const CUdevice device = context->device;
  caps->struct_size = (uint32_t)sizeof *caps;
  caps->driver_version = context->driver->version;
  caps->is_emulator = context->driver->is_emulator;
  size_t total = 0;
  CUuuid uuid;
  VYC_TRY(VYC_CU(context, cuDeviceGetName, caps->name, (int)sizeof caps->name, device));
  VYC_TRY(VYC_CU(context, cuDeviceTotalMem, &total, device));
  VYC_TRY(VYC_CU(context, cuDeviceGetUuid, &uuid, device));
  memcpy(caps->uuid, uuid.bytes, sizeof caps->uuid);
  caps->total_memory = total;
  VYC_TRY(VYC_CU(context, cuDeviceGetAttribute, &caps->compute_capability_major,
                 CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  VYC_TRY(VYC_CU(context, cuDeviceGetAttribute, &caps->compute_capability_minor,
                 CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
  for (size_t i = 0; i < sizeof attribute_rows / sizeof attribute_rows[0]; i++) {
    int value = -1;
    const CUresult result =
        context->driver->cuDeviceGetAttribute(&value, attribute_rows[i].attribute, device);
    if (result == CUDA_ERROR_INVALID_VALUE) /* a driver older than the attribute */
      value = -1;
    else if (result != CUDA_SUCCESS)
      return vyc__driver_failed(context, result, "cuDeviceGetAttribute");
    memcpy((char *)caps + attribute_rows[i].offset, &value, sizeof value);
  }
  return VYC_OK;
}

/* The driver refuses a handle that is not a CUcontext, if it can detect that. */
static vyc_status check_handle(vyc_context *context, CUcontext handle) {
  const vyc_driver *driver = context->driver;
  CUcontext before = NULL;
  CUdevice device = -1;
  CUresult result = driver->cuCtxGetCurrent(&before);
  if (result == CUDA_SUCCESS) result = driver->cuCtxSetCurrent(handle);
  if (result == CUDA_SUCCESS) {
    result = driver->cuCtxGetDevice(&device);
    driver->cuCtxSetCurrent(before);
  }
  if (result == CUDA_SUCCESS && device == context->device) return VYC_OK;
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_CONTEXT ||
      result == CUDA_ERROR_INVALID_VALUE)
    return vyc__fail(VYC_E_INVALID, "vyc_context_open_with",
                     "the handle is not a CUcontext of device %d", context->caps.ordinal);
  return vyc__driver_failed(context, result, "cuCtxGetDevice");
}

static vyc_status take_handle(vyc_context *context, uint64_t handle) {
  VYC_CU_RESULT;
  if (!context->host.owns_context)
    return VYC_CU(context, cuDevicePrimaryCtxRetain, &context->handle, context->device);
  VYC_TRY(check_handle(context, (CUcontext)(uintptr_t)handle));
  context->handle = (CUcontext)(uintptr_t)handle;
  return VYC_OK;
}

static vyc_status start(vyc_context *context, uint64_t handle) {
  VYC_CU_RESULT;
  VYC_TRY(probe(context));
  vyc__pool_set_budget(context, vyc__device_pool(context), context->caps.total_memory / 4);
  vyc__pool_set_budget(context, vyc__pinned_pool(context), context->caps.total_memory / 16);
  VYC_TRY(take_handle(context, handle));
  atomic_store(&context->primary_holders, 1);
  vyc_status status = VYC_CU(context, cuCtxGetId, context->handle, &context->id);
  if (status != VYC_OK) goto fail;
  vyc_scope scope;
  status = vyc__enter(context, &scope);
  if (status == VYC_OK) {
    status = VYC_CU(context, cuStreamCreate, &context->main, CU_STREAM_NON_BLOCKING);
    vyc__history_stream(&context->history, VYC_SLOT_MAIN, (uint64_t)(uintptr_t)context->main);
    atomic_store(&context->history.rings, VYC_SLOT_MAIN + 1);
    vyc__leave(context, &scope);
  }
  if (status == VYC_OK) return VYC_OK;
fail:
  vyc__primary_release(context);
  return status;
}

vyc_status vyc_context_open(vyc_context **context_out, vyc_driver *driver, int32_t ordinal) {
  return vyc_context_open_with(context_out, driver, ordinal, NULL);
}

vyc_status vyc_context_open_with(vyc_context **context_out, vyc_driver *driver, int32_t ordinal,
                                 const vyc_context_options *options) {
  VYC_REQUIRE(context_out != NULL && driver != NULL);
  *context_out = NULL;
  vyc_host host;
  uint64_t handle = 0;
  VYC_TRY(vyc__host_read(&host, &handle, options));
  if (ordinal < 0 || ordinal >= driver->device_count)
    return vyc__fail(VYC_E_UNAVAILABLE, __func__, "no device %d: the driver has %d device%s",
                     ordinal, driver->device_count, VYC_S(driver->device_count));
  VYC_TRY(vyc__forks_watch());
  vyc__holds_reap(NULL);
  vyc_context *context = calloc(1, sizeof(vyc_completion_context));
  if (context == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  context->driver = vyc__driver_retain(driver);
  context->above = &above;
  context->fork_generation = vyc__fork_count();
  context->caps.ordinal = ordinal;
  context->host = host;
  atomic_init(&context->patience_ns, PATIENCE_NS);
  atomic_init(&context->references, 1);
  pthread_mutex_init(&context->children_lock, NULL);
  pthread_mutex_init(&context->slots_lock, NULL);
  vyc__memory_begin(context);
  vyc__kernels_begin(context);
  vyc__watch_begin(context);
  VYC_CU_RESULT;
  vyc_status status = vyc__counters_init(&context->counters);
  if (status == VYC_OK) status = vyc__history_init(&context->history);
  if (status == VYC_OK) status = VYC_CU(context, cuDeviceGet, &context->device, ordinal);
  if (status == VYC_OK) status = start(context, handle);
  if (status == VYC_OK) {
    *context_out = context;
    return VYC_OK;
  }
  atomic_store(&context->gone, true);
  atomic_store(&context->closed, true);
  vyc__context_release(context);
  return status;
}

vyc_status vyc_context_caps(vyc_context *context, vyc_caps *caps_out) {
  VYC_REQUIRE(context != NULL && caps_out != NULL);
  VYC_REQUIRE(caps_out->struct_size >= sizeof(uint32_t));
  vyc__struct_out(caps_out, &context->caps, sizeof context->caps);
  return VYC_OK;
}
