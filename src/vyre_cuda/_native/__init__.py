"""The C layer, thinly: one method per C function, no policy. README.md says which rooms import this one."""
