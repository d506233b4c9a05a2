// vyre_cuda for C++17 and newer: the objects of vyre_cuda.h with owners, failures as exceptions or
// as results, and kernels with typed parameters. Header only; it calls the C interface and adds no
// state.
//
//   vyre::Driver driver = vyre::Driver::open();
//   vyre::Context context = vyre::Context::open(driver, 0);
//   vyre::Bundle bundle = vyre::Bundle::open("saxpy.vyre");
//   using Saxpy = vyre::Kernel<vyre::In<float>, vyre::In<float>, vyre::Out<float>,
//                              vyre::Scalar<float>>;       // `vyre-cuda bundle --cpp` writes this
//   Saxpy saxpy(context, bundle, "saxpy");                 // types are compared with the bundle
//   saxpy(x, y, out, 2.0f);                                // std::vector, std::array, std::span
//   auto call = saxpy.bind(stream, dx, dy, dout, 2.0f);    // vyre::Array<float>
//   call.set<3>(2.5f);
//   call();
//
// Rules:
//  - A function that can fail has two forms. One throws vyre::Error. The other begins with try_, is
//    noexcept, and returns a vyre::Result, which must be looked at. Without exceptions
//    (-fno-exceptions) only the second form is declared, and constructors that can fail are not.
//  - Objects are moved, not copied, and release their reference when they are destroyed; any order
//    is right. vyre::Kernel can be copied: copies share what was loaded.
//  - Views are borrowed for the call. Device arrays that a launch, call or graph uses are held by
//    it; the memory of the host is not.
//  - Everything may be called by several threads at the same time, except objects that keep values
//    between calls: BoundCall and Replay. Only its owner may move or destroy an object.
//  - Where this header has no function, .get() gives the C object, and vyre::check or
//    vyre::try_check takes the status.
#ifndef VYRE_CUDA_HPP
#define VYRE_CUDA_HPP

// In the order in which they are read.
// clang-format off
#include "vyre_cuda/error.hpp"
#include "vyre_cuda/handle.hpp"
#include "vyre_cuda/view.hpp"
#include "vyre_cuda/device.hpp"
#include "vyre_cuda/memory.hpp"
#include "vyre_cuda/loaded.hpp"
#include "vyre_cuda/arguments.hpp"
#include "vyre_cuda/graph.hpp"
#include "vyre_cuda/kernel.hpp"
#include "vyre_cuda/replay.hpp"
#include "vyre_cuda/notice.hpp"
// clang-format on

#endif
