// Clients with a stream each, served by one thread that sleeps in epoll.
//
//   vyre-cuda bundle saxpy.vir -o saxpy.vyre
//   epoll saxpy.vyre CLIENTS REQUESTS [DRIVER]
#include <sys/epoll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>

#include "client.hpp"

int main(int count, char **words) try {
  const long clients = std::atol(words[2]), requests = std::atol(words[3]);
  const auto driver = vyre::Driver::open(count > 4 ? words[4] : nullptr);
  const auto context = vyre::Context::open(driver);
  const auto bundle = vyre::Bundle::open(words[1]);
  const Saxpy saxpy(context, bundle, "saxpy", {"x", "y", "out", "a"});
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  std::deque<Client> all;
  long given = 0, right = 0;
  for (long i = 0; i < clients; i++) {
    Client &client = all.emplace_back(context, saxpy);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &client;
    epoll_ctl(epoll, EPOLL_CTL_ADD, client.fd(), &event);
    client.request(static_cast<float>(given++ % 64));
  }
  for (long done = 0; done < given;) {
    epoll_event events[16];
    const int ready = epoll_wait(epoll, events, 16, -1);
    for (int i = 0; i < ready; i++, done++) {
      auto &client = *static_cast<Client *>(events[i].data.ptr);
      std::uint64_t ends = 0;
      if (read(client.fd(), &ends, sizeof ends) != sizeof ends || ends != 1) return 1;
      right += client.is_right();
      if (given < requests) client.request(static_cast<float>(given++ % 64));
    }
  }
  for (const Client &client : all) close(client.fd());
  close(epoll);
  std::printf("%ld of %ld answers are right\n", right, given);
  return right == given ? 0 : 1;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
