/* A host that loads the library as a plugin, uses it in a thread and lets go of it: the thread ends
 * in the library's code, and so does a fork. */
#define _GNU_SOURCE
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dispatch_test.h"

static sem_t used, closed;
static void *library;

/* A copy, because this program is linked to the library itself. */
static void copy_library(char *path_out, size_t bytes) {
  Dl_info info;
  CHECK(dladdr((void *)(uintptr_t)vyc_version, &info) != 0);
  snprintf(path_out, bytes, "/tmp/vyre_cuda_copy_%d.so", (int)getpid());
  FILE *from = fopen(info.dli_fname, "rb"), *to = fopen(path_out, "wb");
  CHECK(from != NULL && to != NULL);
  static char chunk[1 << 16];
  for (size_t n; (n = fread(chunk, 1, sizeof chunk, from)) > 0;)
    CHECK(fwrite(chunk, 1, n, to) == n);
  fclose(from);
  CHECK(fclose(to) == 0);
}

static void *find(const char *name) {
  void *found = dlsym(library, name);
  CHECK(found != NULL);
  return found;
}

static void *use(void *unused) {
  vyc_status (*driver_open)(vyc_driver **, const char *);
  vyc_status (*context_open)(vyc_context **, vyc_driver *, int32_t);
  vyc_status (*alloc)(vyc_buffer **, vyc_context *, uint64_t);
  void (*give_back[3])(void *);
  *(void **)&driver_open = find("vyc_driver_open");
  *(void **)&context_open = find("vyc_context_open");
  *(void **)&alloc = find("vyc_buffer_alloc");
  *(void **)&give_back[0] = find("vyc_buffer_release");
  *(void **)&give_back[1] = find("vyc_context_release");
  *(void **)&give_back[2] = find("vyc_driver_release");
  vyc_driver *driver = NULL;
  vyc_context *context = NULL;
  vyc_buffer *buffer = NULL;
  CHECK(driver_open(&driver, emulator_path) == VYC_OK);
  CHECK(context_open(&context, driver, 0) == VYC_OK);
  CHECK(alloc(&buffer, context, 1024) == VYC_OK);
  give_back[0](buffer);
  give_back[1](context);
  give_back[2](driver);
  sem_post(&used);
  sem_wait(&closed);
  return unused;
}

int main(int argc, char **argv) {
  char path[64];
  pthread_t thread;
  emulator_open(argc, argv);
  copy_library(path, sizeof path);
  CHECK(sem_init(&used, 0, 0) == 0 && sem_init(&closed, 0, 0) == 0);
  library = dlopen(path, RTLD_NOW);
  CHECK(library != NULL);
  CHECK(pthread_create(&thread, NULL, use, NULL) == 0);
  sem_wait(&used);
  CHECK(dlclose(library) == 0);
  void *again = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  unlink(path);
  CHECK(again != NULL); /* it stays */
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  sem_post(&closed);
  CHECK(pthread_join(thread, NULL) == 0);
  return 0;
}
