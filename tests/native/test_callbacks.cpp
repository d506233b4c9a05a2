// A callback of the host that lets an exception out ends the process, with a word on why: what the
// library holds meanwhile would stay as it is, and a later close would wait for it in vain.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

#include "vyre_cuda.h"

namespace {

const char *emulator;

void require(bool good, int line) {
  if (good) return;
  std::fprintf(stderr, "%s:%d\n", __FILE__, line);
  std::exit(1);
}
#define CHECK(condition) require((condition), __LINE__)

bool throws;

int32_t alloc(void *, uint64_t *address, uint64_t bytes) {
  if (throws) throw std::bad_alloc();
  *address = reinterpret_cast<uint64_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return *address == 0;
}
void release(void *, uint64_t address) {
  if (throws) throw std::runtime_error("free");
  std::free(reinterpret_cast<void *>(address));
}
void drop(void *) { throw std::runtime_error("drop"); }

vyc_context *open_context() {
  vyc_driver *driver = nullptr;
  vyc_context *context = nullptr;
  vyc_context_options options{};
  options.struct_size = sizeof options;
  options.pinned_memory = {alloc, release, nullptr};
  CHECK(vyc_driver_open(&driver, emulator) == VYC_OK);
  CHECK(vyc_context_open_with(&context, driver, 0, &options) == VYC_OK);
  vyc_driver_release(driver);
  return context;
}

void throw_in_alloc() {
  vyc_pinned *pinned = nullptr;
  vyc_context *context = open_context();
  throws = true;
  vyc_pinned_alloc(&pinned, context, 8u << 20);
}

void throw_in_free() {
  vyc_pinned *pinned = nullptr;
  vyc_context *context = open_context();
  CHECK(vyc_pinned_alloc(&pinned, context, 1u << 20) == VYC_OK);
  vyc_pinned_release(pinned);
  throws = true;
  vyc_context_trim(context);
}

void throw_in_drop() {
  vyc_context *context = open_context();
  vyc_buffer *buffer = nullptr;
  vyc_foreign_memory memory{};
  memory.struct_size = sizeof memory;
  memory.drop = drop;
  CHECK(vyc_buffer_adopt(&buffer, context, &memory) == VYC_OK);
  vyc_buffer_release(buffer);
}

// What a child writes to stderr before it ends by SIGABRT.
void ends_the_process(void (*what)()) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(ends[1], 2);
    try {
      what();
    } catch (...) {
    }
    _exit(0);
  }
  close(ends[1]);
  char text[512];
  size_t used = 0;
  for (ssize_t n;
       used < sizeof text - 1 && (n = read(ends[0], text + used, sizeof text - 1 - used)) > 0;)
    used += static_cast<size_t>(n);
  text[used] = '\0';
  close(ends[0]);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  CHECK(std::strstr(text, "a callback of the host") != nullptr);
}

}  // namespace

int main(int argc, char **argv) {
  CHECK(argc == 2);
  emulator = argv[1];
  ends_the_process(throw_in_alloc);
  ends_the_process(throw_in_free);
  ends_the_process(throw_in_drop);
  return 0;
}
