/* What operations work on: a context with buffers, streams, a bound call and a graph, all warm; and
 * how each operation is told to the model of order. */
#ifndef EXPLORER_SCENE_H
#define EXPLORER_SCENE_H

#include "model.h"
#include "order.h"
#include "schedule.h"
#include "vyre_cuda.h"

enum { /* order streams; those of a thread follow */
       STREAM_CALLS = ORDER_CALLS,
       STREAM_ONE = 1,
       STREAM_TWO = 2,
       STREAM_FOREIGN = 3,
       STREAM_SPARE = 10, /* and the thread's number: its own, idle, for it to drop */
       STREAM_MADE = 20, /* and the thread's number: that it makes */
       STREAM_WORKER = 30,
       STREAM_CAPTURED = 40, /* and the thread's number: of others, who capture it */
       STREAM_OTHER = 50 /* call order of the other device */
};

enum { /* order_operation.graph */
       GRAPH_TWICE = 1,
       GRAPH_SHARED = 2,
       GRAPH_FORMS = 3
};

enum binding_of { /* where the arguments of an operation's kernels come from */
                  BY_ITSELF,
                  BY_CALL,
                  BY_GRAPH,
                  BY_FORMS
};

enum { /* a setting of a schedule */
       SETTING_PENDING = 1u, /* work is in flight at the beginning */
       SETTING_EAGER = 2u, /* the device ends at once what it is given */
       SETTING_FREE = 4u, /* buffers are released right after the operations, not read */
       SETTING_HOT_FIRST = 8u, /* of the buffers that are read: a read waits for streams, too */
       SETTING_FAR = 16u, /* streams have far slots, all but the second */
       SETTING_GATHERS = 32u, /* the next scattered ranges are read by a kernel; no worker */
       SETTING_FORMS = 64u, /* there is a graph with two forms: of operations that use it */
       SETTING_DEVICES = 128u, /* two devices, and no worker: of operations that use them */
       SETTING_RANKS = 256u /* which are ranks of a group */
};

#define SCENE_ANY_KERNELS UINT32_MAX /* of an operation: its kernels run when they do */
#define SCENE_INPUT UINT64_C(1000) /* inputs of runs are this and more */
#define SCENE_DROPPED UINT64_C(0xd0b) /* in the place of a result that nobody wants */
#define SCENE_COUNTED UINT64_C(1000000) /* less is counted */
#define SCENE_SHORT_NS 1000 /* ends before the device does its work */
#define SCENE_FORMS_KERNELS 3u /* of a graph with two forms, of both */

typedef struct scene_buffer {
  vyc_buffer *handle;
  uint64_t address;
  uint32_t number; /* in the model of order */
} scene_buffer;

/* What a thread has asked to be told of. */
typedef struct scene_notice {
  uint32_t operation;
  vyc_ticket *ticket; /* or NULL */
  uint64_t in, result;
} scene_notice;

enum { /* values for a graph with two forms: numbers, and arrays behind them */
       SCENE_FORMS_NUMBERS = 2,
       SCENE_FORMS_IN = SCENE_FORMS_NUMBERS,
       SCENE_FORMS_X,
       SCENE_FORMS_Y,
       SCENE_FORMS_SYMBOLS
};

/* The graph whose steps are merged as long as the arrays `x` and `y` are apart. */
typedef struct scene_forms {
  vyc_replay *replay;
  uint32_t own_count; /* pieces of memory of the graph of merged steps alone */
  vyc_replay *beside; /* by a defect, replays that share an array are of this one */
  uint32_t in, x, y, a, b; /* symbols */
  vyc_buffer *arrays[3]; /* at the beginning `x` is the first one, and `y` the last */
  uint64_t addresses[3];
  order_register numbers; /* what `a` and `b` stand for */
  uint64_t x_of[ORDER_MOST], y_of[ORDER_MOST]; /* set by an operation; 0: not by it */
  uint64_t x_given[ORDER_MOST], y_given[ORDER_MOST]; /* for its launch alone */
  uint64_t first[ORDER_MOST]; /* what its first kernel writes to: `x` */
} scene_forms;

/* The other device, with a buffer that is copied from and to the first one's, and both as ranks of
 * a group. Their all-reduces are no operations of the model of order: what each adds is known. */
