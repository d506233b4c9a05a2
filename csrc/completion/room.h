/* Notices of the end of work, and the thread of a context that watches for it. */
#ifndef VYC_COMPLETION_ROOM_H
#define VYC_COMPLETION_ROOM_H

#include "kernel/room.h"

typedef struct vyc_watched vyc_watched;

typedef struct vyc_watch {
  pthread_mutex_t lock;  /* guards the rest */
  pthread_cond_t change; /* wakes the thread where it sleeps */
  vyc_watched *added;    /* newest first; the thread takes them from here */
  vyc_watched *spare;    /* for the next */
  bool is_running;
  bool is_asleep;
  pthread_t thread; /* while it is running */
} vyc_watch;

/* A context with its watch. */
typedef struct vyc_completion_context {
  vyc_kernel_context kernels;
  vyc_watch watch;
} vyc_completion_context;

void vyc__watch_begin(vyc_context *context);
/* No thread is running. */
void vyc__watch_end(vyc_context *context);
/* The calling thread is the one that watches. */
bool vyc__watch_is_mine(vyc_context *context);
/* Nobody watches; after a close has begun this becomes true once all notices have been given. */
bool vyc__watch_is_over(vyc_context *context);

#endif
