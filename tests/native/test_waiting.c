/* Blocks that wait for a stream: what an allocation asks of the driver does not grow with their
 * number, whether the stream has passed them or not, and nothing is handed out too early. */
#include <stdbool.h>

#include "base/driver.h"
#include "pool_test.h"

#define MOST 4096
#define FEW 8 /* questions of an allocation, about one stream */
#define NOT_READY 600
#define IMPATIENT_NS 1000000
#define PATIENT_NS 10000000000 /* as contexts are at first */
#define SLOW_US 5000 /* longer than impatient waits */

static CUresult (*real_query)(CUevent), (*real_record)(CUevent, CUstream);
static uint64_t queries;

/* Events in the order of their records: those before `passed` are behind what the stream has done.
 */
static struct {
  CUevent event;
  CUstream stream;
} records[2 * MOST + 16];
static size_t record_count, passed;
static bool is_releasing; /* other records are not looked at */
static CUstream held_back; /* nothing is passed on it; NULL: on none */

static CUresult record(CUevent event, CUstream stream) {
  const CUresult result = real_record(event, stream);
  if (!is_releasing) return result;
  CHECK(record_count < sizeof records / sizeof records[0]);
  records[record_count].event = event;
  records[record_count++].stream = stream;
  return result;
}

static CUresult query(CUevent event) {
  queries++;
  for (size_t i = record_count; i-- > 0;) {
    if (records[i].event != event) continue;
    if (i >= passed || records[i].stream == held_back) return (CUresult)NOT_READY;
    break;
  }
  return real_query(event);
}

typedef struct world {
  vyc_context *context;
  vyc_module *module;
  vyc_prepared *prepared;
  vyc_stream *streams[2];
  piece in;
} world;

static world begin(void) {
  world w;
  vyc_driver *driver = NULL;
  record_count = passed = queries = 0;
  held_back = NULL;
  OK(vyc_driver_open(&driver, emulator_path));
  real_query = driver->cuEventQuery;
  real_record = driver->cuEventRecord;
  driver->cuEventQuery = query;
  driver->cuEventRecord = record;
  OK(vyc_context_open(&w.context, driver, 0));
  vyc_driver_release(driver);
  OK(vyc_context_set_memory_budget(w.context, 1024 * MIB, 1024 * MIB));
  w.module = load_module(w.context);
  w.prepared = scale_prepared(w.module, COPIED);
  for (int i = 0; i < 2; i++) w.streams[i] = new_stream(w.context);
  w.in = new_piece(DEVICE, w.context, N * 4);
  OK(vyc_fill_zero(w.in.buffer, 0, N * 4));
  OK(vyc_context_synchronize(w.context));
  return w;
}

static void end(world *w) {
  passed = SIZE_MAX;
  held_back = NULL;
  CHECK(emulator_set("delay_us", SLOW_US) == 0); /* the marks that `in` gets on its release */
  end_piece(&w->in);
  for (int i = 0; i < 2; i++) vyc_stream_release(w->streams[i]);
  vyc_prepared_release(w->prepared);
  vyc_module_release(w->module);
  vyc_context_release(w->context);
  CHECK(emulator_set("delay_us", 0) == 0);
  check_nothing_lives();
}

/* As many waiting blocks, each of which every one of these streams has used. */
static void release_used(world *w, size_t count, int first, int last, piece *pieces_out) {
  for (size_t i = 0; i < count; i++) {
    pieces_out[i] = new_piece(DEVICE, w->context, N * 4);
    for (int j = first; j <= last; j++) {
      task t;
      prepare(&t, 2.0f);
      on_buffers(&t, w->in.buffer, pieces_out[i].buffer);
      t.run.stream = w->streams[j];
      OK(vyc_prepared_launch(w->prepared, &t.run));
    }
  }
  is_releasing = true;
  for (size_t i = 0; i < count; i++) end_piece(&pieces_out[i]);
  is_releasing = false;
  for (int j = first; j <= last; j++) OK(vyc_stream_synchronize(w->streams[j]));
}

static bool is_among(const piece *p, const piece *pieces, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (pieces[i].data == p->data) return true;
  return false;
}

static piece pieces[MOST];

