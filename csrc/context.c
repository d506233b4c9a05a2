/* A device's retained primary context: probing, currency, children, lost and forked states.
 *
 * The current context of the calling thread is the caller's: vyc__enter saves it, vyc__leave puts
 * it back. Closing waits for the device, then destroys what children hold, newest first. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "plan.h"

static _Atomic uint32_t fork_generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void after_fork(void) {
  atomic_fetch_add_explicit(&fork_generation, 1, memory_order_relaxed);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork); }

uint64_t vyc__now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void vyc__sleep_us(uint32_t microseconds) {
  const struct timespec pause = {0, (long)microseconds * 1000};
  nanosleep(&pause, NULL);
}

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
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
      return true;
    default:
      return false;
  }
}

static vyc_status fail_lost(vyc_context *context, CUresult result, const char *operation) {
  const char *name = vyc__driver_result_name(context->driver, result);
  const char *kernel = atomic_load_explicit(&context->last_launch, memory_order_relaxed);
  return vyc__fail_driver(
      VYC_E_LOST, operation, (int32_t)result, name,
      "the device is lost: %s gave %s; the kernel launched last was %s. Memory on it is gone and "
      "only a new process can use it again",
      operation, name, kernel == NULL ? "none" : kernel);
}

vyc_status vyc__driver_failed(vyc_context *context, CUresult result, const char *operation) {
  if (is_sticky(result)) {
    atomic_store_explicit(&context->lost, true, memory_order_release);
    return fail_lost(context, result, operation);
  }
  const char *name = vyc__driver_result_name(context->driver, result);
  const vyc_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? VYC_E_MEMORY : VYC_E_DRIVER;
  return vyc__fail_driver(status, operation, (int32_t)result, name, "%s gave %s (%d)", operation,
                          name, (int)result);
}

/* ---- currency ------------------------------------------------------------------------------- */

static vyc_status fail_unusable(vyc_context *context) {
  if (context->fork_generation != atomic_load_explicit(&fork_generation, memory_order_relaxed))
    return vyc__fail(VYC_E_UNAVAILABLE, "fork",
                     "this process is a fork of the one that opened the device; CUDA does not "
                     "survive fork. Open the device in the child, or use the spawn method");
  if (atomic_load_explicit(&context->closed, memory_order_acquire))
    return vyc__fail(VYC_E_UNAVAILABLE, "close", "the device is closed");
  return fail_lost(context, CUDA_ERROR_LAUNCH_FAILED, "an earlier call");
}

vyc_status vyc__enter(vyc_context *context, vyc_scope *scope) {
  if (VYC_UNLIKELY(
          atomic_load_explicit(&context->closed, memory_order_relaxed) ||
          atomic_load_explicit(&context->lost, memory_order_relaxed) ||
          context->fork_generation != atomic_load_explicit(&fork_generation, memory_order_relaxed)))
    return fail_unusable(context);
  VYC_CU_RESULT;
  scope->changed = false;
  VYC_TRY(VYC_CU(context, cuCtxGetCurrent, &scope->saved));
  if (VYC_LIKELY(scope->saved == context->handle)) return VYC_OK;
  VYC_TRY(VYC_CU(context, cuCtxSetCurrent, context->handle));
  scope->changed = true;
  return VYC_OK;
}

bool vyc__enter_release(vyc_context *context, vyc_scope *scope) {
  scope->changed = false;
  if (context->fork_generation != atomic_load_explicit(&fork_generation, memory_order_relaxed))
    return false;
  if (context->driver->cuCtxGetCurrent(&scope->saved) != CUDA_SUCCESS) scope->saved = NULL;
  if (scope->saved == context->handle) return true;
  scope->changed = context->driver->cuCtxSetCurrent(context->handle) == CUDA_SUCCESS;
  return true; /* a lost driver refuses to switch; releases are still attempted */
}

void vyc__leave(const vyc_context *context, const vyc_scope *scope) {
  if (VYC_UNLIKELY(scope->changed)) context->driver->cuCtxSetCurrent(scope->saved);
}

/* ---- children ------------------------------------------------------------------------------- */

vyc_context *vyc__context_retain(vyc_context *context) {
  atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
  return context;
}

static void free_child(vyc_child *child) { free(child); }

