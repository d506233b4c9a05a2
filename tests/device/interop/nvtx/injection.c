/* What NVTX loads in place of a profiler (NVTX_INJECTION64_PATH): it writes down the ranges that a
 * process pushes and pops, one line each, for nvtx_lines.
 *
 * The ABI is that of NVTX 3: nvtxDetail/nvtxTypes.h for the tables, nvToolsExt.h for attributes. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_OF_CALLBACKS 1
#define MODULE_CORE2 5
enum { RANGE_PUSH = 4, RANGE_POP = 5, REGISTER_STRING = 10, DOMAIN_CREATE = 12 };
enum { MESSAGE_ASCII = 1, MESSAGE_REGISTERED = 3 };

typedef struct attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const void *message;
} attributes;

typedef void (*function)(void);
typedef struct callbacks {
  size_t struct_size;
  int (*table_of)(uint32_t module, function ***table_out, unsigned *size_out);
} callbacks;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char lines[1 << 16];
static size_t used;
static _Thread_local int depth;

static void write_down(int at, const char *what, const char *domain) {
  pthread_mutex_lock(&lock);
  const int length = snprintf(lines + used, sizeof lines - used, "%d|%s|%s\n", at, domain, what);
  if (length > 0 && (size_t)length < sizeof lines - used) used += (size_t)length;
  pthread_mutex_unlock(&lock);
}

/* A domain and a registered string are their own texts. */
static void *domain_create(const char *name) { return strdup(name); }

static void *register_string(void *domain, const char *text) {
  (void)domain;
  return strdup(text);
}

static int push(void *domain, const attributes *given) {
  const int known =
      given->message_type == MESSAGE_ASCII || given->message_type == MESSAGE_REGISTERED;
  write_down(depth, known ? given->message : "?", domain == NULL ? "" : domain);
  return depth++;
}

static int pop(void *domain) {
  depth--;
  write_down(depth, "pop", domain == NULL ? "" : domain);
  return depth;
}

/* The lines so far, which are then forgotten; NULL: nobody has begun to write. */
const char *nvtx_lines(void) {
  static char taken[sizeof lines];
  pthread_mutex_lock(&lock);
  memcpy(taken, lines, used);
  taken[used] = '\0';
  used = 0;
  pthread_mutex_unlock(&lock);
  return taken;
}

int InitializeInjectionNvtx2(const void *(*table)(uint32_t id)) {
  const callbacks *known = table(TABLE_OF_CALLBACKS);
  function **core = NULL;
  unsigned size = 0;
  if (known == NULL || !known->table_of(MODULE_CORE2, &core, &size) || size <= DOMAIN_CREATE)
    return 0;
  *core[RANGE_PUSH] = (function)push;
  *core[RANGE_POP] = (function)pop;
  *core[REGISTER_STRING] = (function)register_string;
  *core[DOMAIN_CREATE] = (function)domain_create;
  return 1;
}
