/* A device's retained primary context: currency, closed, lost and forked states.
 *
 * The current context of the calling thread is the caller's: vyc__enter saves it, vyc__leave puts
 * it back. */
#include <string.h>

#include "room.h"

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

#define FIRST_BYTES 400 /* of the newest launch in a message, before the next sentence */

static int least(int a, int b) { return a < b ? a : b; }

static vyc_status fail_lost(vyc_context *context) {
  const char *operation = atomic_load_explicit(&context->lost_operation, memory_order_relaxed);
  if (operation == NULL) operation = "a driver call"; /* another thread is still recording it */
  const int result = atomic_load_explicit(&context->lost_result, memory_order_relaxed);
  const char *name = vyc__driver_result_name(context->driver, (CUresult)result);
  char launches[sizeof((vyc_error *)NULL)->launches];
  const uint32_t count = vyc__history_text(&context->history, launches, sizeof launches);
  const int first = least((int)strcspn(launches, "\n"), FIRST_BYTES);
  vyc__fail_driver(VYC_E_LOST, operation, result, name,
                   "device %d is lost: %s gave %s. %s%.*s%s. Memory on it is gone and only a new "
                   "process can use it again",
                   context->caps.ordinal, operation, name,
                   count == 0   ? "Every launch is known to have ended before"
                   : count == 1 ? "Only this launch had not ended: "
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
    vyc__log(context, VYC_LOG_WARNING, "device %d is lost: %s gave %s", context->caps.ordinal,
             operation, vyc__driver_result_name(context->driver, result));
}

vyc_status vyc__fail_destroyed(const vyc_context *context) {
  return vyc__fail(
      VYC_E_UNAVAILABLE, "destroyed",
      "the CUcontext of device %d was destroyed by %s while this library used it; everything "
      "on it is gone. Open the device again",
      context->caps.ordinal, context->host.owns_context ? "its owner" : "somebody else");
}

/* Calls on a destroyed context return one of these; so may wrong calls on an existing one. */
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
  const bool is_possible = context->host.owns_context ||
                           atomic_load_explicit(&context->lost_result, memory_order_relaxed) ==
                               CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return VYC_UNLIKELY(is_possible) && vyc__is_destroyed(context);
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
        "it, or fork before anything opens or lists devices");
  if (atomic_load(&context->destroyed)) return vyc__fail_destroyed(context);
  if (atomic_load_explicit(&context->closed, memory_order_acquire))
    return vyc__fail(VYC_E_UNAVAILABLE, "close",
                     "device %d is closed: open it again, and make its arrays and kernels there",
                     context->caps.ordinal);
  return fail_lost(context);
}

vyc_status vyc__check_usable(vyc_context *context) {
  return vyc__is_usable(context) ? VYC_OK : fail_unusable(context);
}

static void go_out(const vyc_scope *scope) {
  if (scope->gate != NULL) atomic_fetch_sub_explicit(&scope->gate->inside, 1, memory_order_release);
}

void vyc__scope_rest(const vyc_scope *scope) {
  atomic_fetch_add_explicit(&scope->gate->inside, VYC_GATE_WAITS, memory_order_release);
}

void vyc__scope_go_on(const vyc_scope *scope) {
  atomic_fetch_sub_explicit(&scope->gate->inside, VYC_GATE_WAITS, memory_order_relaxed);
}

static inline vyc_status make_current(vyc_context *context, vyc_scope *scope) {
  VYC_CU_RESULT;
  VYC_TRY(VYC_CU(context, cuCtxGetCurrent, &scope->saved));
  if (VYC_UNLIKELY(scope->saved != context->handle)) {
    VYC_TRY(VYC_CU(context, cuCtxSetCurrent, context->handle));
    scope->changed = true;
  }
  scope->current = true;
  return VYC_OK;
}

/* True: the context is usable. */
static inline bool go_in(vyc_context *context, vyc_scope *scope) {
  scope->changed = scope->current = false;
  scope->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  /* Threads have stacks of their own, so the address of the scope tells them apart. */
  scope->gate = &context->gates[((uintptr_t)scope >> 16) * 0x9E3779B97F4A7C15u >> 60];
  /* Counted before `closed` is looked at; a close sets it before it looks at the count. */
  atomic_fetch_add(&scope->gate->inside, 1);
  return vyc__is_usable(context);
}