static void an_allocation_asks_as_little_beside_many(size_t count) {
  world w = begin();
  release_used(&w, count, 0, 0, pieces);
  CHECK(record_count == count);
  queries = 0;
  const piece fresh = new_piece(DEVICE, w.context, N * 4);
  CHECK(queries <= FEW && !is_among(&fresh, pieces, count));
  passed = record_count / 2; /* the stream goes on */
  queries = 0;
  const piece again = new_piece(DEVICE, w.context, N * 4);
  CHECK(queries <= FEW && is_among(&again, pieces, passed) == (passed > 0));
  passed = record_count;
  queries = 0;
  const piece last = new_piece(DEVICE, w.context, N * 4);
  CHECK(queries <= FEW);
  end_piece(&fresh);
  end_piece(&again);
  end_piece(&last);
  end(&w);
}

/* Blocks of another size have passed, and the driver need not be asked for memory. */
static void what_has_passed_is_found_behind_many_others(void) {
  world w = begin();
  release_used(&w, 500, 0, 0, pieces);
  piece large = new_piece(DEVICE, w.context, 2 * N * 4);
  task t;
  prepare(&t, 2.0f);
  on_buffers(&t, w.in.buffer, large.buffer);
  t.run.stream = w.streams[0];
  OK(vyc_prepared_launch(w.prepared, &t.run));
  is_releasing = true;
  end_piece(&large);
  is_releasing = false;
  OK(vyc_stream_synchronize(w.streams[0]));
  passed = record_count;
  const uint64_t misses = read_stats(DEVICE, w.context).misses;
  const piece again = new_piece(DEVICE, w.context, 2 * N * 4);
  CHECK(again.data == large.data);
  CHECK(read_stats(DEVICE, w.context).misses == misses);
  end_piece(&again);
  end(&w);
}

/* Each stream has to pass, and one that stands still holds back nothing of another. */
static void a_stream_that_stands_still_holds_back_its_own_blocks_alone(void) {
  world w = begin();
  enum { COUNT = 100 };
  piece of_both[COUNT], of_second[COUNT], taken[COUNT];
  release_used(&w, COUNT, 0, 1, of_both);
  release_used(&w, COUNT, 1, 1, of_second);
  passed = record_count;
  held_back = records[0].stream;
  const stats before = read_stats(DEVICE, w.context);
  for (int i = 0; i < COUNT; i++) {
    taken[i] = new_piece(DEVICE, w.context, N * 4);
    CHECK(!is_among(&taken[i], of_both, COUNT) && is_among(&taken[i], of_second, COUNT));
  }
  CHECK(read_stats(DEVICE, w.context).misses == before.misses);
  held_back = NULL;
  for (int i = 0; i < COUNT; i++) end_piece(&taken[i]);
  end(&w);
}

/* A trim frees what passes, and forgets nothing of the rest. */
static void a_trim_frees_what_has_passed(void) {
  world w = begin();
  release_used(&w, 100, 0, 1, pieces);
  OK(vyc_context_set_patience(w.context, IMPATIENT_NS));
  passed = record_count;
  held_back = records[1].stream;
  OK(vyc_context_trim(w.context));
  const stats half = read_stats(DEVICE, w.context);
  CHECK(half.frees == 0 && half.idle >= (uint64_t)100 * N * 4);
  OK(vyc_context_set_patience(w.context, PATIENT_NS)); /* or the close gives slow work up */
  held_back = NULL;
  OK(vyc_context_trim(w.context));
  const stats all = read_stats(DEVICE, w.context);
  CHECK(all.frees >= 100 && all.idle == 0 && all.count == 1);
  end(&w);
}

int main(int argc, char **argv) {
  emulator_open(argc, argv);
  static const size_t COUNTS[] = {1, 2, 16, 64, 1000, MOST};
  for (size_t i = 0; i < sizeof COUNTS / sizeof COUNTS[0]; i++)
    an_allocation_asks_as_little_beside_many(COUNTS[i]);
  what_has_passed_is_found_behind_many_others();
  a_stream_that_stands_still_holds_back_its_own_blocks_alone();
  a_trim_frees_what_has_passed();
  puts("waiting: passed");
  return 0;
}
