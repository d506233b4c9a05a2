/* A libnccl.so.2 for tests, on the emulator: ranks are threads or processes that share memory.
 *
 * What a stream is given waits there for the other ranks, as NCCL's kernels do, until the
 * communicator is aborted. It is strict: every rank's n-th collective must be the same, of the same
 * type, size, op and root, else all of them report an error, write nothing and wait on. As in NCCL,
 * ranks are connected when that is first needed: the first collective of a communicator keeps the
 * calling thread until all ranks make theirs, and the first send to a rank until that receives; it
 * fails where one of them is gone. The end of a communicator that has connected, also an abort,
 * waits until all others end theirs or are gone (with FAKE_NCCL_WAITS_FOR_GONE set, also for those
 * that are gone, as NCCL may); a process whose exit comes as far as the library meanwhile crashes.
 * The exit waits for the work of its devices, as that of a library with kernels of its own. On a
 * stream that is being captured it makes two nodes that have no order, waits for all ranks to
 * capture as much, and then, like NCCL, does not end a communicator while a graph has its work, and
 * is not captured into one graph twice. It knows devices, as NCCL does: where a thread has no
 * current context, a call may leave it one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
enum { OK, CUDA_FAILED, SYSTEM, INTERNAL, INVALID_ARGUMENT, INVALID_USAGE };
enum { RANKS = 9, PAYLOAD = 8 << 20, LETTER = 1 << 20 };
enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, SEND, RECV };

typedef struct what {
  int kind, type, op, root;
  uint64_t count;
} what;

/* Shared by the ranks. Each counter is written by one rank alone. */
typedef struct rank_part {
  _Atomic uint64_t came, given, taken; /* joined; collectives whose input is there, and done with */
  _Atomic uint64_t captured;
  _Atomic int pid;
  _Atomic bool connects, ended; /* has begun its first collective; its communicator ends */
  what what;
} rank_part;
typedef struct letter {
  _Atomic bool sender_connects, receiver_connects;
  _Atomic uint64_t sent, read;
  int type;
  uint64_t count;
} letter;
typedef struct board {
  _Atomic int32_t error;
  rank_part ranks[RANKS];
  letter letters[RANKS][RANKS];
} board;

typedef struct ncclComm {
  board *board;
  char *payload, *letters;
  int rank, size, file; /* of whose bytes each process locks those of its ranks */
  void *context;
  _Atomic bool is_connected;
  _Atomic int aborted, destroyed;
  _Atomic int graphs; /* that have its work */
  void *_Atomic graph; /* into which it was captured last, NULL once that has ended */
  uint64_t capture; /* in which */
  uint64_t done; /* collectives of this rank */
} comm;

typedef struct work {
  comm *comm;
  void *stream;
  what what;
  int peer;
  const char *in;
  char *out;
} work;
typedef struct batch {
  bool is_kept; /* in a graph, which may run it again, and frees it */
  void *graph;
  int count;
  work all[];
} batch;

/* ---- the emulator ---------------------------------------------------------------------------- */

static struct {
  int (*get_current)(void **);
  int (*set_current)(void *);
  int (*synchronize)(void);
  int (*launch)(void *, void (*)(void *), void *);
  int (*is_capturing)(void *, int *);
  int (*capture_info)(void *, int *, uint64_t *, void **, void *const **, size_t *);
  int (*depend)(void *, void *const *, size_t, unsigned);
  int (*user_object)(void **, void *, void (*)(void *), unsigned, unsigned);
  int (*retain)(void *, void *, unsigned, unsigned);
} driver;
static _Atomic bool is_exiting;
static void *_Atomic contexts[RANKS]; /* of the ranks of this process */
static _Atomic int ending; /* communicators */

static void at_exit(void);