void vyc__child_add(vyc_child *child, vyc_context *context, void (*destroy)(vyc_child *),
                    void (*finish)(vyc_child *)) {
  child->context = vyc__context_retain(context);
  child->destroy = destroy;
  child->finish = finish == NULL ? free_child : finish;
  atomic_init(&child->references, 1);
  pthread_mutex_lock(&context->children_lock);
  child->previous = NULL;
  child->next = context->children;
  if (child->next != NULL) child->next->previous = child;
  context->children = child;
  pthread_mutex_unlock(&context->children_lock);
}

static void destroy_once(vyc_child *child) {
  vyc_context *context = child->context;
  vyc_scope scope;
  if (atomic_exchange(&child->destroyed, true) || atomic_load(&context->gone)) return;
  if (!vyc__enter_release(context, &scope)) return;
  child->destroy(child);
  vyc__leave(context, &scope);
}

void vyc__child_release(vyc_child *child) {
  if (atomic_fetch_sub_explicit(&child->references, 1, memory_order_acq_rel) != 1) return;
  vyc_context *context = child->context;
  pthread_mutex_lock(&context->children_lock);
  if (child->previous != NULL) child->previous->next = child->next;
  if (child->next != NULL) child->next->previous = child->previous;
  if (context->children == child) context->children = child->next;
  context->releasing++;
  pthread_mutex_unlock(&context->children_lock);
  destroy_once(child);
  pthread_mutex_lock(&context->children_lock);
  context->releasing--;
  pthread_mutex_unlock(&context->children_lock);
  child->finish(child);
  vyc_context_release(context);
}

typedef struct vyc_name {
  struct vyc_name *next;
  char text[];
} vyc_name;

vyc_status vyc__intern(vyc_context *context, const char **name_out, const char *name) {
  const size_t size = strlen(name) + 1;
  vyc_name *fresh = malloc(sizeof *fresh + size);
  if (fresh == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  memcpy(fresh->text, name, size);
  pthread_mutex_lock(&context->children_lock);
  vyc_name *known = context->names;
  while (known != NULL && strcmp(known->text, name) != 0) known = known->next;
  if (known == NULL) {
    fresh->next = context->names;
    context->names = fresh;
  }
  pthread_mutex_unlock(&context->children_lock);
  if (known != NULL) free(fresh);
  *name_out = known == NULL ? fresh->text : known->text;
  return VYC_OK;
}

/* ---- open ----------------------------------------------------------------------------------- */

struct attribute_row {
  const char *name;
  size_t offset;
  CUdevice_attribute attribute;
};

static const struct attribute_row attribute_rows[] = {
#define VYC_ATTRIBUTE_ROW(field, attribute) \
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
    if (context->driver->cuDeviceGetAttribute(&value, attribute_rows[i].attribute, device) !=
        CUDA_SUCCESS)
      value = -1;
    memcpy((char *)caps + attribute_rows[i].offset, &value, sizeof value);
  }
  return VYC_OK;
}

static vyc_status start(vyc_context *context) {
  VYC_CU_RESULT;
  VYC_TRY(probe(context));
  VYC_TRY(VYC_CU(context, cuDevicePrimaryCtxRetain, &context->handle, context->device));
  vyc_scope scope;
  vyc_status status = vyc__enter(context, &scope);
  if (status == VYC_OK) {
    status = VYC_CU(context, cuStreamCreate, &context->main, CU_STREAM_NON_BLOCKING);
    vyc__leave(context, &scope);
  }
  if (status == VYC_OK) return VYC_OK;
  context->driver->cuDevicePrimaryCtxRelease(context->device);
  return status;
}

