"""What can be done with arrays of other libraries and not with device arrays, and what to write instead."""

from __future__ import annotations

from importlib import import_module

ARITHMETIC = (
    "a device array has no arithmetic and no order: write a kernel, or a function of numbers with @vc.vectorize, or "
    "compute with a.numpy()"
)
_OPERATORS = ("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "equal", "not_equal")
_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "amax": "max", "amin": "min"}
_WRITTEN = {
    "dot": "vc.algorithms.matmul(a, b)",
    "matmul": "vc.algorithms.matmul(a, b)",
    "zeros_like": "a.device.zeros(a.shape, a.type)",
    "ones_like": "a.device.full(a.shape, 1, a.type)",
    "full_like": "a.device.full(a.shape, value, a.type)",
    "empty_like": "a.device.empty_like(a)",
    "reshape": "a.reshape(...)",
}


_TO_HOST = ("get", "cpu", "copy_to_host")  # of CuPy, PyTorch and Numba
_ATTRIBUTES = {
    "T": "vc.algorithms.transpose(a)",
    "dot": "vc.algorithms.matmul(a, b)",
    "flatten": "a.reshape(-1).copy()",
    "ravel": "a.reshape(-1)",
}


def of_attribute(name: str) -> str:
    """An attribute of other libraries' arrays that device arrays do not have."""
    if name in _TO_HOST:
        return f"a device array has no {name}(): write a.numpy()"
    host = f"a.numpy().{name}(...)"
    way = f"write {_ATTRIBUTES[name]}" if name in _ATTRIBUTES else _instead(name, f"write {host}")
    if name in ("astype", "clip"):
        way = f"write a function of numbers with @vc.vectorize, or {host}"
    return f"a device array has no {name}: {way}"


def of_function(name: str, method: str = "") -> str:
    """A function of NumPy that was given a device array; `method`, such as `reduce`: that of the function."""
    if name in _OPERATORS and not method:
        return ARITHMETIC
    shown = f"np.{name}.{method}" if method else f"np.{name}"
    return f"{shown} computes on the host: {_instead(name, 'give it a.numpy()', bool(method))}"


def _instead(name: str, host: str, reduced: bool = False) -> str:
    if name in _WRITTEN:
        return f"write {_WRITTEN[name]}"
    called = _REDUCTIONS.get(name, name) if reduced or name.startswith("am") else name
    if hasattr(import_module("vyre_cuda.algorithms"), called):
        return f"write vc.algorithms.{called}(a), or {host.removeprefix('write ')}"
    if hasattr(import_module("vyre_cuda"), name):
        return f"write vc.{name} in a kernel or in a function with @vc.vectorize, or {host}"
    return host