typedef struct scene_devices {
  vyc_context *context; /* of the other device; NULL: there is one device */
  vyc_bundled_kernel *kernel;
  vyc_prepared *prepared;
  scene_buffer x, there;
  vyc_communicator *ranks[MODEL_DEVICES];
  vyc_module *modules[MODEL_DEVICES];
  vyc_prepared *reducing[MODEL_DEVICES];
  vyc_buffer *in[MODEL_DEVICES], *out[MODEL_DEVICES][EXPLORER_CALLERS];
  uint64_t results[MODEL_DEVICES][EXPLORER_CALLERS]; /* addresses */
  uint8_t uses[ORDER_MOST]; /* by an operation: a set of devices; 0: the first alone */
  bool has_ranks;
  bool closing, closed; /* the other one */
  bool leaving[MODEL_DEVICES]; /* a rank */
  bool aborted;
  bool is_left; /* by the second rank, in what is tried */
  uint32_t launching[MODEL_DEVICES]; /* threads, one of which may give a call, or may not */
  uint64_t refused; /* operations of which the driver refuses an all-reduce */
  bool is_refused_late; /* one of them, while or after a rank left: that may have counted it */
} scene_devices;

#define SCENE_FIRST 1u /* in sets of devices */
#define SCENE_OTHER 2u
#define SCENE_ADDS(rank) (UINT64_C(40) + 2 * (rank)) /* what a rank's element is */

typedef struct scene {
  order order;
  vyc_driver *driver;
  vyc_context *context;
  vyc_bundle *bundle;
  vyc_bundled_kernel *kernel;
  vyc_prepared *prepared;
  vyc_module *module;
  vyc_prepared *asserting; /* each launch fails, which is told to one wait for it */
  uint64_t failing, told; /* operations that launch such, and those of which a wait said so */
  vyc_prepared *copying; /* its input is copied to the device, unless it stays there */
  vyc_prepared *resident;
  vyc_worker *worker; /* with two blocks if streams are far */
  uint32_t pauses; /* operations that pause it, or did */
  uint32_t waiting; /* threads that wait for all work */
  bool worker_closing;
  uint64_t withdrawn; /* calls that were left while it was paused */
  uint64_t kept; /* calls that wait for the end of a pause */
  uint64_t faulting; /* operations whose kernel faults */
  bool lost; /* one has */
  vyc_communicator *communicator; /* of one rank */
  vyc_graph *communicating; /* x to hot by the kernel, and that to out by an all-reduce */
  uint64_t collectives; /* operations that have some */
  bool refuses_collectives; /* for what another operation does */
  vyc_prepared *rows; /* many launches of `copying` as one */
  vyc_prepared *placed; /* the same with a place for what rows read */
  uint64_t input[ORDER_MOST]; /* that the kernel of an operation must find; 0: any */
  uint64_t dropped[EXPLORER_CALLERS], cells[EXPLORER_CALLERS][2]; /* host memory */
  vyc_graph *graph; /* x to memory of its own, and that to hot */
  vyc_buffer *between; /* that memory */
  scene_forms forms;
  scene_devices devices;
  vyc_replay *replay;
  uint32_t symbol_a, symbol_out, symbol_x;
  vyc_stream *one, *two, *spare[EXPLORER_CALLERS], *made[EXPLORER_CALLERS];
  uint64_t foreign_stream, foreign_memory[EXPLORER_CALLERS], captured_stream[EXPLORER_CALLERS];
  uint32_t capturing; /* threads: nobody may close what they run */
  scene_buffer x, hot, out, own[EXPLORER_CALLERS];
  vyc_call *call; /* on stream one: x to hot */
  order_register bound, symbol, steps;
  enum binding_of binding[ORDER_MOST];
  uint32_t kernels[ORDER_MOST]; /* that an operation is to launch */
  uint64_t graph_value[ORDER_MOST];
  uint32_t operation[EXPLORER_THREADS]; /* that a thread is in */
  scene_notice notices[EXPLORER_CALLERS];
  uint64_t awaited,
      noticed; /* operations that asked for a notice, and those that it was given to */
  uint32_t setting;
  bool closing, closed;
  uint64_t launches, graph_launches; /* given to the driver */
  uint64_t reset_step; /* when the last reset of the statistics had ended; 0: none */
  uint64_t launches_since, graph_launches_since; /* of operations that began after it */
  uint32_t launches_row, graph_launches_row;
  uint64_t launches_before, graph_launches_before; /* as the library counts them */
} scene;

/* The scene of the schedule that runs. */
scene *the_scene(void);
/* What belongs to the process, before all scenes. */
void scene_prepare_process(void);
uint32_t scene_origin(void);
/* A defect of the scene itself, before it is made. */
void scene_be_wrong(model_plant plant);
bool scene_is_wrong(model_plant plant);
/* Runs on thread 0: makes the scene, with SETTING_PENDING, SETTING_FAR, SETTING_GATHERS and
 * SETTING_FORMS or without. */
