/* What the files of the model share: its streams, events, graphs and memory, and how work is given.
 */
#ifndef EXPLORER_MODEL_PARTS_H
#define EXPLORER_MODEL_PARTS_H

#include <stddef.h>
#include <string.h>

#include "base/cuda.h"
#include "model.h"
#include "schedule.h"

enum { /* work.kind */
       WORK_KERNEL,
       WORK_COPY,
       WORK_FILL,
       WORK_SET, /* a word, as a memory operation of a stream does */
       WORK_RECORD,
       WORK_WAIT,
       WORK_WAIT_VALUE, /* until a word is so much */
       WORK_RESIDENT,
       WORK_GRAPH
};

typedef struct node {
  uint32_t kind, width;
  uint64_t to, from, bytes, value;
  model_kernel kernel;
} node;

typedef struct event event;
typedef struct stream stream;
typedef struct exec exec;

/* A launch of a worker. */
typedef struct resident {
  uint64_t slots, answers, ended;
  uint32_t until, mask, launch;
  bool stays; /* until call number `until` is answered, however long nothing comes */
  bool begun;
  uint32_t call; /* the next one, once it has begun */
  uint32_t served;
  bool answered; /* but not run, by a defect: the call is `taken` */
  bool stopped; /* a stop is answered, and the end is not noted yet */
  uint32_t taken[32];
} resident;

typedef struct work {
  struct work *next;
  uint64_t serial;
  uint32_t kind;
  bool done;
  struct work *behind; /* of a launch: the one before of the same exec; of a wait: the record */
  uint8_t *copied; /* of pageable memory: what it held */
  uint32_t node_count, ran; /* nodes; of a graph: those that have run */
  node nodes[MODEL_NODES];
  resident resident;
} work;

/* What a graph and everything made of it own, until the last of them is gone. */
typedef struct user_object {
  CUhostFn end;
  void *argument;
  uint32_t owners;
} user_object;

typedef struct graph {
  struct graph *next; /* of all there were */
  bool live;
  uint32_t node_count;
  node nodes[MODEL_NODES];
  user_object *owned;
} graph;

struct stream {
  bool live, foreign;
  uint32_t number, device;
  graph *captured; /* that its work goes into; NULL: nobody captures it */
  CUgraphNode last; /* that was captured; NULL: none */
  work *first, **end;
};

struct event {
  bool live;
  work *last; /* record; a wait is for the one that it finds, whatever is recorded later */
  stream *stream;
};

struct exec {
  exec *next; /* of all there were */
  bool live;
  uint32_t node_count;
  node nodes[MODEL_NODES];
  work *last;
  user_object *owned;
};

typedef struct memory {
  uint64_t address, bytes;
  bool live, pinned, foreign;
  uint32_t device;
} memory;

typedef struct model {
  model_hooks hooks;
  bool eager;
  bool faulted; /* for the rest of the process: nothing runs any more */
  model_plant plant;
  uint64_t serial;
  uint32_t stream_count, memory_count;
  uint32_t giving; /* the device that was given work last */
  stream *streams[MODEL_STREAMS];
  memory memories[MODEL_MEMORIES];
  stream *wanted;
  graph *graphs;
  exec *execs;
  int64_t live_streams, live_events, live_graphs, live_execs, live_modules, live_comms;
  int64_t holders[MODEL_DEVICES];
  bool reaches[MODEL_DEVICES][MODEL_DEVICES]; /* memory of the second */
  uint64_t reduces[MODEL_DEVICES];
  uint64_t reduce_of[MODEL_DEVICES][64]; /* by operation */
  CUcontext current[EXPLORER_THREADS];
  CUstreamCaptureMode mode[EXPLORER_THREADS];
} model;
extern model *the_model;

/* In the handle of a function whose kernel fails an assertion whenever it runs. */
#define ASSERTING UINT64_C(8)
/* In that of one whose parameters are in a table. */
#define ROWS UINT64_C(4)
/* In that of one of these that has an array in place 1. */
#define PLACES UINT64_C(128)
/* In that of the kernel that reads scattered ranges. */
#define GATHERS UINT64_C(16)
/* In that of one that was merged of others. */
#define MERGED UINT64_C(1)
/* In that of one that writes a cell. */
#define CELLS UINT64_C(32)
/* In that of a worker. */
#define RESIDENT UINT64_C(2)
/* In that of one which all-reduces in one shot. */
#define REDUCES UINT64_C(64)
#define CONTEXT(device) ((CUcontext)((uintptr_t)0xC0DE00 + (device)))

