"""Curves: what an operation costs over the number of something, and where that jumps."""
