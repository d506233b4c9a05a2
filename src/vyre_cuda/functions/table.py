"""The table of the mathematical functions: function x type -> forms, and which form a compiler option selects.

f16 and bf16 are computed by the form of f32 and rounded once more.
"""

from __future__ import annotations

from vyre_cuda.functions.forms import Form
from vyre_cuda.functions.forms_f32 import FORMS_F32
from vyre_cuda.functions.forms_f64 import FORMS_F64

_FORMS = {"f32": FORMS_F32, "f64": FORMS_F64}

# What "fast" may use: the cheapest form whose bound is at most this many ULP.
FAST_ULP = 8.0
# The bound of f16 and bf16: half a ULP for the rounding of an f32 that is off by less than 2^-10 of their ULP.
HALF_ULP = 0.51


def forms(function: str, type_: str) -> tuple[Form, ...]:
    """All forms of a function for f32 or f64, the one with exact steps first."""
    return _FORMS[type_][function]


def exact_form(function: str, type_: str) -> Form:
    """The form with exact steps, which gives the same bits everywhere."""
    return _FORMS[type_][function][0]


def choose(function: str, type_: str, *, precision: str, max_ulp: float | None, sm: int) -> Form | None:
    """The cheapest form whose bound fits; None if there is none.

    Without `max_ulp` that is the one with exact steps in "ieee" and "ftz", and in "fast" what FAST_ULP allows.
    """
    exact, *others = forms(function, type_)
    limit = max_ulp if max_ulp is not None else FAST_ULP if precision == "fast" else 0.0
    for form in others:
        if form.ulp <= limit and form.min_sm <= sm and (precision != "ieee" or not form.flushes):
            return form
    return exact if max_ulp is None or exact.ulp <= max_ulp else None
