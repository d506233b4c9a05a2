"""The forms of the functions of f64: exact steps, in every precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_cuda.functions.forms import Forms, steps
from vyre_cuda.later import functions_of

if TYPE_CHECKING:
    from vyre_cuda.functions import (
        error_f64,
        exponential_f64,
        hyperbolic_f64,
        inverse_f64,
        inverse_hyperbolic_f64,
        logarithm_f64,
        power_f64,
        roots_f64,
        trigonometric_f64,
    )
else:
    error_f64 = functions_of("vyre_cuda.functions.error_f64")
    exponential_f64 = functions_of("vyre_cuda.functions.exponential_f64")
    hyperbolic_f64 = functions_of("vyre_cuda.functions.hyperbolic_f64")
    inverse_f64 = functions_of("vyre_cuda.functions.inverse_f64")
    inverse_hyperbolic_f64 = functions_of("vyre_cuda.functions.inverse_hyperbolic_f64")
    logarithm_f64 = functions_of("vyre_cuda.functions.logarithm_f64")
    power_f64 = functions_of("vyre_cuda.functions.power_f64")
    roots_f64 = functions_of("vyre_cuda.functions.roots_f64")
    trigonometric_f64 = functions_of("vyre_cuda.functions.trigonometric_f64")

FORMS_F64: Forms = {
    "exp": (steps(exponential_f64.exp, 1),),
    "exp2": (steps(exponential_f64.exp2, 1),),
    "expm1": (steps(exponential_f64.expm1, 1.25),),
    "log": (steps(logarithm_f64.log, 1),),
    "log2": (steps(logarithm_f64.log2, 1),),
    "log10": (steps(logarithm_f64.log10, 1),),
    "log1p": (steps(logarithm_f64.log1p, 1),),
    "sin": (steps(trigonometric_f64.sin, 1),),
    "cos": (steps(trigonometric_f64.cos, 1),),
    "tan": (steps(trigonometric_f64.tan, 1),),
    "arcsin": (steps(inverse_f64.arcsin, 1.25),),
    "arccos": (steps(inverse_f64.arccos, 1.25),),
    "arctan": (steps(inverse_f64.arctan, 0.75),),
    "arctan2": (steps(inverse_f64.arctan2, 0.75),),
    "erf": (steps(error_f64.erf, 1.25),),
    "sinh": (steps(hyperbolic_f64.sinh, 1),),
    "cosh": (steps(hyperbolic_f64.cosh, 1),),
    "tanh": (steps(hyperbolic_f64.tanh, 1),),
    "arcsinh": (steps(inverse_hyperbolic_f64.arcsinh, 1),),
    "arccosh": (steps(inverse_hyperbolic_f64.arccosh, 1),),
    "arctanh": (steps(inverse_hyperbolic_f64.arctanh, 0.75),),
    "power": (steps(power_f64.power, 1),),
    "hypot": (steps(roots_f64.hypot, 1.25),),
    "cbrt": (steps(roots_f64.cbrt, 0.75),),
    "rsqrt": (steps(roots_f64.rsqrt, 0.75),),
    "sigmoid": (steps(exponential_f64.sigmoid, 1),),
}
