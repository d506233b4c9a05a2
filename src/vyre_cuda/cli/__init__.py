"""The command line, `vyre-cuda`.

Results go to stdout, everything about the run (device, warnings, errors) to stderr; with --json stdout holds one JSON
document and nothing else. Exit codes: 0 success, 1 the program or the device failed, 2 wrong usage.
"""

from vyre_cuda.cli.command import main

__all__ = ["main"]
