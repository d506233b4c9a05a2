"""The forms of the functions of f64."""

from __future__ import annotations

from vyre_cuda.functions.forms import Forms

FORMS_F64: Forms = {}
