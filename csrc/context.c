/* A device's retained primary context: probing, currency, closed, lost and forked states.
 *
 * The current context of the calling thread is the caller's: vyc__enter saves it, vyc__leave puts
 * it back. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define PATIENCE_NS INT64_C(10000000000)

/* ---- failures ------------------------------------------------------------------------------- */

static bool is_sticky(CUresult result) {
  switch (result) {
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_ASSERT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_LAUNCH_FAILED:
  case CUDA_ERROR_ECC_UNCORRECTABLE:
  case CUDA_ERROR_NVLINK_UNCORRECTABLE:
  case CUDA_ERROR_DEINITIALIZED:
  case CUDA_ERROR_CONTEXT_IS_DESTROYED: return true;
  default: return false;
  }
}

#define FIRST_BYTES 400 /* of the newest launch in a message, which has a sentence after it */

static int least(int a, int b) { return a < b ? a : b; }

static vyc_status fail_lost(vyc_context *context) {
  const char *operation = atomic_load_explicit(&context->lost_operation, memory_order_relaxed);
  if (operation == NULL) operation = "a driver call"; /* the thread that saw it is noting it */
  const int result = atomic_load_explicit(&context->lost_result, memory_order_relaxed);
  const char *name = vyc__driver_result_name(context->driver, (CUresult)result);
  char launches[sizeof((vyc_error *)NULL)->launches];
  const uint32_t count = vyc__history_text(&context->history, launches, sizeof launches);
  const int first = least((int)strcspn(launches, "\n"), FIRST_BYTES);
  vyc__fail_driver(VYC_E_LOST, operation, result, name,
                   "the device is lost: %s gave %s. %s%.*s%s. Memory on it is gone and only a new "
                   "process can use it again",
                   operation, name,
                   count == 0   ? "Every launch is known to have ended before"
                   : count == 1 ? "Of the launches only this had not ended: "
                                : "The newest launch that may not have ended: ",
                   first, launches, count < 2 ? "" : ", and older ones");
  vyc__fail_launches(launches);
  return VYC_E_LOST;
}

static void note_lost(vyc_context *context, CUresult result, const char *operation) {
  int none = CUDA_SUCCESS;
  const bool first = atomic_compare_exchange_strong(&context->lost_result, &none, (int)result);
  if (first) atomic_store(&context->lost_operation, operation);
  atomic_store_explicit(&context->lost, true, memory_order_release);
  if (first)
    vyc__log(context, VYC_LOG_WARNING, "the device is lost: %s gave %s", operation,
             vyc__driver_result_name(context->driver, result));
}

vyc_status vyc__fail_destroyed(const vyc_context *context) {
  return vyc__fail(VYC_E_UNAVAILABLE, "destroyed",
                   "the CUcontext was destroyed by %s while this library used it; everything on it "
                   "is gone. Open the device again",
                   context->host.owns_context ? "its owner" : "somebody else");
}

/* A destroyed context answers with either; so may one that lives, when a call is at fault. */
static bool may_be_destroyed(CUresult result) {
  return result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_CONTEXT;
}

/* The driver frees everything with a CUcontext, and may give its handle to the next one. */
bool vyc__is_destroyed(vyc_context *context) {
  if (atomic_load(&context->destroyed)) return true;
  unsigned long long id = 0;
  const CUresult result = context->driver->cuCtxGetId(context->handle, &id);
  if (result == CUDA_SUCCESS ? id == context->id : !may_be_destroyed(result)) return false;
  note_lost(context, CUDA_ERROR_CONTEXT_IS_DESTROYED, "cuCtxGetId");
  atomic_store(&context->destroyed, true);
  atomic_store(&context->gone, true);
  return true;
}

bool vyc__was_destroyed(vyc_context *context) {
  const bool is_feared = context->host.owns_context ||
                         atomic_load_explicit(&context->lost_result, memory_order_relaxed) ==
                             CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return VYC_UNLIKELY(is_feared) && vyc__is_destroyed(context);
}

vyc_status vyc__driver_failed(vyc_context *context, CUresult result, const char *operation) {
  vyc__count(&context->counters, driver_errors, 1);
  if (may_be_destroyed(result) && context->id != 0 && vyc__is_destroyed(context))
    return vyc__fail_destroyed(context);
  if (is_sticky(result)) {
    note_lost(context, result, operation);
    return fail_lost(context);
  }
  const char *name = vyc__driver_result_name(context->driver, result);
  const vyc_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? VYC_E_MEMORY : VYC_E_DRIVER;
  return vyc__fail_driver(status, operation, (int32_t)result, name, "%s gave %s (%d)", operation,
                          name, (int)result);
}

/* ---- currency ------------------------------------------------------------------------------- */

static vyc_status fail_unusable(vyc_context *context) {
  if (vyc__is_forked(context))
    return vyc__fail(
        VYC_E_UNAVAILABLE, "fork",
        "this process is a fork of the one that opened the device, and CUDA does not "
        "survive fork: start this process with the spawn method and open the device in "
        "it, or fork before anything asks for devices");
  if (atomic_load(&context->destroyed)) return vyc__fail_destroyed(context);
  if (atomic_load_explicit(&context->closed, memory_order_acquire))
    return vyc__fail(VYC_E_UNAVAILABLE, "close", "the device is closed");
  return fail_lost(context);
}

vyc_status vyc__check_usable(vyc_context *context) {
  return vyc__is_usable(context) ? VYC_OK : fail_unusable(context);
}

