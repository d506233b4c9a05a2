"""What the benchmark of large arrays measures: programs, and the same of peers."""
