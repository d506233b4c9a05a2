// Clients with a stream each, as coroutines of Asio on one thread.
//
//   vyre-cuda bundle saxpy.vir -o saxpy.vyre
//   asio saxpy.vyre CLIENTS REQUESTS [DRIVER]
#include <asio.hpp>
#include <cstdio>
#include <cstdlib>

#include "client.hpp"

namespace {

long g_given = 0, g_right = 0;

asio::awaitable<void> serve(const vyre::Context &context, const Saxpy &saxpy, long requests) {
  Client client(context, saxpy);
  asio::posix::stream_descriptor ends(co_await asio::this_coro::executor, client.fd());
  while (g_given < requests) {
    client.request(static_cast<float>(g_given++ % 64));
    std::uint64_t count = 0;
    co_await asio::async_read(ends, asio::buffer(&count, sizeof count), asio::use_awaitable);
    g_right += client.is_right();
  }
}

} // namespace

int main(int count, char **words) try {
  const long clients = std::atol(words[2]), requests = std::atol(words[3]);
  const auto driver = vyre::Driver::open(count > 4 ? words[4] : nullptr);
  const auto context = vyre::Context::open(driver);
  const auto bundle = vyre::Bundle::open(words[1]);
  const Saxpy saxpy(context, bundle, "saxpy", {"x", "y", "out", "a"});
  asio::io_context loop(1);
  std::exception_ptr failed;
  for (long i = 0; i < clients; i++)
    asio::co_spawn(loop, serve(context, saxpy, requests), [&](std::exception_ptr thrown) {
      if (thrown) failed = thrown;
    });
  loop.run();
  if (failed) std::rethrow_exception(failed);
  std::printf("%ld of %ld answers are right\n", g_right, g_given);
  return g_right == g_given ? 0 : 1;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
