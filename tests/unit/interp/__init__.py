"""The interpreter against plain Python: loops over threads, lanes and elements."""
