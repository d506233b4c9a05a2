"""Kernels as users write them, whose machine code is counted: index arithmetic, narrow types, bits, order.

Those with a counterpart `..._by_hand` compute the same with what a programmer saves where the compiler saves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import vyre_cuda as vc

Maker: TypeAlias = Callable[[], vc.Program]

KERNELS: dict[str, Maker] = {}

_NEIGHBORS = ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (0, 2))  # rows and columns further on


def elementwise(
    type_: vc.Type, inputs: int = 1, scalars: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a kernel of a function of the index, the inputs and some u32 scalars; what it returns is stored there."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def program() -> vc.Program:
            b = vc.Builder(function.__name__)
            arrays = [b.input(f"x{place}", type_) for place in range(inputs)]
            numbers = [b.scalar(name, vc.u32) for name in scalars]
            out = b.output("out", type_, size=arrays[0].size)
            i = b.let("i", vc.global_id.x)
            with b.if_(i < out.size):
                out[i] = function(b, i, *arrays, *numbers)
            return b.build()

        KERNELS[function.__name__] = program
        return function

    return register


# ---- narrow types ----------------------------------------------------------------------------------------------------


@elementwise(vc.u8, inputs=3)
def u8_blend(_b: Any, i: Any, red: Any, green: Any, blue: Any) -> Any:
    return red[i] * vc.u8(3) + green[i] * vc.u8(5) + blue[i] - vc.u8(7)


@elementwise(vc.u8, inputs=3)
def u8_blend_by_hand(_b: Any, i: Any, red: Any, green: Any, blue: Any) -> Any:
    return vc.u8(vc.u32(red[i]) * 3 + vc.u32(green[i]) * 5 + vc.u32(blue[i]) - 7)


def _polynomial(v: Any, number: Any) -> Any:
    return ((v * number(3) + number(1)) * v + number(7)) * v - number(2)


@elementwise(vc.i16)
def i16_polynomial(b: Any, i: Any, x: Any) -> Any:
    return _polynomial(b.let("v", x[i]), vc.i16)


@elementwise(vc.i16)
def i16_polynomial_by_hand(b: Any, i: Any, x: Any) -> Any:
    return vc.i16(_polynomial(b.let("v", vc.i32(x[i])), vc.i32))


# ---- indices ---------------------------------------------------------------------------------------------------------


def _channels_last(i: Any, channels: Any, height: Any, width: Any) -> Any:
    """Where an element of an image with its channels first has them last."""
    image = i // (width * height * channels)
    row, column = (i // width) % height, i % width
    return ((image * height + row) * width + column) * channels + (i // (width * height)) % channels


def _channels_last_by_hand(b: Any, i: Any, channels: Any, height: Any, width: Any) -> Any:
    rows = b.let("rows", i // width)
    planes = b.let("planes", rows // height)
    images = b.let("images", planes // channels)
    row, column, channel = rows - planes * height, i - rows * width, planes - images * channels
    return ((images * height + row) * width + column) * channels + channel


@elementwise(vc.f32, scalars="chw")
def channels_last(_b: Any, i: Any, x: Any, c: Any, h: Any, w: Any) -> Any:
    return x[_channels_last(i, c, h, w)]


@elementwise(vc.f32, scalars="chw")
def channels_last_by_hand(b: Any, i: Any, x: Any, c: Any, h: Any, w: Any) -> Any:
    return x[_channels_last_by_hand(b, i, c, h, w)]


@elementwise(vc.f32)
def channels_last_of_known_shape(_b: Any, i: Any, x: Any) -> Any:
    return x[_channels_last(i, 64, 28, 28)]


@elementwise(vc.f32)
def channels_last_of_known_shape_by_hand(b: Any, i: Any, x: Any) -> Any:
    return x[_channels_last_by_hand(b, i, 64, 28, 28)]


@elementwise(vc.f32, scalars="w")
def stencil(_b: Any, i: Any, x: Any, w: Any) -> Any:
    row, column = i // w, i % w
    total = x[row * w + column]
    for down, right in _NEIGHBORS[1:]:
        total = total + x[(row + down) * w + (column + right)]
    return total


@elementwise(vc.f32, scalars="w")
def stencil_by_hand(_b: Any, i: Any, x: Any, w: Any) -> Any:
    total = x[i]
    for down, right in _NEIGHBORS[1:]:
        total = total + x[i + w * down + right]
    return total


# Both guard all four neighbors; an index of the flat one needs no row.
@elementwise(vc.f32, scalars="w")
def guarded_stencil(b: Any, i: Any, x: Any, w: Any) -> Any:
    row, column, height = b.let("row", i // w), b.let("column", i % w), b.let("height", x.size // w)
    inside = (row > 0) & (row + 1 < height) & (column > 0) & (column + 1 < w)
    cross = x[(row - 1) * w + column] + x[(row + 1) * w + column] + x[row * w + column - 1] + x[row * w + column + 1]
    return vc.where(inside, cross * 0.25, 0.0)


# The same bounds as by hand: those above divide the size by the width, which matters where a last row is not full.
@elementwise(vc.f32, scalars="w")
def bounded_stencil(b: Any, i: Any, x: Any, w: Any) -> Any:
    row, column = b.let("row", i // w), b.let("column", i % w)
    inside = (i >= w) & (i + w < x.size) & (column > 0) & (column + 1 < w)
    cross = x[(row - 1) * w + column] + x[(row + 1) * w + column] + x[row * w + column - 1] + x[row * w + column + 1]
    return vc.where(inside, cross * 0.25, 0.0)


@elementwise(vc.f32, scalars="w")
def guarded_stencil_by_hand(b: Any, i: Any, x: Any, w: Any) -> Any:
    column = b.let("column", i % w)
    inside = (i >= w) & (i + w < x.size) & (column > 0) & (column + 1 < w)
    return vc.where(inside, (x[i - w] + x[i + w] + x[i - 1] + x[i + 1]) * 0.25, 0.0)


# ---- integers --------------------------------------------------------------------------------------------------------


@elementwise(vc.i32, inputs=2)
def quotient_and_rest(b: Any, i: Any, x: Any, y: Any) -> Any:
    u, v = b.let("u", x[i]), b.let("v", y[i])
    return (u // v) * 3 + u % v


@elementwise(vc.i32, inputs=2)
def quotient_and_rest_by_hand(b: Any, i: Any, x: Any, y: Any) -> Any:
    u, v = b.let("u", x[i]), b.let("v", y[i])
    quotient = b.let("quotient", u // v)
    return quotient * 3 + vc.where(v == 0, vc.i32(0), u - quotient * v)


@elementwise(vc.i32, inputs=2)
def like_terms(b: Any, i: Any, x: Any, y: Any) -> Any:
    u, v = b.let("u", x[i]), b.let("v", y[i])
    return u * 7 + v * 7 + (u + v) * 9 - (u << vc.i32(4))


@elementwise(vc.i32)
def clamped_twice(b: Any, i: Any, x: Any) -> Any:
    byte = vc.minimum(vc.maximum(b.let("v", x[i]), 0), 255)
    return vc.minimum(vc.maximum(byte, -5), 300)


@elementwise(vc.f32, inputs=2)
def chosen_by_order(b: Any, i: Any, x: Any, y: Any) -> Any:
    u, v = b.let("u", x[i]), b.let("v", y[i])
    return vc.where(u < v, u, v) + vc.where(vc.logical_not(u < v), u, v)


# ---- bits ------------------------------------------------------------------------------------------------------------


@elementwise(vc.u32)
def rotations_by_shifts(b: Any, i: Any, x: Any) -> Any:
    v = b.let("v", x[i])
    mixed = b.let("mixed", (v << vc.u32(13)) | (v >> vc.u32(19))) * 5 + 0xE6546B64
    return (mixed << vc.u32(7)) | (mixed >> vc.u32(25))


@elementwise(vc.u32)
def rotations_by_hand(b: Any, i: Any, x: Any) -> Any:
    mixed = b.let("mixed", vc.rotate_left(x[i], vc.u32(13))) * 5 + 0xE6546B64
    return vc.rotate_left(mixed, vc.u32(7))


@elementwise(vc.u32)
def bytes_exchanged(b: Any, i: Any, x: Any) -> Any:
    v = b.let("v", x[i])
    low, high = (v >> vc.u32(8)) & 0xFF, (v >> vc.u32(16)) & 0xFF
    return low | (high << vc.u32(8)) | ((v & 0xFF) << vc.u32(16)) | ((v >> vc.u32(24)) << vc.u32(24))


@elementwise(vc.u32)
def masks_of_masks(b: Any, i: Any, x: Any) -> Any:
    v = b.let("v", x[i])
    return (v & (~v + 1)) + ((v | 0xF0) & 0x0F) + ((v ^ 0xFFFFFFFF) & v) + ((v & 0xFF) & 0xF)