vyc_status vyc_context_open(vyc_context **context_out, vyc_driver *driver, int32_t ordinal) {
  VYC_REQUIRE(context_out != NULL && driver != NULL);
  *context_out = NULL;
  if (ordinal < 0 || ordinal >= driver->device_count)
    return vyc__fail(VYC_E_UNAVAILABLE, __func__, "no device %d: the driver has %d device%s",
                     ordinal, driver->device_count, driver->device_count == 1 ? "" : "s");
  pthread_once(&fork_once, watch_forks);
  vyc_context *context = calloc(1, sizeof *context);
  if (context == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  context->driver = vyc__driver_retain(driver);
  context->fork_generation = atomic_load_explicit(&fork_generation, memory_order_relaxed);
  context->caps.ordinal = ordinal;
  atomic_init(&context->references, 1);
  pthread_mutex_init(&context->children_lock, NULL);
  pthread_mutex_init(&context->slots_lock, NULL);
  vyc__pool_init(&context->device_pool, false);
  vyc__pool_init(&context->pinned_pool, true);
  VYC_CU_RESULT;
  vyc_status status = VYC_CU(context, cuDeviceGet, &context->device, ordinal);
  if (status == VYC_OK) status = start(context);
  if (status == VYC_OK) {
    *context_out = context;
    return VYC_OK;
  }
  atomic_store(&context->gone, true);
  atomic_store(&context->closed, true);
  vyc_context_release(context);
  return status;
}

vyc_status vyc_context_caps(vyc_context *context, vyc_caps *caps_out) {
  VYC_REQUIRE(context != NULL && caps_out != NULL);
  VYC_REQUIRE(caps_out->struct_size >= sizeof(uint32_t));
  const uint32_t size = caps_out->struct_size;
  memcpy(caps_out, &context->caps, size < sizeof context->caps ? size : sizeof context->caps);
  caps_out->struct_size = size;
  return VYC_OK;
}

/* ---- wait and close -------------------------------------------------------------------------- */

vyc_status vyc_context_synchronize(vyc_context *context) {
  VYC_REQUIRE(context != NULL);
  vyc_scope scope;
  VYC_CU_RESULT;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = VYC_CU0(context, cuCtxSynchronize);
  if (status == VYC_OK) status = vyc__check_reports(context);
  vyc__leave(context, &scope);
  return status;
}

/* Every child that still has an owner, held, newest first. */
static vyc_child *hold_children(vyc_context *context) {
  vyc_child *first = NULL, **link = &first;
  pthread_mutex_lock(&context->children_lock);
  for (vyc_child *child = context->children; child != NULL; child = child->next) {
    uint32_t references = atomic_load(&child->references);
    while (references != 0 &&
           !atomic_compare_exchange_weak(&child->references, &references, references + 1)) {
    }
    if (references == 0) continue; /* its last owner is destroying it */
    *link = child;
    link = &child->closing;
  }
  *link = NULL;
  pthread_mutex_unlock(&context->children_lock);
  return first;
}

static bool is_releasing(vyc_context *context) {
  pthread_mutex_lock(&context->children_lock);
  const bool releasing = context->releasing != 0;
  pthread_mutex_unlock(&context->children_lock);
  return releasing;
}

static void close_children(vyc_context *context) {
  vyc_child *held = hold_children(context);
  for (vyc_child *child = held; child != NULL; child = child->closing) destroy_once(child);
  while (held != NULL) {
    vyc_child *next = held->closing;
    vyc__child_release(held);
    held = next;
  }
  while (is_releasing(context)) vyc__sleep_us(20);
}

vyc_status vyc_context_close(vyc_context *context) {
  VYC_REQUIRE(context != NULL);
  if (atomic_exchange_explicit(&context->closed, true, memory_order_acq_rel)) return VYC_OK;
  vyc_scope scope;
  if (!vyc__enter_release(context, &scope)) {
    atomic_store(&context->gone, true);
    return VYC_OK;
  }
  VYC_CU_RESULT;
  vyc_status status = VYC_OK;
  if (!atomic_load(&context->lost)) status = VYC_CU0(context, cuCtxSynchronize);
  if (status == VYC_OK) status = vyc__check_reports(context);
  vyc_error failure;
  vyc__error_save(&failure);
  close_children(context);
  vyc__pool_close(context, &context->device_pool, true);
  vyc__pool_close(context, &context->pinned_pool, true);
  context->driver->cuStreamDestroy(context->main);
  atomic_store(&context->gone, true);
  vyc__leave(context, &scope);
  context->driver->cuDevicePrimaryCtxRelease(context->device);
  if (status != VYC_OK) vyc__error_restore(&failure);
  return status;
}

void vyc_context_release(vyc_context *context) {
  if (context == NULL) return;
  if (atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) != 1) return;
  vyc_context_close(context);
  vyc__pool_close(context, &context->device_pool, false);
  vyc__pool_close(context, &context->pinned_pool, false);
  while (context->names != NULL) {
    vyc_name *next = context->names->next;
    free(context->names);
    context->names = next;
  }
  pthread_mutex_destroy(&context->device_pool.lock);
  pthread_mutex_destroy(&context->pinned_pool.lock);
  pthread_mutex_destroy(&context->children_lock);
  pthread_mutex_destroy(&context->slots_lock);
  vyc_driver_release(context->driver);
  free(context);
}
