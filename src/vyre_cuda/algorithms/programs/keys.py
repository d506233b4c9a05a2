"""Sort keys: unsigned integers in the order of the elements, in programs and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from vyre_cuda.ir.builder.functions import bitcast, isnan, where
from vyre_cuda.ir.core.types import Type, bool_, by_name, u8


def key_type(type_: Type) -> Type:
    """The type of the keys of elements."""
    return u8 if type_ is bool_ else by_name(f"u{type_.bits}")


def zero_of(type_: Type) -> Any:
    """A constant 0, or False."""
    return bool_(False) if type_ is bool_ else type_(0)


def greatest(type_: Type) -> Any:
    """A constant with the greatest key."""
    if type_ is bool_:
        return bool_(True)
    return type_(float("nan") if type_.is_float else type_.maximum)


def key_of(element: Any) -> Any:
    """The key of an element in a program: -0 has that of +0, and every NaN the greatest."""
    type_ = element.type
    key = key_type(type_)
    if type_ is bool_:
        return u8(element)
    if type_.kind == "unsigned":
        return element
    sign = key(1 << (type_.bits - 1))
    bits = bitcast(element, key)
    if type_.kind == "signed":
        return bits ^ sign
    ordered = where(bits >= sign, ~bits, bits | sign)
    return where(isnan(element), key(key.maximum), where(bits == sign, sign, ordered))


def keys_of(elements: np.ndarray[Any, Any], type_: Type) -> np.ndarray[Any, Any]:
    """The keys of an array's elements."""
    key = key_type(type_).dtype
    bits = np.asarray(elements, order="C").view(key)
    found: np.ndarray[Any, Any]
    if type_.kind in ("bool", "unsigned"):
        found = bits.astype(np.bool_).view(np.uint8) if type_ is bool_ else bits
        return found
    sign = key.type(1 << (type_.bits - 1))
    if type_.kind == "signed":
        found = bits ^ sign
        return found
    ordered = np.where(bits >= sign, ~bits, bits | sign)
    ordered = np.where(bits == sign, sign, ordered)
    found = np.where(np.isnan(elements), ~key.type(0), ordered)
    return found
