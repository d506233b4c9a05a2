/* Whether graphs with many branches end on a GPU that several processes share, with the driver
 * alone.
 *
 *   shared_graphs LIBCUDA [PROCESSES [SECONDS [LIMIT [LOCAL [WIDEST [UPLOAD]]]]]]
 *
 * Each process makes graphs of 1 to WIDEST (32) branches, in turn: of a kernel each, of a fill and
 * a kernel each, and the latter with a kernel behind all of them; it launches each some times,
 * waits for each launch and compares what they wrote. Before, it launches a kernel with LOCAL bytes
 * of its own for each thread, for which the driver takes memory of all threads that fit on the
 * device. With UPLOAD 1 (0) each graph is uploaded before its first launch, which does not wait for
 * that; with 2 it waits.
 *
 * A launch that has not ended after LIMIT seconds is waited for as long again; then its process
 * says whether a kernel on another stream ends, and another process takes its place. So does one
 * for a process that the driver does not let go. A line of JSON for each form and width: launches
 * that ended, that ended late, that did not, after how many of these another stream went on, and
 * calls of the driver that did not return. On stderr the same as a table. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../raw/support.h"

enum { FORMS = 4, WIDTHS = 12, MOST = 32, ELEMENTS = 48, LAUNCHES = 6, MOST_PROCESSES = 64 };
enum { MADE_ANEW = 3, UNUSABLE = 4 }; /* exit statuses: after a hang; and where it cannot begin */

static const uint32_t WIDTH[WIDTHS] = {1, 2, 3, 4, 6, 8, 12, 16, 17, 18, 24, 32};
static const char *const FORM[FORMS] = {"kernels", "fills and kernels",
                                        "fills, kernels, one behind", "the same, another one ends"};
static const char *const STEP[] = {"opens", "makes", "instantiates", "launches",
                                   "waits", "reads", "destroys"};
enum { OPENS, MAKES, INSTANTIATES, LAUNCHES_ONE, WAITS, READS, DESTROYS };