void scene_make(void *setting);
/* A download of four ranges of the thread: x, hot, out and its own. */
vyc_status scene_read_ranges(uint64_t values[4], uint32_t thread);
/* The second rank of the group leaves it in what is tried. */
void scene_expect_leaving(void);
/* Runs on each thread once, which has its number from then on. */
void scene_number_thread(void *unused);
/* The same on the first of them, which makes what takes a thread of the library's. */
void scene_make_communicator(void *unused);
/* What is right before the threads begin. */
void scene_begin(uint32_t setting);
/* Runs on thread 0 when the others have ended: reads everything, releases everything. */
void scene_judge(void *unused);

/* Around a call: the number of the operation, and what came of it. A failure that no close explains
 * ends the schedule. */
uint32_t scene_enter(order_operation operation, enum binding_of binding, uint32_t kernels);
void scene_leave(uint32_t operation, vyc_status status);
/* An operation that another thread ends, from here to where it does. */
void scene_hand_over(uint32_t operation);
void scene_take_over(uint32_t operation);
/* Of `copying`. */
vyc_status scene_make_worker(vyc_worker **worker_out, uint32_t blocks);
vyc_status scene_make_copying(vyc_prepared **prepared_out);
vyc_status scene_make_resident(vyc_prepared **prepared_out);
/* As in another process, when the context of the scene is closed: it knows nothing of a fault. */
void scene_restart_worker(void);
/* It is not on the device afterwards. */
void scene_warm_worker(void);
/* Nothing where there is no worker. False: it was closed before, or the context. */
bool scene_pause_worker(void);
void scene_resume_worker(void);
/* Of the communicator; step 0 has the scalar. */
vyc_status scene_make_communicating(vyc_graph **graph_out, uint64_t value);
vyc_status scene_make_asserting(vyc_prepared **prepared_out);
/* The same for what must not fail and is no operation of the model. True: it may go on. */
bool scene_ok(vyc_status status, const char *what);

static inline void scene_must(vyc_status status, const char *what) { scene_ok(status, what); }
#define MUST(call) scene_must(call, #call)
/* The model of order, as the model of the driver calls it. */
model_hooks scene_hooks(void);
/* As the library counts them. */
void scene_read_counters(const scene *s, uint64_t *launches_out, uint64_t *graph_launches_out);

/* The graph with two forms. */
void scene_make_forms(scene *s);
void scene_release_forms(scene *s);
/* A number for both kinds of steps, and arrays by their places. */
void scene_forms_number(vyc_symbol_value values[SCENE_FORMS_NUMBERS], const scene_forms *forms,
                        uint32_t number);
void scene_forms_values(vyc_symbol_value values[SCENE_FORMS_SYMBOLS], const scene *s,
                        uint32_t number, uint32_t x, uint32_t y);
void scene_forms_given(scene *s, const model_kernel *kernel);
/* Where it reads a cell. */
void scene_forms_read(const scene *s, const model_kernel *kernel);

/* Two devices: made before the work of the beginning, and judged before all else. */
void scene_make_devices(scene *s);
void scene_judge_devices(scene *s);
/* The ranks of the group, on a thread as with the communicator. */
void scene_make_ranks(scene *s);
vyc_context *scene_context(const scene *s, uint32_t device);
bool scene_is_closing(const scene *s, uint32_t devices);
bool scene_is_leaving(const scene *s, uint32_t rank);
/* Whether waits for one of the devices may say that its work was ended. */
bool scene_may_be_broken(const scene *s, uint32_t devices);
/* An all-reduce of a rank, and a wait for its device; `operation` is who gave what it has. */
vyc_collective scene_all_reduce(const scene *s, uint32_t rank, uint32_t thread);
bool scene_may_refuse(const scene *s, uint32_t rank, vyc_status status);
void scene_await_rank(uint32_t rank, uint32_t operation, uint32_t thread);
bool scene_refuses(void);

/* A launch of the kernel; `in` may begin at its second element. */
void scene_launch(const char *name, vyc_stream *stream, uint32_t order_stream,
                  const scene_buffer *in, const scene_buffer *to);
typedef struct scene_run {
  vyc_run run;
  vyc_argument arguments[2];
  uint64_t value;
} scene_run;
void scene_fill_run(scene_run *run, vyc_stream *stream, const scene_buffer *in, uint64_t in_offset,
                    const scene_buffer *to, uint64_t value);
/* Both steps of the scene's graph, with another scalar. */
typedef struct scene_changes {
  scene_run runs[2];
  vyc_graph_change list[2];
} scene_changes;
void scene_fill_changes(scene_changes *changes, uint64_t value);
/* `tries`: without a lock and not for long at first. */
void scene_copy_in(const scene_buffer *to, bool tries);
void scene_copy_out(const scene_buffer *from, bool tries);
bool scene_buffer_make(scene_buffer *buffer, const char *name);
void scene_buffer_end(scene_buffer *buffer);
static inline uint32_t scene_set(const scene_buffer *buffer) { return 1u << buffer->number; }

#endif
