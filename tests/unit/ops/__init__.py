"""Every op of the table against NumPy itself and against exact arithmetic."""
