/* A model of a CUDA driver and its device: small, deterministic, and as late as it may be.
 *
 * Streams are queues; what is in them runs when the explorer says so, or when everybody waits. A
 * kernel reads eight bytes and writes eight. Handles that were destroyed may not be used, nor
 * memory that was freed, and work in flight must not touch what is freed. */
#ifndef EXPLORER_MODEL_H
#define EXPLORER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define MODEL_MEMORIES 256u
#define MODEL_STREAMS 48u
#define MODEL_NODES 8u /* of a graph */
#define MODEL_DEVICES 2u /* and as many ranks, whose kernels all-reduce in one shot */
/* A kernel of this name takes the address of a report behind its other parameters, and always
 * fails: its report is the number of the operation that launched it. */
#define MODEL_ASSERTING "asserting"
#define MODEL_ROWS "rows"
#define MODEL_PLACES "rows_with_places" /* the same with one array behind its other parameters */
#define MODEL_MERGED "k_put_put" /* no count, and one of its scalars is in a cell */
#define MODEL_CELLS "k_write_symbols" /* writes its scalar to a cell */
#define MODEL_GATHERS "vyc_gather"
#define MODEL_RESIDENT "resident" /* stays, and takes calls from a ring */
#define MODEL_REDUCES "reduces" /* in one shot, one element of 8 bytes, which is less than 2^32 */
#define MODEL_NCCL "the model of NCCL" /* as a library */
#define MODEL_ROW_BYTES 48u /* of its table: 16, and the parameters of a launch */

/* A kernel that all-reduces in one shot, and waits for those of the other ranks. */
typedef struct model_reduce {
  uint64_t in, out, inboxes[MODEL_DEVICES], own, epochs, word;
  uint32_t rank, epoch;
  uint64_t number; /* among those of its rank, from 1 */
  bool has_sent;
} model_reduce;

/* A kernel that was given to a stream. */
typedef struct model_kernel {
  uint64_t in, out, value; /* its parameters */
  uint64_t row;            /* of a table: where the parameters are, too; 0: nowhere else */
  uint64_t placed;         /* what rows with 1 read; 0: there are none */
  uint64_t report;         /* where a failed assertion goes; 0: it has none */
  uint64_t cell;           /* where it reads its value, or a second one; 0: nowhere */
  uint32_t count, device;
  uint32_t operation;  /* who gave it */
  uint32_t number;     /* of it, among the kernels of one launch of a graph */
  uint32_t of_graph;   /* kernels that the graph has */
  uint32_t in_owner, out_owner;
  const void *module; /* that has its code; of a collective the communicator */
  bool gathers;       /* it is the one that reads scattered ranges */
  bool is_collective;
  bool has_value;     /* as a parameter */
  bool writes_cell;   /* its value, to `out`; it reads nothing */
  model_reduce *reduce; /* NULL: it is no such kernel, of which nothing above is used */
} model_kernel;

/* A defect, for tests of the explorer. The first three are of the device's part of a worker. */
typedef enum model_plant {
  MODEL_IS_RIGHT,
  MODEL_LOSES_CALL, /* one that is there when a launch ends as busy */
  MODEL_ANSWERS_EARLY, /* before the call has run */
  MODEL_ANSWERS_ANOTHER, /* call, too */
  MODEL_GATHERS_APART, /* the kernel that reads scattered ranges is on a stream of its own */
  MODEL_FORGETS_OWNED, /* what was captured runs without owning what it uses */
  MODEL_SHARES_OWN, /* a graph whose own memory is not known to be that */
  MODEL_LOSES_COLLECTIVE, /* of a graph */
  MODEL_ANSWERS_FAULTED, /* call of a worker */
  MODEL_STAYS_FAULTED, /* in another process, too */
  MODEL_FORMS_APART, /* two forms of a graph are graphs that know nothing of each other */
  MODEL_SETS_UNSEEN, /* launches do not see that symbols were set since they looked at them */
  MODEL_SHARES_CELLS /* a captured replay with two forms has the memory of the others */
} model_plant;

typedef struct model_hooks {
  uint32_t (*operation)(void); /* that the running thread is in */
  void (*given)(model_kernel *kernel);
  void (*runs)(model_kernel *kernel);
  void (*writes)(const model_kernel *kernel); /* a copy from the host, to `out` */
  bool (*faults)(const model_kernel *kernel); /* in place of its run, by a worker */
  bool (*refuses)(void); /* whether the driver refuses what the running thread launches */
} model_hooks;

/* Everything anew, in the explored heap. */
void model_start(model_hooks hooks);
/* Work ends as soon as it is given; else as late as it can. */
void model_be_eager(bool eager);
void model_be_wrong(model_plant plant);
bool model_step(bool is_waited_for);
bool model_has_work(void);
/* A fault of the device does not outlive the process. */
void model_begin_process(void);
/* Of the device or of the host, that the device can write to. */
bool model_has_memory(uintptr_t address);
/* All of it, what nobody waits for first: as late as anything can be. */
void model_drain(void);
/* A stream that this library has not made; its handle. */
uint64_t model_stream_of_others(void);
/* How many kernels of a rank were launched, and the number of the last one by an operation. */
uint64_t model_reduces(uint32_t rank);
uint64_t model_reduce_of(uint32_t rank, uint32_t operation);
uint64_t model_memory_of_others(void);
/* Others capture their stream; and they run once what they have captured, until it has ended. */
void model_capture_begin(uint64_t stream);
void model_capture_run(uint64_t stream);
/* What is left: fails when the driver holds anything. */
void model_check_empty(void);
/* The thread's current context and capture mode are as they were at first. */
void model_check_thread(void);
uint64_t model_read(uint64_t address);
void model_write(uint64_t address, uint64_t value);
/* The whole of [address, address + bytes) is memory that is there. */
void model_check_memory(uint64_t address, uint64_t bytes, const char *who);

#endif
