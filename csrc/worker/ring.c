/* The ring of a block of the device: slots that the host fills and the device polls, and answers
 * the other way.
 *
 * A slot is words of 8 bytes, each with four bytes of the call and the call's number above them.
 * Each is stored whole, the first one last and with release. The device takes a slot when all words
 * that the call uses have its number; it acquires the first, so it then finds all that the host had
 * written before. Numbers of one slot differ by multiples of WORKER_SLOTS, so half of that tells a
 * call that is withheld from all others. A slot is used again when its last call has been answered.
 * A word that no call has written for 2^32 calls would have a right number by accident: so every
 * 2^31 calls, all words of each slot are written once. */
#include <string.h>

#include "worker.h"

#define MASK (WORKER_SLOTS - 1)
#define SLOTS_BYTES ((uint64_t)WORKER_SLOTS * WORKER_SLOT_WORDS * 8)
#define END_BYTES 128u
/* Launches take longer while another thread of the process loads code, for which the driver waits
 * until the device has nothing to do, several times in a row. Then this many launches stay only for
 * so long. */
#define SLOW_LAUNCH_NS UINT64_C(200000)
#define HURRIED 64u
#define HURRIED_NS UINT64_C(1000000)
#define ANSWERS_BYTES ((uint64_t)WORKER_SLOTS * WORKER_ANSWER_WORDS * 4)

uint64_t vyc__ring_bytes(void) {
  return vyc__align_up(SLOTS_BYTES + ANSWERS_BYTES + END_BYTES, VYC_ALIGN);
}

static _Atomic uint64_t *slot_of(const vyc_ring *ring, uint32_t number) {
  return (_Atomic uint64_t *)(uintptr_t)ring->slots + (size_t)(number & MASK) * WORKER_SLOT_WORDS;
}

static _Atomic uint32_t *answer_of(const vyc_ring *ring, uint32_t number) {
  return (_Atomic uint32_t *)(uintptr_t)(ring->slots + SLOTS_BYTES) +
         (size_t)(number & MASK) * WORKER_ANSWER_WORDS;
}

/* Written once by each launch that ends: its number above that of the call after its last one, with
 * which the next launch begins; and before that, in the next word, why it ends. */
static _Atomic uint64_t *end_of(const vyc_ring *ring) {
  return (_Atomic uint64_t *)(uintptr_t)(ring->slots + SLOTS_BYTES + ANSWERS_BYTES);
}

void vyc__ring_begin(vyc_ring *ring, uint32_t first) {
  *ring->next = first;
  ring->due = first - 1;
  atomic_store(end_of(ring), first);
  atomic_store(end_of(ring) + WORKER_LAUNCHING / 8, 0);
  for (uint32_t i = 0; i < WORKER_SLOTS; i++) {
    const uint32_t number = first + i;
    atomic_store(answer_of(ring, number), number - WORKER_SLOTS);
    for (uint32_t word = 0; word < WORKER_SLOT_WORDS; word++)
      atomic_store(slot_of(ring, number) + word, (uint64_t)(number - WORKER_SLOTS) << 32);
  }
}

bool vyc__ring_is_answered(const vyc_ring *ring, uint32_t number) {
  const uint32_t answer = atomic_load_explicit(answer_of(ring, number), memory_order_acquire);
  return (int32_t)(answer - number) >= 0;
}

bool vyc__ring_is_empty(const vyc_ring *ring) {
  return vyc__ring_is_answered(ring, *ring->next - 1);
}

/* Whether all words of the slot are to be written, the unused ones as 0. */
static bool is_refreshed(uint32_t number) { return (number & 0x7fffffffu) < WORKER_SLOTS; }

static void put_word(_Atomic uint64_t *slot, uint32_t i, uint32_t number, uint32_t word) {
  atomic_store_explicit(slot + i, (uint64_t)number << 32 | word, memory_order_relaxed);
}

