/* libnccl.so.2: opened when it is asked for, and kept. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "room.h"

static _Atomic(const vyc_nccl *) opened;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const vyc_nccl *vyc__nccl(void) { return atomic_load_explicit(&opened, memory_order_acquire); }

vyc_status vyc__nccl_failed(const vyc_nccl *nccl, int result, const char *function) {
  const char *more = nccl->ncclGetLastError == NULL ? "" : nccl->ncclGetLastError(NULL);
  return vyc__fail(VYC_E_COMMUNICATION, function, "%s gave %d: %s%s%s", function, result,
                   nccl->ncclGetErrorString(result), more == NULL || *more == 0 ? "" : "; ",
                   more == NULL ? "" : more);
}

/* The name of a function that is missing; NULL: none. */
static const char *find(vyc_nccl *nccl, void *library) {
#define FIND(name, arguments)                                                                      \
  *(void **)&nccl->name = dlsym(library, #name);                                                   \
  if (nccl->name == NULL) return #name;
  VYC_NCCL_TABLE(FIND)
#undef FIND
  *(void **)&nccl->ncclGetErrorString = dlsym(library, "ncclGetErrorString");
  if (nccl->ncclGetErrorString == NULL) return "ncclGetErrorString";
  *(void **)&nccl->ncclGetLastError = dlsym(library, "ncclGetLastError");
  return NULL;
}

/* Caller holds the lock. */
static vyc_status load(const char *name) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL)
    return vyc__fail(VYC_E_UNSUPPORTED, "nccl", "%s cannot be opened: %s", name, dlerror());
  vyc_nccl *nccl = calloc(1, sizeof *nccl);
  if (nccl == NULL) return vyc__fail(VYC_E_MEMORY, "nccl", "out of host memory");
  const char *missing = find(nccl, library);
  if (missing == NULL && nccl->ncclGetVersion(&nccl->version) == VYC_NCCL_SUCCESS &&
      nccl->version >= VYC_NCCL_MINIMUM) {
    atomic_store_explicit(&opened, nccl, memory_order_release);
    return VYC_OK; /* the library is never closed: it has threads */
  }
  const vyc_status status = missing != NULL
                                ? vyc__fail(VYC_E_UNSUPPORTED, "nccl",
                                            "%s has no function %s; NCCL 2.10 or later is "
                                            "needed: update it",
                                            name, missing)
                                : vyc__fail(VYC_E_UNSUPPORTED, "nccl",
                                            "%s has version %d; NCCL 2.10 (21000) or later is "
                                            "needed: update it",
                                            name, nccl->version);
  free(nccl);
  return status;
}

vyc_status vyc_nccl_open(const char *path) {
  if (vyc__nccl() != NULL) return VYC_OK;
  pthread_mutex_lock(&lock);
  const vyc_status status =
      vyc__nccl() != NULL ? VYC_OK : load(path == NULL ? "libnccl.so.2" : path);
  pthread_mutex_unlock(&lock);
  return status;
}

static vyc_status require(const vyc_nccl **nccl_out) {
  *nccl_out = vyc__nccl();
  return *nccl_out != NULL ? VYC_OK
                           : vyc__fail(VYC_E_UNSUPPORTED, "nccl", "call vyc_nccl_open first");
}

vyc_status vyc_nccl_version(int32_t *version_out) {
  const vyc_nccl *nccl;
  VYC_REQUIRE(version_out != NULL);
  VYC_TRY(require(&nccl));
  *version_out = nccl->version;
  return VYC_OK;
}

vyc_status vyc_nccl_unique_id(uint8_t *id_out) {
  const vyc_nccl *nccl;
  VYC_REQUIRE(id_out != NULL);
  VYC_TRY(require(&nccl));
  vyc_nccl_id id;
  const int result = nccl->ncclGetUniqueId(&id);
  if (result != VYC_NCCL_SUCCESS) return vyc__nccl_failed(nccl, result, "ncclGetUniqueId");
  memcpy(id_out, id.bytes, sizeof id.bytes);
  return VYC_OK;
}