static bool find(void) {
  if (driver.launch != NULL) return true;
  const char *path = getenv("FAKE_NCCL_DRIVER");
  void *library = path == NULL ? NULL : dlopen(path, RTLD_NOW);
  int (*look_up)(const char *, void **, int, uint64_t, int *) = NULL;
  if (library == NULL) return false;
  *(void **)&look_up = dlsym(library, "cuGetProcAddress_v2");
  if (look_up == NULL) return false;
  look_up("cuCtxGetCurrent", (void **)&driver.get_current, 13000, 0, NULL);
  look_up("cuCtxSetCurrent", (void **)&driver.set_current, 13000, 0, NULL);
  look_up("cuCtxSynchronize", (void **)&driver.synchronize, 13000, 0, NULL);
  look_up("cuStreamIsCapturing", (void **)&driver.is_capturing, 13000, 0, NULL);
  look_up("cuStreamGetCaptureInfo", (void **)&driver.capture_info, 11030, 0, NULL);
  look_up("cuStreamUpdateCaptureDependencies", (void **)&driver.depend, 11030, 0, NULL);
  look_up("cuUserObjectCreate", (void **)&driver.user_object, 13000, 0, NULL);
  look_up("cuGraphRetainUserObject", (void **)&driver.retain, 13000, 0, NULL);
  look_up("cuLaunchHostFunc", (void **)&driver.launch, 13000, 0, NULL);
  atexit(at_exit); /* before the emulator ends its streams, whose work may wait here */
  return driver.launch != NULL;
}

/* ---- meeting --------------------------------------------------------------------------------- */

static void pause_a_little(void) {
  const struct timespec some = {0, 50000};
  nanosleep(&some, NULL);
}

static void at_exit(void) {
  for (int r = 0; r < RANKS; r++)
    if (contexts[r] != NULL && driver.set_current(contexts[r]) == 0) driver.synchronize();
  is_exiting = true;
  if (ending == 0) return;
  fprintf(stderr, "a communicator ends in the exit of its process\n");
  abort();
}

#define WAIT(c, condition)                                                                         \
  while (!(condition)) {                                                                           \
    if ((c)->aborted || is_exiting) return false;                                                  \
    pause_a_little();                                                                              \
  }

/* NCCL tells of an error and goes on waiting; results are not written. */
static bool fail(comm *c) {
  c->board->error = INVALID_USAGE;
  WAIT(c, false);
  return false;
}

static const uint64_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

static char *payload_of(const comm *c, int rank) { return c->payload + (size_t)rank * PAYLOAD; }
static char *letter_of(const comm *c, int from, int to) {
  return c->letters + (size_t)(from * RANKS + to) * LETTER;
}

static float from_bf16(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, 4);
  return value;
}
static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

#define COMBINED(a, b)                                                                             \
  (op == 0   ? (a) + (b)                                                                           \
   : op == 1 ? (a) * (b)                                                                           \
   : op == 2 ? ((a) > (b) ? (a) : (b))                                                             \
             : ((a) < (b) ? (a) : (b)))
#define COMBINE(T)                                                                                 \
  for (uint64_t i = 0; i < count; i++)                                                             \
    ((T *)to)[i] = (T)COMBINED(((T *)to)[i], ((const T *)from)[i]);                                \
  break

static void combine(void *to, const void *from, uint64_t count, int type, int op) {
  switch (type) {
  case 0: COMBINE(int8_t);
  case 1: COMBINE(uint8_t);
  case 2: /* sums wrap */
  case 3:
    if (op < 2) {
      COMBINE(uint32_t);
    }
    if (type == 3) {
      COMBINE(uint32_t);
    }
    COMBINE(int32_t);
  case 4:
  case 5:
    if (op < 2) {
      COMBINE(uint64_t);
    }
    if (type == 5) {
      COMBINE(uint64_t);
    }
    COMBINE(int64_t);
  case 6: COMBINE(_Float16);
  case 7: COMBINE(float);
  case 8: COMBINE(double);
  default:
    for (uint64_t i = 0; i < count; i++) {
      const float a = from_bf16(((uint16_t *)to)[i]), b = from_bf16(((const uint16_t *)from)[i]);
      ((uint16_t *)to)[i] = to_bf16(COMBINED(a, b));
    }
  }
}

static uint64_t given_bytes(const comm *c, const what *w) {
  return w->count * sizes[w->type] * (w->kind == REDUCE_SCATTER ? (uint64_t)c->size : 1);
}

static void result_of(const comm *c, const work *w) {
  const uint64_t bytes = w->what.count * sizes[w->what.type];
  if (w->what.kind == BROADCAST) {
    memcpy(w->out, payload_of(c, w->what.root), bytes);
  } else if (w->what.kind == ALL_GATHER) {
    for (int r = 0; r < c->size; r++) memcpy(w->out + (uint64_t)r * bytes, payload_of(c, r), bytes);
  } else {
    const uint64_t offset = w->what.kind == REDUCE_SCATTER ? (uint64_t)c->rank * bytes : 0;
    memcpy(w->out, payload_of(c, 0) + offset, bytes);
    for (int r = 1; r < c->size; r++)
      combine(w->out, payload_of(c, r) + offset, w->what.count, w->what.type, w->what.op);
  }
}