/* Returns how many words of the slot are used. */
static uint32_t put_block(_Atomic uint64_t *slot, uint32_t number, const uint8_t *block,
                          uint32_t bytes) {
  uint32_t count = WORKER_HEADER_WORDS, word;
  for (; bytes >= sizeof word; bytes -= (uint32_t)sizeof word, block += sizeof word) {
    memcpy(&word, block, sizeof word);
    put_word(slot, count++, number, word);
  }
  if (VYC_UNLIKELY(bytes > 0)) {
    word = 0;
    memcpy(&word, block, bytes);
    put_word(slot, count++, number, word);
  }
  return count;
}

uint32_t vyc__ring_put(vyc_ring *ring, const worker_slot *given) {
  const uint32_t number = (*ring->next)++;
  _Atomic uint64_t *slot = slot_of(ring, number);
  const bool fits = VYC_LIKELY(given->bytes <= WORKER_SLOT_BYTES);
  const uint32_t words = put_block(slot, number, given->block, fits ? given->bytes : 0);
  if (!fits)
    memcpy((uint8_t *)(uintptr_t)ring->more + (size_t)(number & MASK) * WORKER_MORE_BYTES,
           given->block, given->bytes);
  if (VYC_UNLIKELY(is_refreshed(number)))
    for (uint32_t i = words; i < WORKER_SLOT_WORDS; i++) put_word(slot, i, number, 0);
  put_word(slot, 1, number, given->grid[0]);
  put_word(slot, 2, number, given->grid[1] | given->grid[2] << 16); /* at most 65,535 each */
  put_word(slot, 3, number, given->part | given->others << 16);
  const uint32_t seen = given->withheld ? number - WORKER_WITHHELD : number;
  atomic_store_explicit(slot, (uint64_t)seen << 32 | words | given->kernel << 8,
                        memory_order_release);
  return number;
}

void vyc__ring_empty(vyc_ring *ring, uint32_t number) {
  put_word(slot_of(ring, number), 1, number, 0);
  put_word(slot_of(ring, number), 2, number, 1 | 1 << 16);
}

void vyc__ring_take_back(vyc_ring *ring, uint32_t before) {
  for (uint32_t number = *ring->next; number != before;) {
    number--;
    atomic_store_explicit(slot_of(ring, number), (uint64_t)(number - WORKER_SLOTS) << 32,
                          memory_order_release);
  }
  *ring->next = before;
}

/* ---- stops ----------------------------------------------------------------------------------- */

static bool comes_to_stop(const vyc_ring *ring) {
  return ring->has_stop && !vyc__ring_is_answered(ring, ring->stop);
}

/* Only while the caller has paused the worker: otherwise `due` has no meaning, and may be so old
 * that numbers have wrapped since. */
static bool has_due(const vyc_ring *ring) {
  return atomic_load(&ring->worker->pauses) != 0 && !vyc__ring_is_answered(ring, ring->due);
}

/* A launch comes to all that is in the ring, so one stop is enough for whoever asks for one; one
 * that has answered it has yet to note its end. A launch that has ended before it came to its stop
 * leaves it to the next one. There is room, for calls leave a slot free; and where there was a stop
 * before, it has been answered with all that was before it. */
void vyc__ring_stop(vyc_ring *ring) {
  static const uint32_t grid[3] = {1, 1, 1};
  const bool runs = vyc__ring_is_running(ring);
  if (!runs && !has_due(ring)) return;
  if (runs ? ring->has_stop : comes_to_stop(ring)) return;
  ring->stop = vyc__ring_put(ring, &(worker_slot){.kernel = WORKER_STOP, .grid = grid});
  ring->has_stop = true;
}

/* Whether no launch takes what is put next, because a stop is before it. A stop before calls that
 * are due does not count: a launch is made for these, which goes on behind them. */
static bool is_shut(vyc_ring *ring) {
  vyc__ring_stop(ring);
  if (!vyc__ring_is_running(ring) && !has_due(ring)) return true;
  return (int32_t)(ring->stop - ring->due) > 0;
}