static const char TEXT[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry adds(.param .u64 x, .param .u64 z)\n{\n"
    ".reg .b32 %%r<4>;\n.reg .b64 %%rd<5>;\n"
    "ld.param.u64 %%rd0, [x];\nld.param.u64 %%rd1, [z];\n"
    "mov.u32 %%r0, %%tid.x;\nmul.wide.u32 %%rd2, %%r0, 4;\n"
    "add.u64 %%rd3, %%rd0, %%rd2;\nadd.u64 %%rd4, %%rd1, %%rd2;\n"
    "ld.global.u32 %%r1, [%%rd3];\nld.global.u32 %%r2, [%%rd4];\n"
    "add.u32 %%r3, %%r1, %%r2;\nst.global.u32 [%%rd4], %%r3;\nret;\n}\n"
    ".visible .entry keeps(.param .u64 x, .param .u64 z)\n{\n"
    ".local .align 4 .b8 own[%u];\n"
    ".reg .b32 %%r<3>;\n.reg .b64 %%rd<5>;\n"
    "ld.param.u64 %%rd0, [x];\nld.param.u64 %%rd1, [z];\n"
    "ld.global.u32 %%r0, [%%rd0];\nmul.wide.u32 %%rd2, %%r0, 4;\nmov.u64 %%rd3, own;\n"
    "add.u64 %%rd4, %%rd3, %%rd2;\nst.local.u32 [%%rd4], %%r0;\n"
    "ld.local.u32 %%r1, [%%rd3+4];\nst.global.u32 [%%rd1], %%r1;\nret;\n}\n";

typedef struct tally {
  atomic_uint ended, late, hung, others, stuck;
} tally;

/* What a process does now. */
typedef struct place {
  pid_t process;
  atomic_uint form, width, step;
  _Atomic uint64_t since_ns;
} place;

typedef struct board {
  tally tallies[FORMS][WIDTHS];
  place places[MOST_PROCESSES];
  atomic_bool is_over;
  atomic_uint graphs;
} board;

static board *shared;
static place *here;
static uint32_t upload;
static uint64_t limit_ns;
static uint32_t widths; /* of WIDTH, those up to the widest */

/* ---- a process ------------------------------------------------------------------------------- */

static CUstream stream, other_stream;
static CUfunction adds, keeps;
static CUdeviceptr ones, results, aside; /* `results`: of each branch, and of what is behind all */

static void now(uint32_t step) {
  atomic_store(&here->since_ns, raw_now_ns());
  atomic_store(&here->step, step);
}

static bool has_ended(CUstream which, uint64_t within_ns) {
  const uint64_t begin = raw_now_ns();
  for (;;) {
    const CUresult result = cu.call_cuStreamQuery(which);
    if (result == CUDA_SUCCESS) return true;
    if (result != CUDA_ERROR_NOT_READY) raw_check(result, "cuStreamQuery");
    if (raw_now_ns() - begin > within_ns) return false;
    sched_yield();
  }
}

static void launch(CUfunction function, CUdeviceptr x, CUdeviceptr z, CUstream on) {
  void *parameters[] = {&x, &z};
  CU(cuLaunchKernel(function, 1, 1, 1, ELEMENTS, 1, 1, 0, on, parameters, NULL));
}

static void await(tally *t) {
  now(WAITS);
  if (has_ended(stream, limit_ns)) {
    atomic_fetch_add(&t->ended, 1);
    return;
  }
  now(WAITS);
  if (has_ended(stream, limit_ns)) {
    atomic_fetch_add(&t->late, 1);
    return;
  }
  now(WAITS);
  atomic_fetch_add(&t->hung, 1);
  launch(adds, ones, aside, other_stream);
  if (has_ended(other_stream, limit_ns)) atomic_fetch_add(&t->others, 1);
  _exit(MADE_ANEW); /* without the driver's end, which might wait, too */
}

static CUdeviceptr result_of(uint32_t branch) { return results + (uint64_t)branch * ELEMENTS * 4; }

static void add_kernel(CUgraph graph, CUgraphNode *node, CUgraphNode *behind, size_t count,
                       CUdeviceptr x, CUdeviceptr z) {
  void *parameters[] = {&x, &z};
  const CUDA_KERNEL_NODE_PARAMS params = {.func = adds,
                                          .gridDimX = 1,
                                          .gridDimY = 1,
                                          .gridDimZ = 1,
                                          .blockDimX = ELEMENTS,
                                          .blockDimY = 1,
                                          .blockDimZ = 1,
                                          .kernelParams = parameters};
  CU(cuGraphAddKernelNode(node, graph, behind, count, &params));
}

static CUgraph make(uint32_t form, uint32_t width, CUcontext context) {
  CUgraph graph;
  CUgraphNode ends[MOST], fill, last;
  CU(cuGraphCreate(&graph, 0));
  for (uint32_t i = 0; i < width; i++) {
    const CUDA_MEMSET_NODE_PARAMS params = {
        .dst = result_of(i), .elementSize = 4, .width = ELEMENTS, .height = 1};
    if (form > 0) CU(cuGraphAddMemsetNode(&fill, graph, NULL, 0, &params, context));
    add_kernel(graph, &ends[i], &fill, form > 0, ones, result_of(i));
  }
  if (form >= 2) add_kernel(graph, &last, ends, width, result_of(0), result_of(width));
  return graph;
}

static void verify(uint32_t form, uint32_t width) {
  static uint32_t found[(MOST + 1) * ELEMENTS];
  now(READS);
  CU(cuMemcpyDtoH(found, results, sizeof found));
  for (uint32_t i = 0; i <= width; i++) {
    const uint32_t behind = form >= 2 ? LAUNCHES : 0;
    const uint32_t wanted = i == width ? behind : form == 0 ? LAUNCHES : 1;
    for (uint32_t e = 0; e < ELEMENTS; e++)
      if (found[i * ELEMENTS + e] != wanted)
        raw_fail("%s, %u branches: branch %u has %u instead of %u", FORM[form], width, i,
                 found[i * ELEMENTS + e], wanted);
  }
}

static void try_graph(uint32_t form, uint32_t at, CUcontext context) {
  tally *t = &shared->tallies[form][at];
  static CUgraphExec older;
  CUgraphExec exec;
  atomic_store(&here->form, form);
  atomic_store(&here->width, at);
  now(MAKES);
  CU(cuMemsetD8Async(results, 0, (MOST + 1) * ELEMENTS * 4, stream));
  CUgraph graph = make(form, WIDTH[at], context);
  now(INSTANTIATES);
  CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
  if (upload > 0) CU(cuGraphUpload(exec, stream));
  if (upload > 1) CU(cuStreamSynchronize(stream));
  for (uint32_t i = 0; i < LAUNCHES; i++) {
    now(LAUNCHES_ONE);
    CU(cuGraphLaunch(exec, stream));
    if (form == 3 && i == 0 && older != NULL) {
      now(DESTROYS);
      CU(cuGraphExecDestroy(older));
    }
    await(t);
  }
  verify(form, WIDTH[at]);
  now(DESTROYS);
  if (form == 3)
    older = exec;
  else
    CU(cuGraphExecDestroy(exec));
  CU(cuGraphDestroy(graph));
  atomic_fetch_add(&shared->graphs, 1);
}

static void open_device(CUcontext *context, const char *library, uint32_t local) {
  static uint32_t host[ELEMENTS];
  CUdevice device;
  CUmodule module;
  char *text = raw_alloc(sizeof TEXT + 16);
  (void)snprintf(text, sizeof TEXT + 16, TEXT, local);
  raw_open(library);
  CU(cuInit(0));
  CU(cuDeviceGet(&device, 0));
  CU(cuDevicePrimaryCtxRetain(context, device));
  CU(cuCtxSetCurrent(*context));
  CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CU(cuStreamCreate(&other_stream, CU_STREAM_NON_BLOCKING));
  CU(cuModuleLoadData(&module, text));
  CU(cuModuleGetFunction(&adds, module, "adds"));
  CU(cuModuleGetFunction(&keeps, module, "keeps"));
  free(text);
  for (uint32_t i = 0; i < ELEMENTS; i++) host[i] = 1;
  CU(cuMemAlloc(&ones, sizeof host));
  CU(cuMemAlloc(&aside, sizeof host));
  CU(cuMemAlloc(&results, (MOST + 1) * sizeof host));
  CU(cuMemcpyHtoD(ones, host, sizeof host));
  launch(keeps, ones, aside, stream);
  launch(adds, ones, aside, other_stream);
  if (!has_ended(stream, 10 * limit_ns) || !has_ended(other_stream, 10 * limit_ns))
    raw_fail("the first kernel has not ended");
}

static void work(uint32_t number, pid_t parent, const char *library, uint32_t local) {
  CUcontext context = NULL;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(UNUSABLE);
  here = &shared->places[number];
  now(OPENS);
  open_device(&context, library, local);
  for (uint64_t turn = raw_now_ns();; turn++) /* each begins with another one */
    for (uint32_t form = 0; form < FORMS; form++) {
      if (atomic_load(&shared->is_over)) _exit(0);
      try_graph(form, (uint32_t)(turn % widths), context);
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void start(uint32_t number, const char *library, uint32_t local) {
  const pid_t parent = getpid();
  atomic_store(&shared->places[number].since_ns, raw_now_ns());
  atomic_store(&shared->places[number].step, OPENS);
  const pid_t process = fork();
  if (process < 0) raw_fail("fork failed");
  if (process == 0) work(number, parent, library, local);
  shared->places[number].process = process;
}

/* A call of the driver does not return. */
static void end_if_stuck(place *p) {
  const uint32_t step = atomic_load(&p->step);
  const uint64_t waited_ns = raw_now_ns() - atomic_load(&p->since_ns);
  if (waited_ns < 3 * limit_ns + (step == OPENS ? UINT64_C(30000000000) : 0)) return;
  fprintf(stderr, "process %d %s since %.0f s, \"%s\" with %u branches\n", (int)p->process,
          STEP[step], (double)waited_ns * 1e-9, FORM[p->form], WIDTH[p->width]);
  if (step != OPENS) atomic_fetch_add(&shared->tallies[p->form][p->width].stuck, 1);
  kill(p->process, SIGKILL);
}

static void show(uint32_t form, uint32_t at, tally *t) {
  printf("{\"form\": \"%s\", \"width\": %u, \"ended\": %u, \"late\": %u, \"hung\": %u, "
         "\"others_went_on\": %u, \"stuck\": %u}\n",
         FORM[form], WIDTH[at], t->ended, t->late, t->hung, t->others, t->stuck);
  fprintf(stderr, "%-27s %2u branches: %8u ended %4u late %4u hung (%u with others) %4u stuck\n",
          FORM[form], WIDTH[at], t->ended, t->late, t->hung, t->others, t->stuck);
}

int main(int count, char **words) {
  const char *library = count > 1 ? words[1] : "libcuda.so.1";
  const uint32_t processes = count > 2 ? (uint32_t)strtoul(words[2], NULL, 10) : 12;
  const double seconds = count > 3 ? strtod(words[3], NULL) : 60;
  const uint32_t local = count > 5 ? (uint32_t)strtoul(words[5], NULL, 10) : 32772;
  const uint32_t widest = count > 6 ? (uint32_t)strtoul(words[6], NULL, 10) : MOST;
  uint32_t left = processes, unusable = 0;
  upload = count > 7 ? (uint32_t)strtoul(words[7], NULL, 10) : 0;
  limit_ns = (uint64_t)((count > 4 ? strtod(words[4], NULL) : 3) * 1e9);
  while (widths < WIDTHS && WIDTH[widths] <= widest) widths++;
  if (processes == 0 || processes > MOST_PROCESSES) raw_fail("1 to %d processes", MOST_PROCESSES);
  if (widths == 0) raw_fail("the widest graph has no branch");
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) raw_fail("out of memory");
  const uint64_t begin = raw_now_ns();
  for (uint32_t i = 0; i < processes; i++) start(i, library, local);
  while (left > 0) {
    const bool is_over = (double)(raw_now_ns() - begin) * 1e-9 > seconds;
    atomic_store(&shared->is_over, is_over);
    for (uint32_t i = 0; i < processes; i++) {
      place *p = &shared->places[i];
      int status = 0;
      if (p->process == 0) continue;
      if (waitpid(p->process, &status, WNOHANG) == 0) {
        end_if_stuck(p);
        continue;
      }
      p->process = 0;
      const bool is_wrong =
          WIFEXITED(status) && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != MADE_ANEW;
      unusable += is_wrong;
      if (is_over || is_wrong)
        left--;
      else
        start(i, library, local);
    }
    usleep(20000);
  }
  for (uint32_t form = 0; form < FORMS; form++)
    for (uint32_t at = 0; at < widths; at++) show(form, at, &shared->tallies[form][at]);
  fprintf(stderr, "%u graphs in %.0f s, %u processes, of which %u failed\n", shared->graphs,
          (double)(raw_now_ns() - begin) * 1e-9, processes, unusable);
  return unusable > 0;
}
