// A model is one generation of the bundle; a worker is what a thread answers requests with.
#pragma once
#include <vector>

#include "models.hpp"

struct Model {
  Model(const vyre::Context &context, const char *path, int number)
      : bundle(vyre::Bundle::open(path)), saxpy(context, bundle), tone(context, bundle),
        guard(context, bundle), generation(number) {}
  vyre::Bundle bundle;
  models::Saxpy saxpy;
  models::Tone tone;
  models::Guard guard;
  int generation; // from 1
};

struct Worker {
  explicit Worker(const vyre::Context &on) : context(on) {}
  vyc_status serve(const Model &now, long kind, float a);
  bool is_answered(const Model &now, long kind, float a);

  const vyre::Context &context;
  vyre::Stream stream = vyre::Stream::create(context);
  std::vector<float> host = std::vector<float>(256, 1.0f), result = host;
  vyre::Array<float> x = vyre::Array<float>::copy_of(context, host);
  vyre::Array<float> out = vyre::Array<float>::alloc(context, host.size());
  int bound = 0; // the generation of these two
  models::Saxpy::Bound call;
  models::Twice replay;
  std::vector<double> times; // seconds
  long failed = 0, asserts = 0, wrong = 0, binds = 0;
};
