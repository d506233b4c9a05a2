/* How the bytes of pageable arrays get through a kernel fastest: host memory in, kernel, host
 * memory out.
 *
 *   pageable LIBCUDA [MOST_BYTES [CALLS]]
 *
 * The ways in and out: `mapped`, one copy to or from page-locked memory that the kernel uses in
 * place; `driver`, the driver's own copy of pageable memory; `slab`, chunk by chunk through
 * page-locked memory of the whole size; `ring`, the same through four chunks; `pinned`, a result
 * that stays in page-locked memory. Host copies are memcpy or stores past the caches (`stream`), by
 * one thread or several. One line of JSON for each pair, with medians in us: `total`, of which `in`
 * until the kernel was launched. Results are compared before a figure counts. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "../raw/support.h"

enum { BLOCK = 256, RING = 4, SETS = 4, MOST_CALLS = 400, MOST_THREADS = 4, WARM = SETS };
static const size_t KIB = 1 << 10, MIB = 1 << 20, HUGE_PAGE = 2 << 20, SMALLEST = 256 << 10;

typedef enum kind { MAPPED, DRIVER, SLAB, CHUNKS, PINNED } kind;
typedef void (*copier)(void *to, const void *from, size_t bytes);

typedef struct way {
  kind kind;
  size_t chunk; /* bytes */
  copier copier;
  uint32_t threads;
} way;