#define POINT(text, object, kind)                                                                  \
  do {                                                                                             \
    EXPLORER_SITE(text);                                                                           \
    explorer_point(&explorer_here, "the driver", (object), (kind));                                \
  } while (0)
/* Calls that depend on nothing but the objects they name, or look at them alone. */
#define NAMES(object) POINT(__func__ + 6, object, EXPLORER_DRIVER)
#define LOOKS(object) POINT(__func__ + 6, object, EXPLORER_DRIVER | EXPLORER_READS)
#define MAKES() POINT(__func__ + 6, NULL, EXPLORER_DRIVER | EXPLORER_NEW)
/* Calls about work, of one object, of two, or of anything. */
#define WORKS(object) POINT(__func__ + 6, object, EXPLORER_DRIVER | EXPLORER_WORK)
#define WORKS_WITH(object, other)                                                                  \
  do {                                                                                             \
    explorer_name(other);                                                                          \
    WORKS(object);                                                                                 \
  } while (0)
#define WORKS_WITH_ALL() WORKS(NULL)
#define ALONE(text) POINT(text, NULL, EXPLORER_DRIVER | EXPLORER_OWN)

/* Room in the explored heap, of zeros. */
static inline void *take(size_t bytes) { return memset(explorer_heap_take(bytes), 0, bytes); }

/* ---- devices (model_contexts.c) -------------------------------------------------------------- */

/* Of the context that is current; none: the first. */
uint32_t device_now(void);

/* ---- memory (model_memory.c) ----------------------------------------------------------------- */

/* NULL: no memory of the model's. */
memory *memory_at(uint64_t address);
bool is_device(uint64_t address);

/* ---- work (model_work.c) --------------------------------------------------------------------- */

stream *stream_of(CUstream handle, const char *function);
work *give(stream *s, uint32_t kind);
/* After a call that gave work. */
CUresult given(void);
/* All work is gone. */
void fault(void);
void kernel_given(model_kernel *kernel, uint32_t number, uint32_t of_graph);
model_kernel kernel_of(const void *function, void **parameters);
/* A kernel for each row, in place of a work's only node, whose kernel has a table; they are given
 * then. */
void rows_given(work *w);
/* The kernels of such a node, none of them given; returns how many. */
uint32_t rows_of(node *nodes, const model_kernel *table_kernel, uint32_t room);

/* ---- graphs (model_graphs.c) ----------------------------------------------------------------- */

graph *graph_of(CUgraph handle);
CUresult CUDAAPI model_cuGraphCreate(CUgraph *out, unsigned flags);
CUresult CUDAAPI model_cuGraphDestroy(CUgraph handle);
CUresult CUDAAPI model_cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph handle,
                                                   unsigned long long flags);
CUresult CUDAAPI model_cuGraphExecDestroy(CUgraphExec handle);
CUresult CUDAAPI model_cuGraphLaunch(CUgraphExec handle, CUstream where);
/* Nodes run in the order of their making, which is one that their edges allow. */
CUresult add_node(CUgraphNode *out, CUgraph handle, const node *n);
/* Whether a graph that is there, or an executable one, has work of a communicator. */
bool graphs_have(const void *comm);

/* ---- captures (model_captures.c) ------------------------------------------------------------- */

/* A node of the graph that the stream captures into. */
void capture_node(CUstream where, const node *n);
/* Of NULL, too. */
user_object *object_retain(user_object *object);
void object_drop(user_object *object);

/* ---- kernels that all-reduce in one shot (model_reduce.c) ------------------------------------ */

model_reduce *reduce_of(void **parameters);
/* A launch has one of its own. */
void reduce_given(model_kernel *kernel);
bool reduce_can_go_on(const model_reduce *reduce, uint32_t device);
/* True: it has ended. */
bool reduce_step(model_reduce *reduce, uint32_t device);
bool reduce_touches(const model_reduce *reduce, const memory *where);

/* ---- workers (model_resident.c) -------------------------------------------------------------- */

void resident_given(work *w, const void *function, void **parameters);
/* There is a call for it to take. */
bool resident_is_called(const work *w);
bool resident_can_go_on(const work *w);
/* True: it has ended. */
bool resident_step(work *w);
bool value_is_reached(const node *n);

/* ---- the driver's functions ------------------------------------------------------------------ */

typedef struct model_row {
  const char *name; /* NULL behind the last */
  void (*function)(void);
} model_row;
#define MODEL_ROW(name) {#name, (void (*)(void))model_##name},

extern const model_row model_context_rows[], model_stream_rows[], model_memory_rows[],
    model_kernel_rows[], model_graph_rows[], model_capture_rows[], model_nccl_rows[];

#endif
