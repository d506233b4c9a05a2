"""Polynomials of the functions of f32, written by tools/minimax.py; not edited by hand.

Coefficients stand in the order of the powers, lowest first; the comment has the powers, the interval and the
largest error in the problem's weight.
"""

from __future__ import annotations

# powers 0 1 2 3 4 5 6 on [-0.5001, 0.5001]: 2^-27.29
EXP2 = (
    1.0,
    0.6931472420692444,
    0.24022655189037323,
    0.05550272390246391,
    0.009617074392735958,
    0.00134172267280519,
    0.00015798302774783224,
)