static bool collective(const work *w) {
  comm *c = w->comm;
  board *b = c->board;
  const uint64_t number = ++c->done;
  for (int r = 0; r < c->size; r++) WAIT(c, b->ranks[r].taken >= number - 1);
  b->ranks[c->rank].what = w->what;
  memcpy(payload_of(c, c->rank), w->in, given_bytes(c, &w->what));
  b->ranks[c->rank].given = number;
  for (int r = 0; r < c->size; r++) WAIT(c, b->ranks[r].given >= number);
  for (int r = 0; r < c->size; r++)
    if (memcmp(&b->ranks[r].what, &w->what, sizeof w->what) != 0) return fail(c);
  result_of(c, w);
  b->ranks[c->rank].taken = number;
  return true;
}

static bool post(const work *w) {
  comm *c = w->comm;
  letter *l = &c->board->letters[c->rank][w->peer];
  WAIT(c, l->read == l->sent);
  l->type = w->what.type;
  l->count = w->what.count;
  memcpy(letter_of(c, c->rank, w->peer), w->in, w->what.count * sizes[w->what.type]);
  l->sent++;
  return true;
}

static bool fetch(const work *w) {
  comm *c = w->comm;
  letter *l = &c->board->letters[w->peer][c->rank];
  WAIT(c, l->sent > l->read);
  if (l->type != w->what.type || l->count != w->what.count) return fail(c);
  memcpy(w->out, letter_of(c, w->peer, c->rank), w->what.count * sizes[w->what.type]);
  l->read++;
  return true;
}

static bool is_read(const work *w) {
  letter *l = &w->comm->board->letters[w->comm->rank][w->peer];
  WAIT(w->comm, l->read == l->sent);
  return true;
}

static bool each(const batch *b, int kind, bool (*act)(const work *)) {
  for (int i = 0; i < b->count; i++)
    if ((kind < 0 ? b->all[i].what.kind < SEND : b->all[i].what.kind == kind) && !act(&b->all[i]))
      return false;
  return true;
}

