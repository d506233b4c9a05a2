/* Memory of other contexts of one driver: of other devices, and of this device opened again.
 *
 * Work of this context on such memory is to the other context what a copy in call order is: before
 * it, the other context's stream of call order takes the buffer's marks (marks.c), and the work is
 * ordered behind that stream; after it, that stream is ordered behind the work, and marks that were
 * made meanwhile are taken. So a block goes to its next owner behind the work too. Events belong to
 * the context whose stream they are recorded on. */
#include <stdlib.h>

#include "room.h"

#define PEER_ASKED 1u   /* the driver was asked for access, whatever it answered */
#define PEER_ENABLED 2u /* kernels of this context may use the memory */

/* ---- order ---------------------------------------------------------------------------------- */

/* `later`, of another context, waits for what `earlier`, a stream of `context`, has been given. */
static vyc_status order(vyc_context *context, CUstream later, CUstream earlier) {
  const vyc_launch_stream on = {.stream = earlier, .slot = VYC_SLOT_MAIN};
  vyc_event *event = NULL;
  VYC_CU_RESULT;
  VYC_TRY(vyc__event_take(&event, context));
  vyc_status status = vyc__event_record(event, &on);
  if (status == VYC_OK) {
    vyc__claim_take(&context->together);
    status = VYC_CU(context, cuStreamWaitEvent, later, event->handle, CU_EVENT_WAIT_DEFAULT);
    vyc__claim_drop(&context->together);
  }
  vyc_event_release(event);
  return status;
}

/* Leaves `other`; what follows is done in `context`, which the driver may have refused to switch
 * back to. */
static vyc_status back(vyc_context *context, const vyc_context *other, const vyc_scope *scope,
                       vyc_status status) {
  CUcontext current = NULL;
  VYC_CU_RESULT;
  vyc__leave(other, scope);
  VYC_TRY(status);
  VYC_TRY(VYC_CU(context, cuCtxGetCurrent, &current));
  return VYC_LIKELY(current == context->handle) ? VYC_OK
                                                : VYC_CU(context, cuCtxSetCurrent, context->handle);
}

/* As before a copy in call order of the buffer's own context, and after it. */
static vyc_status prepare(vyc_buffer *buffer) {
  if ((atomic_load(&buffer->used_on) & UINT64_C(1) << VYC_SLOT_MAIN) == 0)
    VYC_TRY(vyc__buffer_first_use(buffer, buffer->child.context->main, VYC_SLOT_MAIN));
  return vyc__buffer_wait(buffer);
}

static vyc_status enqueued(vyc_buffer *buffer) {
  VYC_TRY(vyc__adopted_after(buffer, buffer->child.context->main));
  return vyc__buffer_wait(buffer);
}

vyc_status vyc__peer_before(vyc_buffer *buffer, vyc_context *context, CUstream stream) {
  vyc_context *other = buffer->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(other, &scope));
  vyc_status status = prepare(buffer);
  if (status == VYC_OK) status = order(other, stream, other->main);
  return back(context, other, &scope, status);
}

static vyc_status after(vyc_buffer *buffer, vyc_context *context, CUstream stream) {
  vyc_context *other = buffer->child.context;
  VYC_TRY(order(context, other->main, stream));
  vyc_scope scope;
  VYC_TRY(vyc__enter(other, &scope));
  return back(context, other, &scope, enqueued(buffer));
}

vyc_status vyc__peer_after(vyc_buffer *buffer, vyc_context *context, CUstream stream) {
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  vyc_context *other = buffer->child.context;
  vyc_status status = after(buffer, context, stream);
  if (VYC_UNLIKELY(status != VYC_OK)) {
    if (!vyc__stream_await_end(context, stream)) {
      atomic_store(&context->strays, true);
      atomic_store(&other->strays, true);
    } else if (status == VYC_E_UNAVAILABLE && atomic_load(&other->closed)) {
      status = VYC_OK; /* the work has ended, and the other context, which is closed, gives none
                          behind it */
    }
  }
  vyc__capture_restore(context->driver, mode);
  return status;
}

vyc_status vyc__peer_await_end(vyc_buffer *buffer) {
  vyc_context *other = buffer->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(other, &scope));
  const vyc_status status = vyc__buffer_await_end(buffer);
  vyc__leave(other, &scope);
  return status;
}

/* ---- access --------------------------------------------------------------------------------- */

static _Atomic(vyc_known_peer *) *peers_of(vyc_context *context) {
  return &((vyc_memory_context *)context)->peers;
}

static vyc_known_peer *find_after(vyc_known_peer *peer, unsigned long long id) {
  while (peer != NULL && peer->id != id) peer = peer->next;
  return peer;
}

/* NULL: there is no memory for it, or (unless `makes`) nothing is known. */
static vyc_known_peer *known(vyc_context *context, const vyc_context *other, bool makes) {
  vyc_known_peer *first = atomic_load_explicit(peers_of(context), memory_order_acquire);
  vyc_known_peer *found = find_after(first, other->id);
  if (found != NULL || !makes) return found;
  vyc_known_peer *peer = calloc(1, sizeof *peer);
  if (peer == NULL) return NULL;
  vyc__peer_user_add(context);
  peer->id = other->id;
  do {
    peer->next = first;
    found = find_after(first, other->id);
  } while (found == NULL && !atomic_compare_exchange_weak(peers_of(context), &first, peer));
  if (found == NULL) return peer;
  free(peer);
  return found;
}

bool vyc__peer_is_known(vyc_context *context, const vyc_context *other) {
  return known(context, other, false) != NULL;
}

void vyc__peers_end(vyc_context *context) {
  vyc__peer_user_remove(context);
  vyc_known_peer *peer = atomic_load(peers_of(context));
  while (peer != NULL) {
    vyc_known_peer *next = peer->next;
    free(peer);
    peer = next;
  }
}

