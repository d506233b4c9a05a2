"""The forms of the functions of f32."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_cuda.functions import approximate_f32
from vyre_cuda.functions.forms import Forms, short_steps, steps
from vyre_cuda.later import functions_of

if TYPE_CHECKING:
    from vyre_cuda.functions import (
        error_f32,
        exponential_f32,
        hyperbolic_f32,
        inverse_f32,
        inverse_hyperbolic_f32,
        logarithm_f32,
        power_f32,
        roots_f32,
        short_f32,
        trigonometric_f32,
    )
else:
    error_f32 = functions_of("vyre_cuda.functions.error_f32")
    exponential_f32 = functions_of("vyre_cuda.functions.exponential_f32")
    hyperbolic_f32 = functions_of("vyre_cuda.functions.hyperbolic_f32")
    inverse_f32 = functions_of("vyre_cuda.functions.inverse_f32")
    inverse_hyperbolic_f32 = functions_of("vyre_cuda.functions.inverse_hyperbolic_f32")
    logarithm_f32 = functions_of("vyre_cuda.functions.logarithm_f32")
    power_f32 = functions_of("vyre_cuda.functions.power_f32")
    roots_f32 = functions_of("vyre_cuda.functions.roots_f32")
    short_f32 = functions_of("vyre_cuda.functions.short_f32")
    trigonometric_f32 = functions_of("vyre_cuda.functions.trigonometric_f32")

FORMS_F32: Forms = {
    "exp": (steps(exponential_f32.exp, 1), *approximate_f32.EXP, short_steps(short_f32.exp, 2)),
    "exp2": (steps(exponential_f32.exp2, 1), *approximate_f32.EXP2),
    "expm1": (steps(exponential_f32.expm1, 1.6),),
    "log": (steps(logarithm_f32.log, 1), short_steps(short_f32.log, 2)),
    "log2": (steps(logarithm_f32.log2, 1.5),),
    "log10": (steps(logarithm_f32.log10, 1.7),),
    "log1p": (steps(logarithm_f32.log1p, 1.7),),
    "sin": (steps(trigonometric_f32.sin, 1.6), short_steps(short_f32.sin, 2)),
    "cos": (steps(trigonometric_f32.cos, 1.6), short_steps(short_f32.cos, 2)),
    "tan": (steps(trigonometric_f32.tan, 1.5),),
    "arcsin": (steps(inverse_f32.arcsin, 1.5),),
    "arccos": (steps(inverse_f32.arccos, 1.5),),
    "arctan": (steps(inverse_f32.arctan, 1.6),),
    "arctan2": (steps(inverse_f32.arctan2, 1.7),),
    "erf": (steps(error_f32.erf, 1.5),),
    "sinh": (steps(hyperbolic_f32.sinh, 1.8),),
    "cosh": (steps(hyperbolic_f32.cosh, 1.5),),
    "tanh": (steps(hyperbolic_f32.tanh, 1.6), *approximate_f32.TANH_FORMS),
    "arcsinh": (steps(inverse_hyperbolic_f32.arcsinh, 1.5),),
    "arccosh": (steps(inverse_hyperbolic_f32.arccosh, 2),),
    "arctanh": (steps(inverse_hyperbolic_f32.arctanh, 1),),
    "power": (steps(power_f32.power, 1.5),),
    "hypot": (steps(roots_f32.hypot, 1),),
    "cbrt": (steps(roots_f32.cbrt, 1),),
    "rsqrt": (steps(roots_f32.rsqrt, 1.5), *approximate_f32.RSQRT),
    "sigmoid": (steps(exponential_f32.sigmoid, 1.7), *approximate_f32.SIGMOID),
}
