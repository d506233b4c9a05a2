"""The functions of `vc.algorithms`, with NumPy's names, which are those of builtins."""