/* The caller has entered the context. */
static CUresult ask(vyc_context *context, const vyc_context *other) {
  if (context->id == other->id) return CUDA_SUCCESS;
  const CUresult result = context->driver->cuCtxEnablePeerAccess(other->handle, 0);
  return result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED ? CUDA_SUCCESS : result;
}

void vyc__peer_reach(vyc_context *context, vyc_context *other) {
  vyc_known_peer *peer = known(context, other, true);
  if (peer == NULL || atomic_load_explicit(&peer->state, memory_order_relaxed) != 0) return;
  (void)ask(context, other); /* without it the driver copies by way of the host */
  atomic_fetch_or(&peer->state, PEER_ASKED);
}

vyc_status vyc__peer_access(vyc_context *context, vyc_context *other) {
  const CUresult result = ask(context, other);
  if (result == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED || result == CUDA_ERROR_TOO_MANY_PEERS)
    return vyc__fail(VYC_E_UNSUPPORTED, "peer_access",
                     "device %d cannot access the memory of device %d (%s): copy arrays between "
                     "them, which goes by way of the host",
                     context->caps.ordinal, other->caps.ordinal,
                     vyc__driver_result_name(context->driver, result));
  return result == CUDA_SUCCESS ? VYC_OK
                                : vyc__driver_failed(context, result, "cuCtxEnablePeerAccess");
}

static vyc_status enable(vyc_context *context, vyc_context *other) {
  vyc_known_peer *peer = known(context, other, true);
  if (peer == NULL) return vyc__fail(VYC_E_MEMORY, "enable_peer", "out of host memory");
  VYC_TRY(vyc__peer_access(context, other));
  atomic_fetch_or(&peer->state, PEER_ASKED | PEER_ENABLED);
  return VYC_OK;
}

vyc_status vyc_context_enable_peer(vyc_context *context, vyc_context *other) {
  VYC_REQUIRE(context != NULL && other != NULL);
  VYC_REQUIRE(context != other);
  if (context->driver->library != other->driver->library)
    return vyc__fail(
        VYC_E_UNSUPPORTED, "peer_access",
        "the devices belong to two drivers, which share no memory: copy arrays between "
        "them");
  VYC_TRY(vyc__check_usable(other));
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  const vyc_status status = enable(context, other);
  vyc__leave(context, &scope);
  return status;
}

vyc_status vyc_context_can_access_peer(vyc_context *context, int32_t ordinal,
                                       uint32_t *access_out) {
  VYC_REQUIRE(context != NULL && access_out != NULL);
  *access_out = 0;
  VYC_REQUIRE(ordinal >= 0 && ordinal < context->driver->device_count);
  if (ordinal == context->caps.ordinal) {
    *access_out = 1;
    return VYC_OK;
  }
  CUdevice device = -1;
  int can = 0;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  VYC_CU_RESULT;
  vyc_status status = VYC_CU(context, cuDeviceGet, &device, ordinal);
  if (status == VYC_OK)
    status = VYC_CU(context, cuDeviceCanAccessPeer, &can, context->device, device);
  vyc__leave(context, &scope);
  *access_out = can != 0;
  return status;
}

/* ---- their memory as buffers ----------------------------------------------------------------- */

/* `stands` is the source of the memory, by which whoever uses it sees that it is not ordinary; work
 * is ordered by the functions above. */
typedef struct peer_buffer {
  vyc_buffer buffer;
  vyc_stream stands;
} peer_buffer;

static void buffer_destroy(vyc_child *child) { (void)child; }

static void buffer_finish(vyc_child *child) {
  vyc_buffer *buffer = (vyc_buffer *)child;
  vyc_buffer_release(buffer->peer);
  vyc__far_free(&buffer->far);
  free(child);
}

static const vyc_child_kind peer_kind = {.destroy = buffer_destroy, .finish = buffer_finish};

static vyc_status adopt(vyc_buffer **buffer_out, vyc_context *context, vyc_buffer *of) {
  peer_buffer *made = calloc(1, sizeof *made);
  if (made == NULL) return vyc__fail(VYC_E_MEMORY, "vyc_buffer_adopt_peer", "out of host memory");
  made->stands.child.context = context;
  made->stands.slot = VYC_SLOT_MAIN;
  vyc_buffer *buffer = &made->buffer;
  atomic_init(&buffer->epoch, atomic_load(&context->epoch));
  buffer->address = of->address;
  buffer->bytes = of->bytes;
  buffer->source = &made->stands;
  buffer->read_only = of->read_only;
  buffer->peer = of;
  vyc__child_retain(&of->child);
  vyc__child_add(&buffer->child, context, &peer_kind);
  buffer->child.is_warm = true;
  *buffer_out = buffer;
  return VYC_OK;
}

vyc_status vyc_buffer_adopt_peer(vyc_buffer **buffer_out, vyc_context *context, vyc_buffer *of) {
  VYC_REQUIRE(buffer_out != NULL && context != NULL && of != NULL);
  *buffer_out = NULL;
  vyc_context *other = of->child.context;
  const vyc_known_peer *peer = context == other ? NULL : known(context, other, false);
  if (peer == NULL || (atomic_load(&peer->state) & PEER_ENABLED) == 0)
    return vyc__fail(
        VYC_E_INVALID, "adopt",
        "the memory belongs to device %d, and device %d was not given access to it: call "
        "vyc_context_enable_peer first",
        other->caps.ordinal, context->caps.ordinal);
  vyc_scope scope;
  VYC_TRY(vyc__enter_warm(context, &scope));
  const vyc_status status = adopt(buffer_out, context, of);
  vyc__leave(context, &scope);
  return status;
}
