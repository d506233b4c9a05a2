/* How far the workers of a context were at some time, for waits that are made in parts: others may
 * go on to make calls, which these do not wait for. */
#include <stdlib.h>

#include "worker.h"

/* A number of a ring is told from later ones for 2^31 slots; a call takes up to 64 of them, and a
 * stop may come behind each. */
#define MOST_CALLS (UINT64_C(1) << 24)

struct vyc_worker_note {
  vyc_worker_note *next;
  uint64_t id; /* of the worker, which this does not keep */
  uint64_t call_count;
  uint32_t last[]; /* of each ring */
};

/* The caller has the claim. */
static void write_note(vyc_worker_note *note, vyc_worker *worker) {
  note->call_count = worker->call_count;
  EACH_RING(ring, worker) note->last[ring - worker->rings] = vyc__ring_last(ring);
}

static vyc_status note_worker(vyc_worker *worker, vyc_worker_note **notes) {
  vyc_worker_note *note = malloc(sizeof *note + worker->ring_count * sizeof note->last[0]);
  if (note == NULL) return vyc__fail(VYC_E_MEMORY, "worker", "out of host memory");
  note->id = worker->id;
  vyc__claim_take(&worker->claim);
  write_note(note, worker);
  vyc__claim_drop(&worker->claim);
  note->next = *notes;
  *notes = note;
  return VYC_OK;
}

vyc_status vyc__workers_note(vyc_context *context, vyc_worker_note **notes_out) {
  vyc_status status = VYC_OK;
  *notes_out = NULL;
  for (vyc_worker *worker = vyc__worker_next(context, NULL), *next; worker != NULL; worker = next) {
    if (status == VYC_OK) status = note_worker(worker, notes_out);
    next = vyc__worker_next(context, worker);
    vyc_worker_release(worker);
  }
  if (status == VYC_OK) return VYC_OK;
  vyc__workers_forget(*notes_out);
  *notes_out = NULL;
  return status;
}

/* Where the ring was at the note; or where it is now, if its numbers may have wrapped since, or if
 * the worker is closed, which may have left calls. */
static uint32_t noted(vyc_worker_note *note, vyc_ring *ring) {
  vyc_worker *worker = ring->worker;
  vyc__claim_take(&worker->claim);
  if (worker->call_count - note->call_count > MOST_CALLS || atomic_load(&worker->closed))
    write_note(note, worker);
  const uint32_t last = note->last[ring - worker->rings];
  vyc__claim_drop(&worker->claim);
  return last;
}

static vyc_status reach(vyc_worker *worker, vyc_worker_note *note, vyc_pace *pace) {
  while (note != NULL && note->id != worker->id) note = note->next;
  if (note == NULL) return VYC_OK; /* it was made later */
  EACH_RING(ring, worker) VYC_TRY(vyc__ring_finish(ring, noted(note, ring), pace));
  return VYC_OK;
}

/* A worker that is gone has finished its calls before. */
vyc_status vyc__workers_reach(vyc_context *context, vyc_worker_note *notes, int64_t timeout_ns) {
  vyc_pace pace = vyc__pace_begin(timeout_ns, 0);
  vyc_status status = VYC_OK;
  for (vyc_worker *worker = vyc__worker_next(context, NULL), *next; worker != NULL; worker = next) {
    if (status == VYC_OK) status = reach(worker, notes, &pace);
    next = vyc__worker_next(context, worker);
    vyc_worker_release(worker);
  }
  return status;
}

void vyc__workers_forget(vyc_worker_note *notes) {
  for (vyc_worker_note *note = notes, *next; note != NULL; note = next) {
    next = note->next;
    free(note);
  }
}
