"""The peers of bench_algorithms.py."""
