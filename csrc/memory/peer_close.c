/* The close of a context whose memory calls of other contexts use. Such a call looks whether the
 * other context is open, gives its work, and then orders that context behind the work: a close in
 * between would free the memory first. So a close waits until every call has ended that may have
 * looked before it began: until it has seen each gate, once, without a thread that does more than
 * wait, of each context that knows it. */
#include "room.h"

#define ALL_GATES ((UINT32_C(1) << VYC_GATES) - 1)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the rest */
static vyc_memory_context *users; /* contexts that know others */
static const vyc_context *looking; /* the close whose empty_gates these are */

void vyc__peer_user_add(vyc_context *context) {
  vyc_memory_context *user = (vyc_memory_context *)context;
  pthread_mutex_lock(&lock);
  if (!user->knows_peers) {
    user->knows_peers = true;
    user->next_user = users;
    users = user;
  }
  pthread_mutex_unlock(&lock);
}

void vyc__peer_user_remove(vyc_context *context) {
  pthread_mutex_lock(&lock);
  vyc_memory_context **link = &users;
  while (*link != NULL && *link != (vyc_memory_context *)context) link = &(*link)->next_user;
  if (*link != NULL) *link = (*link)->next_user;
  pthread_mutex_unlock(&lock);
}

static bool is_empty(vyc_gate *gate) {
  const uint64_t inside = atomic_load(&gate->inside);
  return (uint32_t)inside == inside / VYC_GATE_WAITS;
}

static bool has_left(vyc_memory_context *user) {
  for (uint32_t i = 0; i < VYC_GATES; i++)
    if (is_empty(&user->context.gates[i])) user->empty_gates |= UINT32_C(1) << i;
  return user->empty_gates == ALL_GATES;
}

static bool have_left(const vyc_context *closing) {
  bool all = true;
  if (looking != NULL && looking != closing) return false; /* another close goes first */
  for (vyc_memory_context *user = users; looking == NULL && user != NULL; user = user->next_user)
    user->empty_gates = 0;
  looking = closing;
  for (vyc_memory_context *user = users; user != NULL; user = user->next_user)
    if (&user->context != closing && vyc__peer_is_known(&user->context, closing))
      all = has_left(user) && all;
  if (all) looking = NULL;
  return all;
}

bool vyc__peers_have_left(const vyc_context *closing) {
  pthread_mutex_lock(&lock);
  const bool all = have_left(closing);
  pthread_mutex_unlock(&lock);
  return all;
}

void vyc__peers_forget(const vyc_context *closing) {
  pthread_mutex_lock(&lock);
  if (looking == closing) looking = NULL;
  pthread_mutex_unlock(&lock);
}
