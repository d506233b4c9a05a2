// A client of one stream: gives the work of a request without a wait, and asks for a notice of its
// end in an eventfd, which any event loop can watch.
#ifndef CLIENT_HPP
#define CLIENT_HPP

#include <sys/eventfd.h>

#include <algorithm>
#include <system_error>
#include <vyre_cuda.hpp>

using Saxpy = vyre::Kernel<vyre::In<float>, vyre::In<float>, vyre::Out<float>, vyre::Scalar<float>>;

class Client {
 public:
  Client(const vyre::Context &context, const Saxpy &saxpy)
      : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), stream_(vyre::Stream::create(context)),
        x_(vyre::PinnedArray<float>::alloc(context, n)),
        out_(vyre::PinnedArray<float>::alloc(context, n)),
        dx_(vyre::Array<float>::alloc(context, n)), dout_(vyre::Array<float>::alloc(context, n)),
        call_(saxpy.bind(stream_, dx_, dx_, dout_, 1.0f)) {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    std::fill(x_.begin(), x_.end(), 1.0f);
  }
  Client(const Client &) = delete;
  Client &operator=(const Client &) = delete;

  int fd() const { return fd_; } // of whoever watches it, who closes it behind the last request

  void request(float a) {
    a_ = a;
    vyre::copy(stream_, dx_, x_);
    call_.set<3>(a);
    call_();
    vyre::copy(stream_, out_, dout_);
    vyre::Notice notice;
    notice.fd = fd_;
    vyre::notify(stream_, notice);
  }
  // After the notice.
  bool is_right() {
    stream_.synchronize(); // returns at once, and reports failed checks
    return std::all_of(out_.begin(), out_.end(), [&](float value) { return value == a_ + 1.0f; });
  }

 private:
  static constexpr std::size_t n = 256;
  int fd_;
  float a_ = 0.0f;
  vyre::Stream stream_;
  vyre::PinnedArray<float> x_, out_;
  vyre::Array<float> dx_, dout_;
  Saxpy::Bound call_;
};

#endif
