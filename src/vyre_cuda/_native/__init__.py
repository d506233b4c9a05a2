"""The C layer, thinly: one method per C function, no policy. Only `vyre_cuda.runtime` imports this room."""
