/* What was recorded: a launch, a copy, a fill, collectives, or a repetition of the steps that
 * follow; and its parameters. */
#ifndef VYC_GRAPH_STEP_H
#define VYC_GRAPH_STEP_H

#include "order.h"

enum { STEP_LAUNCH, STEP_TRANSFER, STEP_REPEAT, STEP_COLLECTIVES };

/* The parameters of a launch or transfer. */
typedef struct vyc_values {
  vyc_run run;
  vyc_argument *arguments;
  uint64_t *scalars;
  uint8_t *block;
  void **pointers; /* pointers into it */
  vyc_graph_transfer transfer;
  uint64_t to, from; /* addresses of the transfer */
} vyc_values;

/* Rows, some of which use memory of the graph alone: a captured launch makes another table of them.
 */
typedef struct vyc_own_rows {
  struct vyc_own_rows *next; /* those of the next kernel; NULL: there are no more */
  vyc_prepared *prepared; /* held */
  vyc_rows rows;
  vyc_argument *arguments; /* of `rows`; the step holds their buffers */
  const uint8_t *places; /* of these; or NULL */
} vyc_own_rows;

/* What the rows touch of a step that is many launches as one. */
typedef struct vyc_row_memory {
  uint32_t access_count, buffer_count;
  vyc_access *accesses; /* in order and apart */
  vyc_buffer **buffers; /* each once; held by the step */
  vyc_own_rows *own; /* or NULL */
} vyc_row_memory;

/* Collectives that begin together, which never change. */
typedef struct vyc_collectives {
  vyc_communicator *communicator; /* held, like the buffers */
  uint32_t count;
  uint32_t one_shots; /* of them, in the driver's graph */
  vyc_collective all[];
} vyc_collectives;

#define VYC_STEP_VALUES 3 /* the base, what the executable graph has, and what it is to have */

typedef struct vyc_step {
  uint32_t kind;
  bool away;             /* listed in graph->away: the executable graph may not have `base` */
  bool stale;            /* it is unknown what the executable graph has */
  bool built_empty;      /* no node was made for it: no threads, or no bytes */
  bool moved;            /* `base` touches other ranges than the edges were made for */
  uint32_t end;          /* REPEAT: one past its last step */
  uint32_t first_node;   /* of a list linked by vyc_node.next */
  uint32_t access_count;
  vyc_access *built;     /* the ranges that the edges were made for */
  vyc_prepared *prepared;
  vyc_row_memory *rows; /* of many launches, whose entry `prepared` is; or NULL */
  vyc_collectives *collectives; /* or NULL */
  vyc_block *barrier; /* state of the kernel's grid barrier, for this step alone; or NULL */
  uint64_t report; /* where the prepared kernel reports in this graph; or 0 */
  vyc_values *values[VYC_STEP_VALUES]; /* the second and third are created when needed */
  vyc_values *base; /* one of them; it holds its buffers, and the others hold nothing */
  vyc_values *now; /* what the executable graph has, unless stale */
  vyc_values *target; /* during a launch: what it is to have; NULL: the base */
  uint64_t clears[VYC_MAX_BINDINGS / 64]; /* a bit for each binding that nodes clear */
  uint64_t times; /* REPEAT; 0 with `until`: no limit */
  vyc_buffer *until; /* or NULL */
  uint64_t until_address;
  uint32_t until_bytes;
} vyc_step;

/* ---- steps.c ---- */

/* Values of a step that are neither its base nor what the executable graph has. */
vyc_status vyc__step_spare(vyc_step *step, vyc_values **values_out);
void vyc__step_free(vyc_step *step);
vyc_status vyc__recorded_check(const vyc_prepared *prepared, const vyc_run *run);
vyc_status vyc__transfer_check(const vyc_context *context, const vyc_graph_transfer *transfer);
/* Copy parameters that were checked. */
void vyc__values_set(const vyc_step *step, vyc_values *values, const vyc_run *run,
                     const vyc_graph_transfer *transfer);
/* Copy the base, to change arguments and scalars of it: the block is written by
 * vyc__values_refresh, once all of them are there. */
void vyc__values_begin(const vyc_step *step, vyc_values *values);
/* Write the block again, of arguments and scalars that were changed. */
void vyc__values_refresh(const vyc_step *step, vyc_values *values);
void vyc__values_hold(const vyc_step *step, const vyc_values *values);
void vyc__values_drop(const vyc_step *step, const vyc_values *values);
bool vyc__values_equal(const vyc_step *step, const vyc_values *a, const vyc_values *b);
static inline bool vyc__is_fill(const vyc_graph_transfer *transfer) {
  return transfer->from == NULL && transfer->from_host == NULL;
}
/* Visits what a step touches, one range at a time: all of them would be too much for the stack. */
uint32_t vyc__access_count(const vyc_step *step, const vyc_values *values);
vyc_access vyc__access(const vyc_step *step, const vyc_values *values, uint32_t i);
/* The same; `accesses_out` has room for them. */
uint32_t vyc__step_accesses(const vyc_step *step, const vyc_values *values,
                            vyc_access *accesses_out);
/* ---- parts.c ---- */

void vyc__collectives_drop(vyc_collectives *collectives);
bool vyc__collectives_are_empty(const vyc_collectives *collectives);
uint32_t vyc__collectives_access_count(const vyc_collectives *collectives);
vyc_access vyc__collectives_access(const vyc_collectives *collectives, uint32_t i);

/* Of many launches as one: the arguments behind the table, of a run that has only these, or all. */
static inline const vyc_argument *vyc__rows_arguments(const vyc_step *step, const vyc_run *run) {
  return run->arguments + (run->argument_count + 1 - step->prepared->binding_count);
}

static inline bool vyc__step_is_empty(const vyc_step *step, const vyc_values *values) {
  if (VYC_UNLIKELY(step->kind == STEP_COLLECTIVES))
    return vyc__collectives_are_empty(step->collectives);
  return step->kind == STEP_LAUNCH ? vyc__grid_is_empty(values->run.grid)
                                   : values->transfer.bytes == 0;
}

#endif