static void run(void *data) {
  batch *b = data;
  if (b->all[0].comm->destroyed) {
    fprintf(stderr, "work of a communicator that was destroyed\n");
    abort();
  }
  (void)(each(b, -1, collective) && each(b, SEND, post) && each(b, RECV, fetch) &&
         each(b, SEND, is_read));
  if (!b->is_kept) free(b);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void begin_to_connect(const work *w) {
  board *b = w->comm->board;
  w->comm->is_connected = true;
  if (w->what.kind < SEND) b->ranks[w->comm->rank].connects = true;
  if (w->what.kind == SEND) b->letters[w->comm->rank][w->peer].sender_connects = true;
  if (w->what.kind == RECV) b->letters[w->peer][w->comm->rank].receiver_connects = true;
}

static bool is_gone(const comm *c, int rank) {
  struct flock its = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
  return c->board->ranks[rank].pid != getpid() && fcntl(c->file, F_GETLK, &its) == 0 &&
         its.l_type == F_UNLCK;
}

static bool meets(comm *c, int rank, const _Atomic bool *connects) {
  WAIT(c, *connects || is_gone(c, rank));
  return *connects;
}

static bool connect_ranks(const work *w) {
  comm *c = w->comm;
  board *b = c->board;
  const int peer = w->peer;
  if (w->what.kind == SEND) return meets(c, peer, &b->letters[c->rank][peer].receiver_connects);
  if (w->what.kind == RECV) return meets(c, peer, &b->letters[peer][c->rank].sender_connects);
  for (int r = 0; r < c->size; r++)
    if (!meets(c, r, &b->ranks[r].connects)) return false;
  return true;
}

/* Ranks of this process do not wait for each other: the last one ends them all. */
static void end_with_others(comm *c) {
  rank_part *ranks = c->board->ranks;
  const bool waits_for_gone = getenv("FAKE_NCCL_WAITS_FOR_GONE") != NULL;
  ending++;
  ranks[c->rank].ended = true;
  for (int r = 0; c->is_connected && r < c->size; r++)
    while (!ranks[r].ended && ranks[r].pid != getpid() && (waits_for_gone || !is_gone(c, r)))
      pause_a_little();
  ending--;
  close(c->file);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static _Thread_local struct {
  int depth, count, room;
  work *all;
} group;

static void nothing(void *data) { (void)data; }

static void graph_ended(void *data) {
  batch *b = data;
  comm *c = b->all[0].comm;
  if (c->graph == b->graph) c->graph = NULL;
  c->graphs--;
  free(b);
}

/* NCCL connects ranks when a collective is first needed, also if that is in a capture. */
static bool all_capture(comm *c) {
  board *b = c->board;
  const uint64_t number = ++b->ranks[c->rank].captured;
  for (int r = 0; r < c->size; r++) WAIT(c, b->ranks[r].captured >= number);
  return true;
}

static int add_nodes(void *stream, batch *b) {
  int status = 0;
  void *graph = NULL, *object = NULL, *first = NULL, *before[64];
  void *const *nodes = NULL;
  size_t count = 0;
  uint64_t capture = 0;
  comm *c = b->all[0].comm;
  if (driver.capture_info(stream, &status, &capture, &graph, &nodes, &count) != 0 || count > 64)
    return CUDA_FAILED;
  if (c->graph == graph && c->capture != capture) return CUDA_FAILED;
  c->graph = b->graph = graph;
  c->capture = capture;
  if (count > 0) memcpy(before, nodes, count * sizeof *before);
  const size_t behind = count;
  c->graphs++;
  if (driver.user_object(&object, b, graph_ended, 1, 1) != 0 ||
      driver.retain(graph, object, 1, 1) != 0 || driver.launch(stream, run, b) != 0)
    return CUDA_FAILED;
  driver.capture_info(stream, &status, NULL, &graph, &nodes, &count);
  first = nodes[0];
  if (driver.depend(stream, before, behind, 1) != 0 || driver.launch(stream, nothing, NULL) != 0)
    return CUDA_FAILED;
  return driver.depend(stream, &first, 1, 0) == 0 ? OK : CUDA_FAILED;
}

static int enqueue(const work *all, int count, const work *like) {
  batch *b = malloc(sizeof *b + (size_t)count * sizeof *all);
  void *before = NULL;
  int capturing = 0;
  if (b == NULL) return SYSTEM;
  b->count = 0;
  for (int i = 0; i < count; i++)
    if (all[i].comm == like->comm && all[i].stream == like->stream) b->all[b->count++] = all[i];
  driver.get_current(&before);
  driver.set_current(like->comm->context);
  driver.is_capturing(like->stream, &capturing);
  b->is_kept = capturing != 0;
  const int result = !b->is_kept               ? driver.launch(like->stream, run, b)
                     : all_capture(like->comm) ? add_nodes(like->stream, b)
                                               : INTERNAL;
  driver.set_current(before == NULL ? like->comm->context : before);
  return result == 0 ? OK : CUDA_FAILED;
}

API int ncclGroupStart(void) {
  group.depth++;
  return OK;
}

/* All of this thread at once, for they may wait for each other. */
static bool connect_all(const work *all, int count) {
  int capturing = 0;
  if (count == 0) return true;
  driver.is_capturing(all[0].stream, &capturing);
  for (int i = 0; i < count; i++) begin_to_connect(&all[i]);
  for (int i = 0; i < count && !capturing; i++)
    if (!connect_ranks(&all[i])) return false;
  return true;
}

API int ncclGroupEnd(void) {
  if (group.depth == 0) return INVALID_USAGE;
  if (--group.depth > 0) return OK;
  int result = connect_all(group.all, group.count) ? OK : INTERNAL;
  for (int i = 0; result == OK && i < group.count; i++) {
    bool is_first = true;
    for (int j = 0; j < i; j++)
      is_first &=
          group.all[j].comm != group.all[i].comm || group.all[j].stream != group.all[i].stream;
    if (is_first) result = enqueue(group.all, group.count, &group.all[i]);
  }
  group.count = 0;
  return result;
}

static int give(work w) {
  if (w.comm == NULL || w.comm->aborted) return INVALID_ARGUMENT;
  if (w.what.type < 0 || w.what.type > 9 || w.what.op < 0 || w.what.op > 3) return INVALID_ARGUMENT;
  const uint64_t most = w.what.kind >= SEND ? LETTER : PAYLOAD;
  if (given_bytes(w.comm, &w.what) > most) return INVALID_ARGUMENT;
  if (w.comm->size == 1 && w.what.kind < SEND && w.in == w.out) return OK;
  if (group.depth == 0) return connect_all(&w, 1) ? enqueue(&w, 1, &w) : INTERNAL;
  if (group.count == group.room) {
    group.room = group.room * 2 + 16;
    work *all = realloc(group.all, (size_t)group.room * sizeof *all);
    if (all == NULL) return SYSTEM;
    group.all = all;
  }
  group.all[group.count++] = w;
  return OK;
}

/* ---- the functions of NCCL ------------------------------------------------------------------- */

typedef struct unique_id {
  char bytes[128];
} unique_id;

API int ncclGetVersion(int *version) {
  *version = 22809;
  return OK;
}
API const char *ncclGetErrorString(int result) {
  return result == OK ? "no error" : result == INVALID_USAGE ? "invalid usage" : "an error";
}
API const char *ncclGetLastError(void *c) {
  (void)c;
  return "";
}

API int ncclGetUniqueId(unique_id *id) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) return SYSTEM;
  memset(id, 0, sizeof *id);
  snprintf(id->bytes, sizeof id->bytes, "/fake_nccl_%016llx", (unsigned long long)number);
  return OK;
}

