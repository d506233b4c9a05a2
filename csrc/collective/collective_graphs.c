/* Which graphs have a communicator's work, and whether it can be given any. These graphs end before
 * the communicator: NCCL's own end waits for the driver graphs that it was captured into. */
#include "room.h"

vyc_status vyc__captured_check(const vyc_context *context) {
  const vyc_driver *driver = context->driver;
  if (driver->cuStreamBeginCaptureToGraph != NULL && driver->cuStreamGetCaptureInfo != NULL &&
      driver->cuStreamUpdateCaptureDependencies != NULL)
    return VYC_OK;
  return vyc__fail(VYC_E_UNSUPPORTED, "recorded_collectives",
                   "collectives in graphs need a driver for CUDA 12.3 or later; this one is for "
                   "CUDA %d.%d: update it, or make the calls outside of graphs",
                   driver->version / 1000, driver->version % 1000 / 10);
}

vyc_status vyc__communicator_check(vyc_communicator *c, const char *what) {
  /* A close sets `closed` before `ended`, and before it takes the reason away. */
  const vyc_status status =
      atomic_load(&c->ended) ? vyc__context_fail_broken(c->child.context, what) : VYC_OK;
  if (VYC_LIKELY(!atomic_load(&c->closed))) return status;
  return vyc__fail(VYC_E_INVALID, what, "the communicator is closed: make another one");
}

vyc_status vyc__communicator_may_run(vyc_communicator *c, const char *what) {
  vyc_context *context = c->child.context;
  if (VYC_UNLIKELY(atomic_load(&context->worker_count) != 0) &&
      context->above->workers_may_run(context))
    return vyc__fail(VYC_E_INVALID, what,
                     "a worker is on device %d, and each could wait for the other: pause the "
                     "worker, or close it",
                     context->caps.ordinal);
  return vyc__communicator_check(c, what);
}

/* ---- the graphs of a communicator ----------------------------------------------------------- */

void vyc__collective_graph_add(vyc_collective_graph *graph) {
  vyc_communicator *c = graph->communicator;
  pthread_mutex_lock(&c->graphs_lock);
  graph->next = c->graphs;
  c->graphs = graph;
  pthread_mutex_unlock(&c->graphs_lock);
}

void vyc__collective_graph_remove(vyc_collective_graph *graph) {
  vyc_communicator *c = graph->communicator;
  pthread_mutex_lock(&c->graphs_lock);
  vyc_collective_graph **link = &c->graphs;
  while (*link != NULL && *link != graph) link = &(*link)->next;
  if (*link != NULL) *link = graph->next; /* else the communicator has ended it */
  pthread_mutex_unlock(&c->graphs_lock);
}

/* Whether none is left. Nothing waits while the lock is held: a graph that is in use is tried again
 * later. */
static bool end_some(vyc_communicator *c) {
  pthread_mutex_lock(&c->graphs_lock);
  vyc_collective_graph **link = &c->graphs;
  while (*link != NULL) {
    vyc_collective_graph *graph = *link;
    if (graph->end(graph))
      *link = graph->next;
    else
      link = &graph->next;
  }
  const bool are_gone = c->graphs == NULL;
  pthread_mutex_unlock(&c->graphs_lock);
  return are_gone;
}

bool vyc__collective_graphs_end(vyc_communicator *c) {
  const uint64_t limit = vyc__now_ns() + VYC_COLLECTIVE_GRAPHS_PATIENCE_NS;
  while (!end_some(c)) {
    if (vyc__now_ns() >= limit) return false;
    vyc__sleep_us(100);
  }
  return true;
}
