/* Graphs of several devices that are launched together, by one thread.
 *
 * Their kernels may wait for each other, so one thread could wait in the driver for what it has not
 * launched yet. It does not, because the driver keeps a thread only until work makes room that was
 * given to the same device before:
 *  - All launches before this one were given to all devices, so on each device they end without
 *    anything that this thread has yet to do; that is also why graphs with collectives are launched
 *    in the same order everywhere (see vyc_graph_add_collectives).
 *  - Everything else that could wait for a device (a new driver graph, its memory and code) is
 *    done, for all, before the first launch. Only the upload of a new executable graph is part of
 *    its launch: it is on the graph's own device, which has nothing of these launches before.
 * So if one of them cannot be launched, none is. */
#include <stdio.h>

#include "graph.h"

typedef struct together {
  uint32_t count, entered, given;
  uint32_t last; /* that the driver was asked to launch */
  vyc_launching launches[VYC_MOST_TOGETHER]; /* by the address of their claims */
  vyc_scope scopes[VYC_MOST_TOGETHER];
} together;

static vyc_status put(together *t, const vyc_graph_part *part) {
  VYC_REQUIRE_IN("graph", part->struct_size >= sizeof *part && part->graph != NULL);
  uint32_t place = t->count;
  for (; place > 0 && t->launches[place - 1].graph->lead > part->graph->lead; place--)
    t->launches[place] = t->launches[place - 1];
  t->launches[place] =
      (vyc_launching){.graph = part->graph,
                      .given = {.changes = part->changes, .change_count = part->change_count},
                      .stream = part->stream};
  t->count++;
  return VYC_OK;
}

/* A context that is there twice would be claimed twice where graphs run in turns. */
static vyc_status check_contexts(const together *t) {
  for (uint32_t i = 0; i < t->count; i++)
    for (uint32_t j = 0; j < i; j++)
      if (t->launches[i].graph->child.context == t->launches[j].graph->child.context)
        return vyc__fail(VYC_E_INVALID, "graph",
                         "two of the graphs belong to device %d: launch one for each device",
                         t->launches[i].graph->child.context->caps.ordinal);
  return VYC_OK;
}

/* Claimed in one order by all threads. */
static vyc_status prepare(together *t) {
  vyc_status status = VYC_OK;
  while (status == VYC_OK && t->entered < t->count) {
    vyc_graph *graph = t->launches[t->entered].graph;
    VYC_TRY(vyc__enter_warm(graph->child.context, &t->scopes[t->entered]));
    vyc__graph_claim(graph);
    status = vyc__graph_launch_prepare(&t->launches[t->entered++]);
  }
  return status;
}

static vyc_status submit_parts(together *t, uint32_t origin) {
  vyc_status status = VYC_OK;
  VYC_CU_RESULT;
  for (uint32_t i = 0; status == VYC_OK && i < t->count; i++) {
    vyc_launching *launch = &t->launches[i];
    vyc_context *context = launch->graph->child.context;
    t->last = i;
    status = VYC_CU(context, cuCtxSetCurrent, context->handle);
    if (VYC_LIKELY(status == VYC_OK)) status = vyc__graph_launch_submit(launch, origin);
    t->given += status == VYC_OK || launch->launched;
  }
  return status;
}

static vyc_status submit(together *t, uint32_t origin) {
  vyc_together contexts;
  contexts.count = 0;
  for (uint32_t i = 0; i < t->count; i++)
    vyc__together_add(&contexts, t->launches[i].graph->child.context);
  vyc__together_begin(&contexts);
  const vyc_status status = submit_parts(t, origin);
  vyc__together_end(&contexts);
  return status;
}

/* Each where its context is current, so the last first. */
static vyc_status finish(together *t, vyc_status status) {
  while (t->entered > 0) {
    vyc_launching *launch = &t->launches[--t->entered];
    vyc_status finished = VYC_OK;
    if (status != VYC_OK) vyc__record_keep();
    if (t->entered < t->given)
      finished = vyc__graph_launch_finish(launch);
    else
      vyc__graph_launch_abandon(launch);
    if (status != VYC_OK) vyc__record_resume();
    if (status == VYC_OK) status = finished;
    vyc__graph_unclaim(launch->graph);
    vyc__leave(launch->graph->child.context, &t->scopes[t->entered]);
  }
  return status;
}

/* The driver refused a launch after others: what these wait for does not come. */
static void give_up(const together *t) {
  char text[4096];
  vyc_error error = {.struct_size = sizeof error};
  vyc_last_error(&error);
  snprintf(text, sizeof text,
           "device %d refused its part of graphs that are launched together (%s), so the other "
           "parts cannot end",
           t->launches[t->last].graph->child.context->caps.ordinal, error.message);
  vyc__record_keep();
  for (uint32_t i = 0; i < t->given; i++) vyc__graph_give_up(t->launches[i].graph, text);
  vyc__record_resume();
}

vyc_status vyc_graph_launch_together(const vyc_graph_part *parts, uint32_t count,
                                     uint32_t *launched_out, uint32_t origin) {
  VYC_REQUIRE(launched_out != NULL && (parts != NULL || count == 0));
  *launched_out = 0;
  if (count > VYC_MOST_TOGETHER)
    return vyc__fail(VYC_E_INVALID, "graph", "%u graphs; at most %u can be launched together",
                     count, VYC_MOST_TOGETHER);
  together t;
  t.count = t.entered = t.given = 0;
  for (uint32_t i = 0; i < count; i++) VYC_TRY(put(&t, &parts[i]));
  VYC_TRY(check_contexts(&t));
  vyc_status status = prepare(&t);
  if (status == VYC_OK) status = submit(&t, origin);
  *launched_out = t.given;
  status = finish(&t, status);
  if (VYC_UNLIKELY(t.given > 0 && t.given < t.count)) give_up(&t);
  return status;
}
