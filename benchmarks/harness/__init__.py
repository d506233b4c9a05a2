"""What every benchmark here is made of: inputs, timing, child processes, the C twins and the result file."""