static void go_out(const vyc_scope *scope) {
  if (scope->gate != NULL) atomic_fetch_sub_explicit(&scope->gate->inside, 1, memory_order_release);
}

static vyc_status make_current(vyc_context *context, vyc_scope *scope) {
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuCtxGetCurrent, &scope->saved));
  if (VYC_LIKELY(scope->saved == context->handle)) return VYC_OK;
  VYC_TRY(VYC_CU(context, cuCtxSetCurrent, context->handle));
  scope->changed = true;
  return VYC_OK;
}

vyc_status vyc__enter_warm(vyc_context *context, vyc_scope *scope) {
  scope->changed = false;
  scope->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  /* Threads have stacks of their own, so the address of the scope tells them apart. */
  scope->gate = &context->gates[((uintptr_t)scope >> 16) * 0x9E3779B97F4A7C15u >> 60];
  /* Counted before `closed` is looked at; a close sets it before it looks at the count. */
  atomic_fetch_add(&scope->gate->inside, 1);
  const vyc_status status =
      vyc__is_usable(context) ? make_current(context, scope) : fail_unusable(context);
  if (VYC_UNLIKELY(status != VYC_OK)) go_out(scope);
  return status;
}

void vyc__scope_relax(const vyc_context *context, vyc_scope *scope) {
  scope->mode = vyc__capture_relax(context->driver);
}

vyc_status vyc__enter_as_found(vyc_context *context, vyc_scope *scope) {
  VYC_TRY(vyc__enter_warm(context, scope));
  if (VYC_LIKELY(!context->host.owns_context) || !vyc__is_destroyed(context)) return VYC_OK;
  vyc__leave(context, scope);
  return vyc__fail_destroyed(context);
}

vyc_status vyc__enter(vyc_context *context, vyc_scope *scope) {
  VYC_TRY(vyc__enter_as_found(context, scope));
  vyc__scope_relax(context, scope);
  return VYC_OK;
}

bool vyc__enter_release(vyc_context *context, vyc_scope *scope) {
  scope->changed = false;
  scope->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  scope->gate = NULL;
  if (vyc__is_forked(context) || vyc__was_destroyed(context)) return false;
  const vyc_driver *driver = context->driver;
  bool known = driver->cuCtxGetCurrent(&scope->saved) == CUDA_SUCCESS;
  if (VYC_UNLIKELY(!known)) known = driver->cuCtxGetCurrent(&scope->saved) == CUDA_SUCCESS;
  if (known && scope->saved == context->handle) return true;
  /* A lost driver refuses to switch; releases are still attempted. What nobody can tell, an outer
   * scope of this thread may need: then ours stays current. */
  bool switched = driver->cuCtxSetCurrent(context->handle) == CUDA_SUCCESS;
  if (VYC_UNLIKELY(!switched)) switched = driver->cuCtxSetCurrent(context->handle) == CUDA_SUCCESS;
  scope->changed = known && switched;
  return true;
}

void vyc__leave(const vyc_context *context, const vyc_scope *scope) {
  /* As vyc__capture_restore, with nothing kept over the call that is at hand after it. */
  CUstreamCaptureMode found = scope->mode;
  if (VYC_LIKELY(found != CU_STREAM_CAPTURE_MODE_RELAXED) &&
      VYC_UNLIKELY(context->driver->cuThreadExchangeStreamCaptureMode(&found) != CUDA_SUCCESS))
    vyc__capture_owe(context->driver, scope->mode);
  if (VYC_UNLIKELY(scope->changed) &&
      context->driver->cuCtxSetCurrent(scope->saved) != CUDA_SUCCESS)
    context->driver->cuCtxSetCurrent(scope->saved); /* else the caller would be left in ours */
  go_out(scope);
}

vyc_context *vyc__context_retain(vyc_context *context) {
  atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
  return context;
}

void vyc__primary_retain(vyc_context *context) {
  atomic_fetch_add_explicit(&context->primary_holders, 1, memory_order_relaxed);
}

void vyc__primary_release(vyc_context *context) {
  const uint32_t before =
      atomic_fetch_sub_explicit(&context->primary_holders, 1, memory_order_acq_rel);
  if (before == 1 && !context->host.owns_context && !vyc__is_forked(context))
    context->driver->cuDevicePrimaryCtxRelease(context->device);
}

/* ---- open ----------------------------------------------------------------------------------- */

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

/* What is no CUcontext the driver refuses, as far as it can tell. */
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
                     "the handle is no CUcontext of device %d", context->caps.ordinal);
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
  vyc__pool_set_budget(context, &context->device_pool, context->caps.total_memory / 4);
  vyc__pool_set_budget(context, &context->pinned_pool, context->caps.total_memory / 16);
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
                     ordinal, driver->device_count, driver->device_count == 1 ? "" : "s");
  VYC_TRY(vyc__forks_watch());
  vyc__holds_reap(NULL);
  vyc_context *context = calloc(1, sizeof *context);
  if (context == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  context->driver = vyc__driver_retain(driver);
  context->fork_generation = vyc__fork_count();
  context->caps.ordinal = ordinal;
  context->host = host;
  atomic_init(&context->patience_ns, PATIENCE_NS);
  atomic_init(&context->references, 1);
  pthread_mutex_init(&context->children_lock, NULL);
  pthread_mutex_init(&context->slots_lock, NULL);
  pthread_mutex_init(&context->execs_lock, NULL);
  vyc__pool_init(&context->device_pool, false);
  vyc__pool_init(&context->pinned_pool, true);
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
