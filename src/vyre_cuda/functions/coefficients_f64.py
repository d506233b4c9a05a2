"""Constants and polynomials of the functions of f64, written by tools/minimax.py; not edited by hand.

A constant is the sum of its parts. Coefficients stand in the order of the powers, lowest first; the comment
has the powers, the interval and the largest error in the problem's weight.
"""

from __future__ import annotations
