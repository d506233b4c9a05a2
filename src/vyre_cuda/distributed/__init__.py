"""Collective communication of several GPUs, by NCCL: `vc.distributed`.

`join` makes this process a rank of the group that torchrun, mpiexec or Slurm started, or of one that has a broadcast of
its own; `local` makes several devices of one process a group: docs/distributed.md.
"""

from __future__ import annotations

from vyre_cuda.distributed.communicator import Communicator as Communicator
from vyre_cuda.distributed.joining import join as join
from vyre_cuda.distributed.local import LocalCommunicator as LocalCommunicator
from vyre_cuda.distributed.local import local as local
from vyre_cuda.distributed.local_graph import LocalGraph as LocalGraph

__all__ = ["Communicator", "LocalCommunicator", "LocalGraph", "join", "local"]
