/* One thing in the middle of another, on the driver of stops.c: what a thread does while another is
 * stopped in front of a driver call, or behind it. */
#ifndef STOPS_TEST_H
#define STOPS_TEST_H

#include "dispatch_test.h"

static struct {
  _Atomic(const char *) call; /* of the driver; NULL: no stop any more */
  int behind;
  int skip; /* so many of them first */
  pthread_t whose;
  void *(*act)(void *);
} stop;

static void hook(const char *call, int behind) {
  const char *at = stop.call;
  if (at == NULL || !pthread_equal(stop.whose, pthread_self())) return;
  if (strcmp(at, call) != 0 || stop.behind != behind || stop.skip-- > 0) return;
  stop.call = NULL;
  pthread_t other;
  CHECK(pthread_create(&other, NULL, stop.act, NULL) == 0);
  CHECK(pthread_join(other, NULL) == 0);
}

static void stop_at(const char *call, int behind, int skip, void *(*act)(void *)) {
  stop.behind = behind;
  stop.skip = skip;
  stop.whose = pthread_self();
  stop.act = act;
  stop.call = call;
}

UNUSED static void check_stopped(void) { CHECK(stop.call == NULL); }

/* Arguments of the program: EMULATOR STOPS [SCENE]. */
static void stops_open(int argc, char **argv) {
  CHECK(argc == 3 || argc == 4);
  emulator_open(2, argv);
  CHECK(setenv("VYC_STOPS_DRIVER", argv[1], 1) == 0);
  emulator_path = argv[2];
  void (*set)(void (*)(const char *, int)) = NULL;
  *(void **)&set = symbol(dlopen(emulator_path, RTLD_NOW), "stops_set");
  set(hook);
  CHECK(emulator_set("stream_mode", LAZY) == 0);
}

typedef struct scene {
  const char *name;
  void (*play)(void);
} scene;

UNUSED static void play(const scene *scenes, size_t count, int argc, char **argv) {
  for (size_t i = 0; i < count; i++)
    if (argc == 3 || strcmp(argv[3], scenes[i].name) == 0) scenes[i].play();
}

#endif
