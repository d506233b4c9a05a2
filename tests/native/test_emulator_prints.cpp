// vprintf in the emulated driver: what is printed, when it is shown, what is lost, what is refused.
#include <unistd.h>

#include <functional>

#include "emulator_test.h"

namespace {

// One line: the thread, a u32, an f64; `format` has the bytes of a C string.
std::string text_with(const std::string &format) {
  std::string bytes;
  for (const char c : format + '\0')
    bytes += (bytes.empty() ? "" : ", ") + std::to_string(static_cast<unsigned char>(c));
  return R"(.version 8.0
.target sm_80
.address_size 64

.extern .func (.param .b32 count) vprintf (.param .b64 format, .param .b64 values);
.global .align 1 .b8 line[)" +
         std::to_string(format.size() + 1) + "] = {" + bytes + R"(};

.visible .entry tell(.param .u64 counted, .param .f64 number)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    .reg .f64 %fd<2>;
    .local .align 8 .b8 buffer[16];
    ld.param.u64 %rd0, [counted];
    ld.param.f64 %fd0, [number];
    mov.u32 %r0, %tid.x;
    st.local.u32 [buffer], %r0;
    st.local.f64 [buffer+8], %fd0;
    mov.u64 %rd1, line;
    cvta.global.u64 %rd1, %rd1;
    mov.u64 %rd2, buffer;
    cvta.local.u64 %rd2, %rd2;
    {
    .param .b64 format;
    .param .b64 values;
    .param .b32 count;
    st.param.b64 [format], %rd1;
    st.param.b64 [values], %rd2;
    call (count), vprintf, (format, values);
    }
    ret;
}
)";
}

// The standard output of what runs between, through a pipe's file.
class Captured {
 public:
  Captured() : file_(std::tmpfile()), kept_(dup(1)) {
    CHECK(file_ != nullptr && kept_ >= 0);
    std::fflush(stdout);
    CHECK(dup2(fileno(file_), 1) == 1);
  }
  ~Captured() {
    CHECK(dup2(kept_, 1) == 1);
    close(kept_);
    std::fclose(file_);
  }
  std::string text() const {
    std::string found(static_cast<size_t>(lseek(fileno(file_), 0, SEEK_END)), ' ');
    CHECK(pread(fileno(file_), found.data(), found.size(), 0) ==
          static_cast<ssize_t>(found.size()));
    return found;
  }

 private:
  std::FILE *file_;
  int kept_;
};

void same(const std::string &expected, const std::string &actual) {
  if (expected != actual)
    fail(__FILE__, __LINE__, "expected '" + expected + "', found '" + actual + "'");
}

void tell(const std::string &format, unsigned threads, const std::function<void()> &then) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  uint64_t counted = 0;
  double number = 0.1;
  void *arguments[] = {&counted, &number};
  const std::string text = text_with(format);
  OK(driver.cuModuleLoadDataEx(&module, text.c_str(), 0, nullptr, nullptr));
  OK(driver.cuModuleGetFunction(&function, module, "tell"));
  OK(driver.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, nullptr, arguments, nullptr));
  then();
  driver.cuModuleUnload(module);
}

void each_wait_of_the_driver_shows_lines_once() {
  const Session session;
  const Captured captured;
  tell("%u: %g 100%%\n", 2, [] { OK(driver.cuCtxSynchronize()); });
  same("0: 0.1 100%\n1: 0.1 100%\n", captured.text());
  tell("%d %.17g\n", 1, [] { OK(driver.cuStreamSynchronize(nullptr)); });
  const std::string both = "0: 0.1 100%\n1: 0.1 100%\n0 0.10000000000000001\n";
  same(both, captured.text());
  OK(driver.cuCtxSynchronize());
  same(both, captured.text());
}

void a_query_shows_nothing() {
  const Session session;
  const Captured captured;
  tell("x\n", 1, [&] {
    while (driver.cuStreamQuery(nullptr) == CUDA_ERROR_NOT_READY) continue;
    same("", captured.text());
    OK(driver.cuCtxSynchronize());
  });
  same("x\n", captured.text());
}

void the_oldest_lines_are_lost_first() {
  const Session session;
  const Captured captured;
  const std::string long_text(4000, 'a');
  tell("%d " + long_text + "\n", 1024, [] { OK(driver.cuCtxSynchronize()); });
  const std::string shown = captured.text();
  CHECK(shown.size() > (900u << 10) && shown.size() <= (1u << 20));
  CHECK(shown.compare(0, 2, "0 ") != 0);
  CHECK(shown.find("\n1023 aaa") != std::string::npos);
}

void formats_that_are_not_known_lose_the_device() {
  for (const char *format : {"%s\n", "%", "%.12345g", "%llg", "%u %u %u %u %u\n"}) {
    const Session session;
    const Captured captured;
    tell(format, 1, [] { CHECK(driver.cuCtxSynchronize() != CUDA_SUCCESS); });
    same("", captured.text());
  }
}

void texts_with_another_vprintf_are_refused() {
  const Session session;
  const std::string good = text_with("x\n");
  const auto refused = [&](const std::string &from, const std::string &to) {
    std::string text = good;
    const size_t at = text.rfind(from);
    CHECK(at != std::string::npos);
    text.replace(at, from.size(), to);
    CUmodule module = nullptr;
    GIVES(CUDA_ERROR_INVALID_PTX, driver.cuModuleLoadData(&module, text.c_str()));
  };
  refused("call (count), vprintf", "call (count), printf");
  refused("call (count), vprintf", "call vprintf");
  refused("call (count), vprintf", "call (format), vprintf");
  refused("(format, values);\n    }", "(format, count);\n    }");
  refused("(.param .b32 count) vprintf", "vprintf");
  refused("(.param .b32 count) vprintf", "(.param .b64 count) vprintf");
  refused(".param .b64 values);", ".param .b32 values);");
}

} // namespace

int main(int argc, char **argv) {
  CHECK(argc == 2);
  open_driver(argv[1]);
  each_wait_of_the_driver_shows_lines_once();
  a_query_shows_nothing();
  the_oldest_lines_are_lost_first();
  texts_with_another_vprintf_are_refused();
  formats_that_are_not_known_lose_the_device();
  return 0;
}
