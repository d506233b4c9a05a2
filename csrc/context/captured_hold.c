/* How long what the nodes of a captured replay use lives: as long as something can launch them.
 *
 * The graph that was captured owns a reference to a user object of the driver; clones, executable
 * graphs and launches in flight own further ones. When the last one is gone, the driver calls us
 * on any thread, even one of its own, where no driver call is allowed, and perhaps long after the
 * context was closed. So the callback only lists the hold; the next capture, synchronize, trim,
 * open, close or lack of memory releases it. A close does not wait for that: nodes whose modules
 * are unloaded cannot be launched. */
#include <stdlib.h>

#include "room.h"

struct vyc_hold {
  vyc_hold *next;            /* listed */
  const vyc_context *context; /* to compare with: it may be gone */
  _Atomic(vyc_child *) child; /* whoever takes it out releases it */
  _Atomic uint32_t owners;   /* the driver and the child: the last one frees the hold */
};

/* Of all contexts: one that nobody has a handle of any more is closed by the release of its child.
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

static bool has_user_objects(const vyc_driver *driver) {
  return driver->cuUserObjectCreate != NULL && driver->cuUserObjectRelease != NULL &&
         driver->cuGraphRetainUserObject != NULL;
}

static vyc_hold *make(vyc_child *child) {
  vyc_hold *hold = malloc(sizeof *hold);
  if (hold == NULL) return NULL;
  hold->context = child->context;
  atomic_init(&hold->child, child);
  atomic_init(&hold->owners, 2);
  vyc__child_retain(child);
  return hold;
}

bool vyc__hold_give(vyc_hold **hold_out, vyc_child *child, CUgraph into) {
  const vyc_driver *driver = child->context->driver;
  vyc_hold *hold = has_user_objects(driver) ? make(child) : NULL;
  if (hold == NULL) return false;
  CUuserObject object = NULL;
  if (driver->cuUserObjectCreate(&object, hold, list, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) !=
      CUDA_SUCCESS) {
    free(hold);
    vyc__child_release(child);
    return false;
  }
  *hold_out = hold; /* before the driver can use it */
  if (driver->cuGraphRetainUserObject(into, object, 1, CU_GRAPH_USER_OBJECT_MOVE) == CUDA_SUCCESS)
    return true;
  driver->cuUserObjectRelease(object, 1);
  return false;
}

static void release(vyc_hold *hold) {
  vyc_child *child = atomic_exchange(&hold->child, NULL);
  if (child != NULL) vyc__child_release(child);
}

void vyc__hold_take_back(vyc_hold *hold) {
  if (hold != NULL) release(hold);
}

void vyc__hold_forget(vyc_hold *hold) {
  if (hold != NULL) drop(hold);
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
