"""Kernels as Python functions: a function's syntax tree is rewritten to calls of the Builder."""
