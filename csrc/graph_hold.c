/* How long the copy of a captured replay lives: as long as something can launch its nodes.
 *
 * The graph that was captured owns a reference to a user object of the driver; clones, execs and
 * launches in flight own further ones. When the last is gone the driver tells, on any thread, its
 * own too, where no driver call may be made, and maybe long after the context was closed. So what
 * it calls only lists the hold; who next captures, synchronizes, trims, opens, closes or runs out
 * of memory releases the copy. A close does not wait for that: nodes whose modules are unloaded
 * cannot be launched. */
#include <stdlib.h>

#include "graph.h"

struct vyc_hold {
  vyc_hold *next;            /* listed */
  const vyc_context *context; /* to compare with: it may be gone */
  _Atomic(vyc_graph *) copy; /* whoever takes it out releases it */
  _Atomic uint32_t owners;   /* the driver and the copy: the last one frees the hold */
};

/* Of all contexts: one that nobody has a handle of any more is closed by the release of its copy.
 */
static _Atomic(vyc_hold *) ended;

static void drop(vyc_hold *hold) {
  if (atomic_fetch_sub_explicit(&hold->owners, 1, memory_order_acq_rel) == 1) free(hold);
}

static void CUDA_CB list(void *argument) {
  vyc_hold *hold = argument;
  hold->next = atomic_load_explicit(&ended, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&ended, &hold->next, hold, memory_order_release,
                                                memory_order_relaxed)) {
  }
}

static bool give(vyc_hold *hold, vyc_graph *copy, CUgraph into) {
  const vyc_driver *driver = copy->child.context->driver;
  CUuserObject object = NULL;
  if (driver->cuUserObjectCreate(&object, hold, list, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) !=
      CUDA_SUCCESS) {
    copy->hold = NULL;
    free(hold);
    vyc__child_release(&copy->child);
    return false;
  }
  if (driver->cuGraphRetainUserObject(into, object, 1, CU_GRAPH_USER_OBJECT_MOVE) == CUDA_SUCCESS)
    return true;
  driver->cuUserObjectRelease(object, 1);
  return false;
}

bool vyc__hold_give(vyc_graph *copy, CUgraph into) {
  const vyc_driver *driver = copy->child.context->driver;
  if (driver->cuUserObjectCreate == NULL || driver->cuUserObjectRelease == NULL ||
      driver->cuGraphRetainUserObject == NULL)
    return false;
  vyc_hold *hold = malloc(sizeof *hold);
  if (hold == NULL) return false;
  hold->context = copy->child.context;
  atomic_init(&hold->copy, copy);
  atomic_init(&hold->owners, 2);
  vyc__child_retain(&copy->child);
  copy->hold = hold;
  return give(hold, copy, into);
}

static void release(vyc_hold *hold) {
  vyc_graph *copy = atomic_exchange(&hold->copy, NULL);
  if (copy != NULL) vyc__child_release(&copy->child);
}

void vyc__hold_take_back(vyc_graph *copy) {
  if (copy->hold != NULL) release(copy->hold);
}

void vyc__hold_forget(vyc_graph *copy) {
  if (copy->hold != NULL) drop(copy->hold);
}

bool vyc__holds_reap(const vyc_context *context) {
  if (VYC_LIKELY(atomic_load_explicit(&ended, memory_order_relaxed) == NULL)) return false;
  vyc_hold *hold = atomic_exchange_explicit(&ended, NULL, memory_order_acquire);
  bool found = false;
  vyc__record_keep();
  while (hold != NULL) {
    vyc_hold *next = hold->next;
    if (context != NULL && hold->context != context) {
      list(hold);
    } else {
      release(hold);
      drop(hold);
      found = true;
    }
    hold = next;
  }
  vyc__record_resume();
  return found;
}
