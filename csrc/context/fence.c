/* Fences: points in all the work of a context. */
#include <stdlib.h>

#include "room.h"

struct vyc_fence {
  vyc_child child;
  vyc_work_events events;
  vyc_worker_note *notes; /* of the calls of workers */
  uint32_t reports_ended;
};

static void fence_destroy(vyc_child *child) {
  vyc__work_events_free(child->context, &((vyc_fence *)child)->events);
}

/* If the driver could no longer be called, `destroy` has left the list. */
static void fence_finish(vyc_child *child) {
  vyc_fence *fence = (vyc_fence *)child;
  child->context->above->workers_forget(fence->notes);
  free(fence->events.events);
  free(fence);
}

static const vyc_child_kind fence_kind = {.destroy = fence_destroy, .finish = fence_finish};

vyc_status vyc_fence_create(vyc_fence **fence_out, vyc_context *context) {
  VYC_REQUIRE(fence_out != NULL && context != NULL);
  *fence_out = NULL;
  vyc_fence *fence = calloc(1, sizeof *fence);
  if (fence == NULL) return vyc__fail(VYC_E_MEMORY, __func__, "out of host memory");
  vyc_scope scope;
  vyc_status status = vyc__enter(context, &scope);
  if (status == VYC_OK) {
    fence->reports_ended = vyc__reports_ended(context);
    if (VYC_UNLIKELY(atomic_load(&context->worker_count) != 0))
      status = context->above->workers_note(context, &fence->notes);
    if (status == VYC_OK) status = vyc__work_events_set(context, &fence->events);
    if (status == VYC_OK) vyc__child_add(&fence->child, context, &fence_kind);
    vyc__leave(context, &scope);
  }
  if (status == VYC_OK) {
    *fence_out = fence;
  } else {
    context->above->workers_forget(fence->notes);
    free(fence);
  }
  return status;
}

/* Leaves in timeout_ns what is left of the time, for all other work. */
static vyc_status calls_await(const vyc_fence *fence, int64_t *timeout_ns) {
  if (VYC_LIKELY(fence->notes == NULL)) return VYC_OK;
  vyc_context *context = fence->child.context;
  const vyc_pace pace = vyc__pace_begin(*timeout_ns, 0);
  const vyc_status status = context->above->workers_reach(context, fence->notes, *timeout_ns);
  *timeout_ns = vyc__pace_left(&pace);
  return status;
}

vyc_status vyc_fence_wait(vyc_fence *fence, int64_t timeout_ns) {
  VYC_REQUIRE(fence != NULL);
  vyc_context *context = fence->child.context;
  vyc_scope scope;
  VYC_TRY(vyc__enter(context, &scope));
  vyc_status status = calls_await(fence, &timeout_ns);
  vyc_pace pace = vyc__pace_begin(timeout_ns, VYC_SPIN_NS);
  vyc__scope_rest(&scope);
  if (status == VYC_OK) status = vyc__work_events_wait(context, &fence->events, &pace);
  if (status != VYC_NOT_READY) vyc__count(&context->counters, sync_points, 1);
  if (status == VYC_OK) status = vyc__prints_await(context, &pace);
  vyc__scope_go_on(&scope);
  if (status == VYC_OK) status = vyc__check_reports(context, fence->reports_ended);
  vyc__leave(context, &scope);
  return status;
}

void vyc_fence_release(vyc_fence *fence) {
  if (fence != NULL) vyc__child_release(&fence->child);
}