API int ncclCommInitRank(comm **comm_out, int size, unique_id id, int rank) {
  const size_t bytes = 4096 * ((sizeof(board) + 4095) / 4096);
  const size_t all = bytes + (size_t)RANKS * PAYLOAD + (size_t)RANKS * RANKS * LETTER;
  if (size > RANKS || rank < 0 || rank >= size) return INVALID_ARGUMENT;
  if (!find()) return SYSTEM;
  const int file = shm_open(id.bytes, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, (off_t)all) != 0) return SYSTEM;
  char *memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  struct flock own = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
  if (fcntl(file, F_SETLK, &own) != 0) return SYSTEM;
  comm *c = calloc(1, sizeof *c);
  if (memory == MAP_FAILED || c == NULL) return SYSTEM;
  *c = (comm){.board = (board *)(void *)memory,
              .payload = memory + bytes,
              .letters = memory + bytes + (size_t)RANKS * PAYLOAD,
              .rank = rank,
              .size = size,
              .file = file};
  driver.get_current(&c->context);
  contexts[rank] = c->context;
  c->board->ranks[rank].pid = getpid();
  if (c->board->ranks[rank].came++ != 0) return INVALID_USAGE; /* twice */
  for (int r = 0; r < size; r++)
    while (c->board->ranks[r].came == 0 && !is_exiting) pause_a_little();
  shm_unlink(id.bytes);
  *comm_out = c;
  return OK;
}

API int ncclCommAbort(comm *c) {
  c->aborted = 1; /* kept: its work may still look at it */
  for (int i = 0; c->graphs != 0 && !is_exiting; i++) {
    if (i == 600000) {
      fprintf(stderr, "a graph of a communicator that ends is still there after 30 s\n");
      abort();
    }
    pause_a_little();
  }
  end_with_others(c);
  return OK;
}
API int ncclCommDestroy(comm *c) {
  const int result = ncclCommAbort(c);
  c->destroyed = 1;
  return result;
}
API int ncclCommGetAsyncError(comm *c, int *error) {
  *error = c->board->error;
  return OK;
}
API int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, comm *c, void *s) {
  return give((work){c, s, {ALL_REDUCE, type, op, 0, count}, 0, in, out});
}
API int ncclAllGather(const void *in, void *out, size_t count, int type, comm *c, void *s) {
  return give((work){c, s, {ALL_GATHER, type, 0, 0, count}, 0, in, out});
}
API int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, comm *c,
                          void *s) {
  return give((work){c, s, {REDUCE_SCATTER, type, op, 0, count}, 0, in, out});
}
API int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, comm *c,
                      void *s) {
  return give((work){c, s, {BROADCAST, type, 0, root, count}, 0, in, out});
}
API int ncclSend(const void *in, size_t count, int type, int peer, comm *c, void *s) {
  return give((work){c, s, {SEND, type, 0, 0, count}, peer, in, NULL});
}
API int ncclRecv(void *out, size_t count, int type, int peer, comm *c, void *s) {
  return give((work){c, s, {RECV, type, 0, 0, count}, peer, NULL, out});
}
