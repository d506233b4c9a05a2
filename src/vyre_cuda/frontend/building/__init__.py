"""Rewritten functions at work: they run once for each program and add to its Builder."""
