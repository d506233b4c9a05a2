"""The forms of the functions of f32."""

from __future__ import annotations

from vyre_cuda.functions import exponential_f32
from vyre_cuda.functions.forms import Forms, steps

FORMS_F32: Forms = {
    "exp2": (steps(exponential_f32.exp2, 1),),
}
