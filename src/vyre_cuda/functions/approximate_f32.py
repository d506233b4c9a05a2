"""Forms of f32 that use approximate instructions, and the error bounds that follow from theirs.

PTX ISA: ex2.approx 2 ULP from the rounded result and so 2.5 from the exact one, rcp.approx 1 ULP, rsqrt.approx a
relative 2^-22.9, tanh.approx a relative 2^-11. A relative error of 2^-23 is 2 ULP at most. Instructions for sin, cos
and lg2 have no bound in ULP where the result is near zero, so they are not used.
"""

from __future__ import annotations

from vyre_cuda.functions.coefficients_f32 import LN2, LOG2_E, TANH
from vyre_cuda.functions.forms import Form
from vyre_cuda.functions.polynomials import odd
from vyre_cuda.functions.steps import DeviceSteps, V


def _exp(m: DeviceSteps, x: V) -> V:
    """2^(x log2 e), times 1 + ln 2 times what rounding took from the product, where that is not infinite or zero."""
    product = x * LOG2_E[0]
    lost = m.fma(x, LOG2_E[1], m.fma(x, LOG2_E[0], -product))
    power = m.approximate("ex2.approx_ftz", product)
    return m.where(m.absolute(product) < 128.0, m.fma(power, lost * LN2[0], power), power)


def _sigmoid(m: DeviceSteps, x: V) -> V:
    return m.approximate("rcp.approx_ftz", _exp(m, -x) + 1.0)


def _tanh(m: DeviceSteps, x: V) -> V:
    a = m.absolute(x)
    inverse = m.approximate("rcp.approx_ftz", _exp(m, a + a) + 1.0)
    return m.copysign(m.where(a < 0.6, odd(m, TANH, a), m.fma(inverse, -2.0, 1.0)), x)


EXP2 = (
    Form("ex2.approx.ftz", lambda m, x: m.approximate("ex2.approx_ftz", x), 2.5, flushes=True),
    Form("ex2.approx", lambda m, x: m.approximate("ex2.approx", x), 2.5),
)
EXP = (Form("ex2.approx.ftz", _exp, 3.2, flushes=True),)
SIGMOID = (Form("ex2.approx.ftz, rcp.approx.ftz", _sigmoid, 8, flushes=True),)
TANH_FORMS = (
    Form("tanh.approx", lambda m, x: m.approximate("tanh.approx", x), 2**13, min_sm=80),
    Form("ex2.approx.ftz, rcp.approx.ftz", _tanh, 5, flushes=True),
)
RSQRT = (
    Form("rsqrt.approx.ftz", lambda m, x: m.approximate("rsqrt.approx_ftz", x), 2.2, flushes=True),
    Form("rsqrt.approx", lambda m, x: m.approximate("rsqrt.approx", x), 2.2),
)