/* Calls are answered one after the other, so the answer to the last one is enough. */
bool vyc__ring_takes(vyc_ring *ring, uint32_t count) {
  if (VYC_UNLIKELY(atomic_load(&ring->worker->pauses) != 0) && !is_shut(ring)) return false;
  return vyc__ring_is_answered(ring, *ring->next + count - WORKER_SLOTS);
}

bool vyc__ring_keeps_back(const vyc_ring *ring, uint32_t number) {
  return (int32_t)(number - ring->due) > 0;
}

uint32_t vyc__ring_last(const vyc_ring *ring) {
  return atomic_load(&ring->worker->pauses) != 0 ? ring->due : *ring->next - 1;
}

/* What comes behind the calls that are due is a stop, and then calls. */
bool vyc__ring_keeps_call(const vyc_ring *ring) {
  const uint32_t last = *ring->next - 1;
  if (atomic_load(&ring->worker->pauses) == 0 || !vyc__ring_keeps_back(ring, last)) return false;
  return !(ring->has_stop && last == ring->stop) && !vyc__ring_is_answered(ring, last);
}

/* ---- launches -------------------------------------------------------------------------------- */

bool vyc__ring_is_running(const vyc_ring *ring) {
  const uint32_t launch = atomic_load_explicit(&ring->launch, memory_order_acquire);
  const uint64_t end = atomic_load_explicit(end_of(ring), memory_order_acquire);
  return launch != 0 && (uint32_t)(end >> 32) != launch;
}

void vyc__ring_note_end(vyc_ring *ring) {
  vyc_counters *counters = &ring->worker->child.context->counters;
  const uint32_t launch = atomic_load_explicit(&ring->launch, memory_order_relaxed);
  if (ring->noted == launch || vyc__ring_is_running(ring)) return;
  const uint64_t why = atomic_load_explicit(end_of(ring) + 1, memory_order_relaxed);
  if (why == WORKER_END_IDLE) vyc__count(counters, worker_idle_ends, 1);
  if (why == WORKER_END_BUSY) vyc__count(counters, worker_turns, 1);
  ring->noted = launch;
}

uint64_t vyc__ring_gate(const vyc_ring *ring, uint32_t number) {
  return (uint64_t)(uintptr_t)slot_of(ring, number) + 4; /* little endian */
}

uint64_t vyc__ring_answer(const vyc_ring *ring, uint32_t number) {
  return (uint64_t)(uintptr_t)answer_of(ring, number);
}

bool vyc__ring_is_withheld(const vyc_ring *ring) {
  if (vyc__ring_is_running(ring)) return false;
  const uint32_t next = (uint32_t)atomic_load_explicit(end_of(ring), memory_order_acquire);
  const _Atomic uint32_t *gate = (_Atomic uint32_t *)(uintptr_t)vyc__ring_gate(ring, next);
  return atomic_load_explicit(gate, memory_order_relaxed) == next - WORKER_WITHHELD;
}

static uint64_t busy_ns(vyc_worker *worker) {
  if (VYC_LIKELY(worker->hurried == 0)) return worker->busy_ns;
  worker->hurried--;
  return worker->busy_ns < HURRIED_NS ? worker->busy_ns : HURRIED_NS;
}

/* How long a launch stays: it ends between two calls when `busy_ns` are over and call number
 * `until` has been answered. */
typedef struct stay {
  uint64_t idle_ns, busy_ns;
  uint32_t until;
} stay;

/* Not 0 while a block of the worker is being launched: blocks that have stayed for `busy_ns` do not
 * wait for a call then. Somebody who waits for the whole device may hold up the launch, and with it
 * all who wait for the claim. */
static _Atomic uint32_t *launching_of(const vyc_worker *worker) {
  return (_Atomic uint32_t *)(end_of(worker->rings) + WORKER_LAUNCHING / 8);
}