vyc_status vyc__scope_current(vyc_context *context, vyc_scope *scope) {
  return scope->current ? VYC_OK : make_current(context, scope);
}

vyc_status vyc__enter_quietly(vyc_context *context, vyc_scope *scope) {
  if (VYC_LIKELY(go_in(context, scope))) return VYC_OK;
  const vyc_status status = fail_unusable(context);
  go_out(scope);
  return status;
}

vyc_status vyc__enter_warm(vyc_context *context, vyc_scope *scope) {
  const vyc_status status =
      go_in(context, scope) ? make_current(context, scope) : fail_unusable(context);
  if (VYC_UNLIKELY(status != VYC_OK)) go_out(scope);
  return status;
}

vyc_status vyc__scope_move(vyc_scope *scope, const vyc_context *from, vyc_context *to) {
  vyc_scope next;
  VYC_CU_RESULT;
  VYC_TRY(vyc__enter_quietly(to, &next));
  const vyc_status status = VYC_CU(to, cuCtxSetCurrent, to->handle);
  if (VYC_UNLIKELY(status != VYC_OK)) {
    go_out(&next);
    return status;
  }
  next.saved = scope->saved;
  next.changed = scope->saved != to->handle;
  next.current = true;
  scope->changed = false;
  vyc__leave(from, scope);
  *scope = next;
  return VYC_OK;
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
  scope->changed = scope->current = false;
  scope->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  scope->gate = NULL;
  if (vyc__is_forked(context) || vyc__was_destroyed(context)) return false;
  const vyc_driver *driver = context->driver;
  bool known = driver->cuCtxGetCurrent(&scope->saved) == CUDA_SUCCESS;
  if (VYC_UNLIKELY(!known)) known = driver->cuCtxGetCurrent(&scope->saved) == CUDA_SUCCESS;
  if (known && scope->saved == context->handle) return true;
  /* After a device is lost, the driver refuses to switch; releases are attempted anyway. If the
   * current context cannot be determined, ours stays current, because an outer scope of this thread
   * may need it. */
  bool switched = driver->cuCtxSetCurrent(context->handle) == CUDA_SUCCESS;
  if (VYC_UNLIKELY(!switched)) switched = driver->cuCtxSetCurrent(context->handle) == CUDA_SUCCESS;
  scope->changed = known && switched;
  return true;
}

void vyc__leave(const vyc_context *context, const vyc_scope *scope) {
  /* Like vyc__capture_restore, but no register is saved across a call. */
  CUstreamCaptureMode found = scope->mode;
  if (VYC_LIKELY(found != CU_STREAM_CAPTURE_MODE_RELAXED) &&
      VYC_UNLIKELY(context->driver->cuThreadExchangeStreamCaptureMode(&found) != CUDA_SUCCESS))
    vyc__capture_owe(context->driver, scope->mode);
  if (VYC_UNLIKELY(scope->changed) &&
      context->driver->cuCtxSetCurrent(scope->saved) != CUDA_SUCCESS)
    context->driver->cuCtxSetCurrent(scope->saved); /* otherwise ours would stay current */
  go_out(scope);
}

/* The caller puts back what vyc__leave would. */
vyc_status vyc_context_enter(vyc_context *context, uint64_t *before_out) {
  VYC_REQUIRE(context != NULL && before_out != NULL);
  *before_out = 0;
  vyc_scope scope;
  VYC_TRY(vyc__enter_as_found(context, &scope));
  *before_out = (uint64_t)(uintptr_t)scope.saved;
  scope.changed = false;
  vyc__leave(context, &scope);
  return VYC_OK;
}

vyc_status vyc_context_leave(vyc_context *context, uint64_t before) {
  VYC_REQUIRE(context != NULL);
  if (VYC_UNLIKELY(vyc__is_forked(context))) return fail_unusable(context);
  VYC_CU_RESULT;
  return VYC_CU(context, cuCtxSetCurrent, (CUcontext)(uintptr_t)before);
}

vyc_context *vyc__context_retain(vyc_context *context) {
  atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
  return context;
}

void vyc__context_release(vyc_context *context) {
  if (atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) == 1)
    context->above->end(context);
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
