"""Ranges of constants for loops: of few trips, near the ends of their type or over most of it."""

from __future__ import annotations

from hypothesis import strategies as st

from vyre_cuda.ir.core.types import Type

_MOST_TRIPS = 6


@st.composite
def constant_ranges(draw: st.DrawFn, type_: Type) -> tuple[int, int, int]:
    """Start, stop and step of a loop of at most 6 trips; the numbers are of the type."""
    low, high = type_.minimum, type_.maximum
    if draw(st.booleans()):
        return draw(_across(type_))
    down = low < 0 and draw(st.booleans())
    near, far = (high, low) if down else (low, high)
    step = draw(st.sampled_from((1, 2, 3, high // 8, high // 3, high // 2, high // 2 + 1, high - 1, high)))
    step = -(step + draw(st.integers(0, 1))) if down else step
    inward = -1 if down else 1
    starts = (near, near + inward, 0, 1, far - inward * draw(st.integers(0, 12)))
    start = draw(st.sampled_from(starts))
    stop = draw(st.sampled_from((far, far - inward, 0, high // 2)))
    if _trips(start, stop, step) > _MOST_TRIPS:
        stop = start + step * draw(st.integers(1, _MOST_TRIPS)) - inward * draw(st.integers(0, 1))
        stop = min(max(stop, low), high)
    return start, stop, step


@st.composite
def _across(draw: st.DrawFn, type_: Type) -> tuple[int, int, int]:
    """From near one end of the type to near the other in 2 to 5 steps, none of which leaves the type."""
    low, high = type_.minimum, type_.maximum
    start, parts = low + draw(st.integers(0, 3)), draw(st.integers(2, 5))
    step = (high - start) // parts
    stop = start + parts * step - draw(st.sampled_from((0, 1, step // 2)))
    return (start, stop, step) if step <= high else (start, stop, high)


def _trips(start: int, stop: int, step: int) -> int:
    """len(range(start, stop, step)), also where that is more than a C integer holds."""
    return max(0, -((start - stop) // step))


__all__ = ["constant_ranges"]
