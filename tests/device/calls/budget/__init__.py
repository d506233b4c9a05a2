"""Counting what a warm call does: blocks, locks, environment reads, Python frames, instructions."""
