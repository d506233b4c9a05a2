/* The largest error of a function of f32 over a range of all arguments, in units in the last place
 * as vyre_cuda.testing.accuracy counts them. The oracle is the C library's double, off by less than
 * 2^-29 of a unit. */

static double error_of(double expected, float found) {
  if (isnan(expected) || isnan(found)) return isnan(expected) && isnan(found) ? 0 : INFINITY;
  if (isinf(expected) || expected == 0)
    return (double)found == expected && !signbit(found) == !signbit(expected) ? 0 : INFINITY;
  int exponent = 0;
  const double end = 0x1p128, clipped = fmax(-end, fmin(end, expected));
  (void)frexp(expected, &exponent);
  double unit = ldexp(1, (exponent - 1 < -126 ? -126 : exponent - 1) - 23);
  if (unit > 0x1p104) unit = 0x1p104;
  return fabs(fmax(-end, fmin(end, (double)found)) - clipped) / unit;
}

double sweep(uint64_t first, uint64_t end, uint64_t step, uint32_t *worst_out) {
  double largest = -1;
  for (uint64_t at = first; at < end; at += step) {
    const float x = float_of((uint32_t)at);
    const double off = error_of(oracle((double)x), form(x));
    if (off > largest) {
      largest = off;
      *worst_out = (uint32_t)at;
    }
  }
  return largest;
}

void values(const float *x, float *y, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) y[i] = form(x[i]);
}