/* out[i] = 3 * x[i] + a. */
static const char PTX[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(\n"
    ".param .u64 px, .param .u64 po, .param .u32 pa, .param .u32 pn)\n{\n"
    ".reg .b64 %d<3>;\n.reg .b32 %r<5>;\n.reg .pred %p;\n"
    "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\n"
    "mad.lo.u32 %r0, %r1, %r2, %r0;\nld.param.u32 %r3, [pn];\nsetp.ge.u32 %p, %r0, %r3;\n"
    "@%p bra E;\nld.param.u64 %d0, [px];\nld.param.u64 %d1, [po];\nld.param.u32 %r4, [pa];\n"
    "mad.wide.u32 %d0, %r0, 4, %d0;\nmad.wide.u32 %d1, %r0, 4, %d1;\n"
    "ld.global.u32 %r1, [%d0];\nmad.lo.u32 %r1, %r1, 3, %r4;\n"
    "st.global.u32 [%d1], %r1;\nE:\nret;\n}\n";

static struct {
  CUstream stream;
  CUgraphExec exec;
  CUgraphNode node;
  CUDA_KERNEL_NODE_PARAMS params;
  void *pointers[4];
  CUdeviceptr x, out; /* the kernel's arguments, as are the next two */
  uint32_t a, n;
  size_t bytes;
  uint32_t *in[SETS], *result[SETS]; /* pageable */
  uint8_t *slab[2], *ring[RING];     /* page-locked */
  CUdeviceptr device[2];
  CUevent *events; /* one for each chunk of the largest size */
} s;

/* ---- host copies ----------------------------------------------------------------------------- */

static void plain(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

#if defined(__SSE2__)
static void stream(void *to, const void *from, size_t bytes) {
  uint8_t *at = to;
  const uint8_t *source = from;
  size_t head = (64 - ((uintptr_t)at & 63)) & 63;
  if (head > bytes) head = bytes;
  memcpy(at, source, head);
  size_t i = head;
  for (; i + 64 <= bytes; i += 64)
    for (size_t j = i; j < i + 64; j += 16)
      _mm_stream_si128((__m128i *)(void *)(at + j),
                       _mm_loadu_si128((const __m128i *)(const void *)(source + j)));
  memcpy(at + i, source + i, bytes - i);
  _mm_sfence();
}
#else
static void stream(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
#endif

/* Threads that copy a share each of what one of them was asked for. */
static struct {
  pthread_t threads[MOST_THREADS];
  uint32_t count;
  copier copier;
  uint8_t *to;
  const uint8_t *from;
  size_t bytes;
  _Atomic uint32_t turn, left;
  _Atomic bool stop;
} team;

static void copy_share(uint32_t i) {
  const size_t share = (team.bytes / team.count + 63) & ~(size_t)63, begin = i * share;
  if (begin >= team.bytes) return;
  const size_t left = team.bytes - begin;
  team.copier(team.to + begin, team.from + begin, left < share ? left : share);
}

static void *help(void *number) {
  uint32_t seen = 0;
  for (;;) {
    while (atomic_load_explicit(&team.turn, memory_order_acquire) == seen) sched_yield();
    seen++;
    if (atomic_load(&team.stop)) return NULL;
    copy_share((uint32_t)(uintptr_t)number);
    atomic_fetch_sub_explicit(&team.left, 1, memory_order_release);
  }
}

static void team_begin(const way *w) {
  team.count = w->threads;
  team.copier = w->copier;
  atomic_store(&team.turn, 0);
  atomic_store(&team.stop, false);
  for (uint32_t i = 1; i < team.count; i++)
    if (pthread_create(&team.threads[i], NULL, help, (void *)(uintptr_t)i) != 0)
      raw_fail("no thread");
}

static void team_end(void) {
  atomic_store(&team.stop, true);
  atomic_fetch_add_explicit(&team.turn, 1, memory_order_release);
  for (uint32_t i = 1; i < team.count; i++) pthread_join(team.threads[i], NULL);
}

static void copy(const way *w, void *to, const void *from, size_t bytes) {
  if (w->threads == 1) {
    w->copier(to, from, bytes);
    return;
  }
  team.to = to;
  team.from = from;
  team.bytes = bytes;
  atomic_store(&team.left, team.count - 1);
  atomic_fetch_add_explicit(&team.turn, 1, memory_order_release);
  copy_share(0);
  while (atomic_load_explicit(&team.left, memory_order_acquire) != 0) sched_yield();
}

/* ---- ways ------------------------------------------------------------------------------------ */

static void wait_for(size_t chunk) {
  CUresult result;
  while ((result = cu.call_cuEventQuery(s.events[chunk])) == CUDA_ERROR_NOT_READY) {
  }
  raw_check(result, "cuEventQuery");
}

static size_t length_of(const way *w, size_t i) {
  const size_t left = s.bytes - i * w->chunk;
  return left < w->chunk ? left : w->chunk;
}

/* Page-locked memory of a chunk on its way. */
static uint8_t *room_of(const way *w, uint32_t side, size_t i) {
  return w->kind == CHUNKS ? s.ring[i % RING] : s.slab[side] + i * w->chunk;
}

static CUdeviceptr bring_chunks(const way *w, const uint8_t *from) {
  for (size_t i = 0; i * w->chunk < s.bytes; i++) {
    uint8_t *room = room_of(w, 0, i);
    if (w->kind == CHUNKS && i >= RING) wait_for(i - RING);
    copy(w, room, from + i * w->chunk, length_of(w, i));
    CU(cuMemcpyHtoDAsync(s.device[0] + i * w->chunk, room, length_of(w, i), s.stream));
    if (w->kind == CHUNKS) CU(cuEventRecord(s.events[i], s.stream));
  }
  return s.device[0];
}

/* Where the kernel finds what was in host memory. */
static CUdeviceptr bring(const way *w, const void *from) {
  if (w->kind == SLAB || w->kind == CHUNKS) return bring_chunks(w, from);
  if (w->kind == DRIVER) {
    CU(cuMemcpyHtoDAsync(s.device[0], from, s.bytes, s.stream));
    return s.device[0];
  }
  copy(w, s.slab[0], from, s.bytes);
  return (CUdeviceptr)(uintptr_t)s.slab[0];
}

static CUdeviceptr target_of(const way *w) {
  const bool in_place = w->kind == MAPPED || w->kind == PINNED;
  return in_place ? (CUdeviceptr)(uintptr_t)s.slab[1] : s.device[1];
}

static void ask_for(const way *w, size_t i) {
  const CUdeviceptr from = s.device[1] + i * w->chunk;
  CU(cuMemcpyDtoHAsync(room_of(w, 1, i), from, length_of(w, i), s.stream));
  CU(cuEventRecord(s.events[i], s.stream));
}

static void fetch_chunks(const way *w, uint8_t *to) {
  const size_t ahead = w->kind == CHUNKS ? RING : s.bytes / w->chunk + 1;
  for (size_t i = 0; i < ahead && i * w->chunk < s.bytes; i++) ask_for(w, i);
  for (size_t i = 0; i * w->chunk < s.bytes; i++) {
    wait_for(i);
    copy(w, to + i * w->chunk, room_of(w, 1, i), length_of(w, i));
    if ((i + ahead) * w->chunk < s.bytes) ask_for(w, i + ahead);
  }
}

/* After the launch: the result to host memory. */
static void fetch(const way *w, void *to) {
  if (w->kind == SLAB || w->kind == CHUNKS) {
    fetch_chunks(w, to);
    return;
  }
  if (w->kind == DRIVER) CU(cuMemcpyDtoHAsync(to, s.device[1], s.bytes, s.stream));
  CU(cuStreamSynchronize(s.stream));
  if (w->kind == MAPPED) copy(w, to, s.slab[1], s.bytes);
}

/* ---- series ---------------------------------------------------------------------------------- */

static void expect(const way *out, uint32_t set) {
  const uint32_t *found = out->kind == PINNED ? (uint32_t *)(void *)s.slab[1] : s.result[set];
  for (uint32_t i = 0; i < s.n; i++)
    if (found[i] != 3 * s.in[set][i] + s.a)
      raw_fail("element %u is %u, not %u", i, found[i], 3 * s.in[set][i] + s.a);
}

static int by_size(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static double us(uint64_t *samples, uint32_t count, uint32_t which) {
  qsort(samples, count, sizeof *samples, by_size);
  return (double)samples[which] / 1000;
}

static void describe(const char *side, const way *w) {
  static const char *const kinds[] = {"mapped", "driver", "slab", "ring", "pinned"};
  printf("\"%s\": \"%s", side, kinds[w->kind]);
  if (w->kind == SLAB || w->kind == CHUNKS) printf(" %zuK", w->chunk / KIB);
  if (w->copier == stream) printf(" stream");
  if (w->threads > 1) printf(" x%u", w->threads);
  printf("\", ");
}

static void series(const way *in, const way *out, uint32_t calls) {
  static uint64_t total[MOST_CALLS], part[MOST_CALLS];
  team_begin(in->threads > 1 ? in : out);
  for (uint32_t call = 0; call < WARM + calls; call++) {
    const uint32_t set = call % SETS;
    s.a = call + (uint32_t)raw_now_ns();
    const uint64_t begin = raw_now_ns();
    s.x = bring(in, s.in[set]);
    s.out = target_of(out);
    CU(cuGraphExecKernelNodeSetParams(s.exec, s.node, &s.params));
    CU(cuGraphLaunch(s.exec, s.stream));
    const uint64_t launched = raw_now_ns();
    fetch(out, s.result[set]);
    const uint64_t end = raw_now_ns();
    if (call < WARM || call == WARM + calls - 1) expect(out, set);
    if (call < WARM) continue;
    total[call - WARM] = end - begin;
    part[call - WARM] = launched - begin;
  }
  team_end();
  printf("{\"bytes\": %zu, ", s.bytes);
  describe("in", in);
  describe("out", out);
  printf("\"total_us\": %.1f, ", us(total, calls, calls / 2));
  printf("\"best_us\": %.1f, \"in_us\": %.1f}\n", us(total, calls, 0), us(part, calls, calls / 2));
  fflush(stdout);
}

/* ---- what there is --------------------------------------------------------------------------- */

enum { MOST_WAYS = 40 };

/* A chunk that holds everything is looked at once. */
static uint32_t chunked(way *ways, uint32_t count, kind kind, copier copier) {
  for (size_t chunk = SMALLEST; chunk <= 2 * MIB; chunk *= 2)
    if (chunk == SMALLEST || chunk < s.bytes) ways[count++] = (way){kind, chunk, copier, 1};
  return count;
}

static uint32_t ways_of(way *ways, bool is_out) {
  uint32_t count = 0;
  ways[count++] = (way){MAPPED, 0, plain, 1};
  ways[count++] = (way){MAPPED, 0, stream, 1};
  count = chunked(ways, count, SLAB, plain);
  count = chunked(ways, count, SLAB, stream);
  count = chunked(ways, count, CHUNKS, plain);
  if (is_out) count = chunked(ways, count, CHUNKS, stream);
  for (uint32_t threads = 2; threads <= MOST_THREADS && s.bytes > 2 * MIB; threads *= 2) {
    ways[count++] = (way){MAPPED, 0, is_out ? stream : plain, threads};
    ways[count++] = (way){SLAB, 2 * MIB, is_out ? stream : plain, threads};
    ways[count++] = (way){CHUNKS, 2 * MIB, is_out ? stream : plain, threads};
  }
  return count;
}

static void measure(size_t bytes, uint32_t calls) {
  static const way driver = {DRIVER, 0, plain, 1}, pinned = {PINNED, 0, plain, 1};
  static const way mapped = {MAPPED, 0, plain, 1};
  way ways[MOST_WAYS];
  s.bytes = bytes;
  s.n = (uint32_t)(bytes / 4);
  s.params.gridDimX = (s.n + BLOCK - 1) / BLOCK;
  series(&driver, &driver, calls);
  series(&driver, &pinned, calls);
  const uint32_t ins = ways_of(ways, false);
  for (uint32_t i = 0; i < ins; i++) {
    series(&ways[i], &driver, calls);
    series(&ways[i], &pinned, calls);
  }
  const uint32_t outs = ways_of(ways, true);
  for (uint32_t i = 0; i < outs; i++) {
    series(&driver, &ways[i], calls);
    series(&mapped, &ways[i], calls);
  }
}

/* As NumPy allocates arrays: in huge pages where the system gives them; touched. */
static uint32_t *pageable(size_t bytes, uint32_t seed) {
  void *memory = NULL;
  if (posix_memalign(&memory, HUGE_PAGE, bytes) != 0) raw_fail("out of memory");
  (void)madvise(memory, bytes, MADV_HUGEPAGE); /* a hint: refusal is no failure */
  uint32_t *words = memory;
  for (size_t i = 0; i < bytes / 4; i++) words[i] = (uint32_t)i * 2654435761u + seed;
  return words;
}

static void *page_locked(size_t bytes) {
  void *memory = NULL;
  CU(cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  return memory;
}

static void open_all(const char *path, size_t most) {
  CUcontext context;
  CUmodule module;
  CUgraph graph;
  raw_open(path);
  raw_open_device(&context);
  CU(cuModuleLoadData(&module, PTX));
  CU(cuModuleGetFunction(&s.params.func, module, "k"));
  CU(cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
  for (uint32_t i = 0; i < SETS; i++) {
    s.in[i] = pageable(most, i + 1);
    s.result[i] = pageable(most, 0);
  }
  for (uint32_t i = 0; i < 2; i++) {
    s.slab[i] = page_locked(most);
    CU(cuMemAlloc(&s.device[i], most));
  }
  for (uint32_t i = 0; i < RING; i++) s.ring[i] = page_locked(2 * MIB);
  const size_t events = most / SMALLEST + 1;
  s.events = raw_alloc(events * sizeof *s.events);
  for (size_t i = 0; i < events; i++) CU(cuEventCreate(&s.events[i], CU_EVENT_DISABLE_TIMING));
  void *const pointers[] = {&s.x, &s.out, &s.a, &s.n};
  memcpy(s.pointers, pointers, sizeof pointers);
  s.params.gridDimX = s.params.gridDimY = s.params.gridDimZ = 1;
  s.params.blockDimX = BLOCK;
  s.params.blockDimY = s.params.blockDimZ = 1;
  s.params.kernelParams = s.pointers;
  CU(cuGraphCreate(&graph, 0));
  CU(cuGraphAddKernelNode(&s.node, graph, NULL, 0, &s.params));
  s.exec = raw_instantiate(graph);
}

int main(int count, char **words) {
  if (count < 2) raw_fail("usage: pageable LIBCUDA [MOST_BYTES [CALLS]]");
  const size_t most = count > 2 ? strtoull(words[2], NULL, 0) : 64 * MIB;
  const uint32_t asked = count > 3 ? (uint32_t)strtoul(words[3], NULL, 0) : MOST_CALLS;
  if (most < 64 * KIB || most > 1024 * MIB) raw_fail("MOST_BYTES is from 64 KiB to 1 GiB");
  if (asked == 0 || asked > MOST_CALLS) raw_fail("CALLS is from 1 to %d", MOST_CALLS);
  open_all(words[1], most);
  for (size_t bytes = 64 * KIB; bytes <= most; bytes *= 4) {
    const size_t calls = 1024 * MIB / bytes; /* a gigabyte each way, as far as asked for */
    measure(bytes, calls < asked ? (uint32_t)calls : asked);
  }
  return 0;
}
