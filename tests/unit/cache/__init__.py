"""The caches of a process and of a machine, without a device."""