static CUresult launch(vyc_ring *ring, uint32_t number, stay of) {
  vyc_worker *worker = ring->worker;
  const vyc_prepared *entry = worker->entry;
  uint32_t mask = MASK, behind = (uint32_t)(ring->slots - worker->rings[0].slots);
  uint64_t answers = ring->slots + SLOTS_BYTES, end = answers + ANSWERS_BYTES;
  void *parameters[] = {&ring->slots, &answers, &ring->more, &end,        &of.until,
                        &mask,        &number,  &behind,     &of.idle_ns, &of.busy_ns};
  return worker->child.context->driver->cuLaunchKernel(
      entry->function, 1, 1, 1, entry->block[0], entry->block[1], entry->block[2],
      entry->dynamic_shared_bytes, ring->stream, parameters, NULL);
}

static vyc_status launch_it(vyc_ring *ring, stay of) {
  vyc_worker *worker = ring->worker;
  vyc_context *context = worker->child.context;
  VYC_CU_RESULT;
  if (ring->stream == NULL) {
    CUstream made = NULL;
    VYC_TRY(VYC_CU(context, cuStreamCreate, &made, CU_STREAM_NON_BLOCKING));
    ring->stream = made; /* threads look at it without the claim */
  }
  vyc__ring_note_end(ring);
  ring->has_stop = comes_to_stop(ring);
  const uint32_t before = atomic_load_explicit(&ring->launch, memory_order_relaxed);
  const uint32_t number = before + 1 == 0 ? 1 : before + 1;
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  const uint64_t begin = vyc__now_ns();
  atomic_store_explicit(launching_of(worker), 1, memory_order_relaxed);
  vyc__result = launch(ring, number, of);
  atomic_store_explicit(launching_of(worker), 0, memory_order_relaxed);
  const bool was_slow = vyc__now_ns() - begin > SLOW_LAUNCH_NS && before != 0;
  vyc__capture_restore(context->driver, mode);
  if (VYC_UNLIKELY(vyc__result != CUDA_SUCCESS))
    return vyc__driver_failed(context, vyc__result, "cuLaunchKernel");
  if (was_slow) worker->hurried = HURRIED;
  atomic_store_explicit(&ring->launch, number, memory_order_release);
  atomic_fetch_add_explicit(&worker->launch_count, 1, memory_order_relaxed);
  vyc__count(&context->counters, worker_launches, 1);
  return VYC_OK;
}

static bool is_kept_away(const vyc_ring *ring) {
  const vyc_worker *worker = ring->worker;
  if (atomic_load(&worker->child.context->worker_pauses) != 0) return true;
  return atomic_load(&worker->pauses) != 0 && !has_due(ring);
}

vyc_status vyc__ring_go_on(vyc_ring *ring, vyc_scope *scope) {
  if (VYC_LIKELY(vyc__ring_is_running(ring)) || is_kept_away(ring)) return VYC_OK;
  vyc_worker *worker = ring->worker;
  VYC_TRY(vyc__worker_enter(worker->child.context, scope));
  vyc__ring_stop(ring); /* behind calls that are due in a pause, for which this is */
  return launch_it(ring, (stay){worker->idle_ns, busy_ns(worker), *ring->next - WORKER_SLOTS - 1});
}

vyc_status vyc__ring_go_until(vyc_ring *ring, uint32_t last) {
  const stay until = {INT64_MAX, UINT64_MAX, last}; /* -1: at once */
  VYC_TRY(launch_it(ring, until));
  return ring->has_stop ? launch_it(ring, until) : VYC_OK;
}

vyc_status vyc__ring_ask(const vyc_ring *ring, vyc_scope *scope) {
  vyc_context *context = ring->worker->child.context;
  const CUstream stream = ring->stream;
  if (stream == NULL) return VYC_NOT_READY; /* NULL would mean the default stream */
  VYC_TRY(vyc__worker_enter(context, scope));
  const CUstreamCaptureMode mode = vyc__capture_relax(context->driver);
  const vyc_status status =
      vyc__ready(context, context->driver->cuStreamQuery(stream), "cuStreamQuery");
  vyc__capture_restore(context->driver, mode);
  return status == VYC_OK ? VYC_NOT_READY : status;
}
