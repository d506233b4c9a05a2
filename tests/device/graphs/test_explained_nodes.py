"""`explain` names the nodes that the driver was given and that it runs, whatever was recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import vyre_cuda as vc
from vyre_cuda.testing.emulator import Emulator

from .explained_nodes import nodes, nodes_of_steps
from .varied_programs import Kernels
from .varied_recordings import KINDS, Varied, some_of_each

pytestmark = [pytest.mark.device, pytest.mark.emulator]

ROOT = Path(__file__).parents[3]
# What is a node of each kind to the driver.
CALLS = {
    "cuGraphAddKernelNode": ("kernel", "kernel that clears", "control"),
    "cuGraphAddMemsetNode": ("fill", "clear", "fill of temporary arrays"),
    "cuGraphAddMemcpyNode": ("copy",),
    "cuGraphAddNode": ("loop",),
}


@pytest.fixture(scope="module")
def kernels(shared_device: vc.Device) -> Kernels:
    return Kernels(shared_device)


@pytest.mark.parametrize("fuse", [False, True])
def test_the_driver_is_given_the_nodes_that_explain_names(
    shared_device: vc.Device, kernels: Kernels, emulator: Emulator, *, fuse: bool
) -> None:
    for seed in some_of_each(5):
        recording = Varied(shared_device, kernels, seed)
        before = {call: emulator.count(call) for call in CALLS}
        graph = recording.record(fuse=fuse)
        graph.compile()
        given = {call: emulator.count(call) - before[call] for call in CALLS}
        text = graph.explain()
        said = nodes(text)

        assert given == {call: sum(said[kind] for kind in some) for call, some in CALLS.items()}, (seed, text)
        assert graph.node_count == sum(said.values())


@pytest.mark.parametrize("fuse", [False, True])
def test_a_replay_launches_the_kernels_that_explain_names(
    shared_device: vc.Device, kernels: Kernels, emulator: Emulator, *, fuse: bool
) -> None:
    for seed in some_of_each(5):
        graph = Varied(shared_device, kernels, seed).record(fuse=fuse)
        said = nodes(graph.explain())
        if said["loop"]:
            continue  # the array says how often
        before = emulator.count("launches")
        graph.replay()
        shared_device.synchronize()

        assert emulator.count("launches") - before == said["kernel"] + said["kernel that clears"], graph.explain()


def test_what_became_of_the_steps_are_these_nodes(shared_device: vc.Device, kernels: Kernels) -> None:
    """But for clears, and for what loops on the device need."""
    found: Counter[str] = Counter()
    for seed in some_of_each(5):
        text = Varied(shared_device, kernels, seed).record(fuse=True).explain()
        said = nodes(text)
        steps = nodes_of_steps(text)

        assert steps == Counter({kind: said[kind] for kind in ("kernel", "copy", "fill") if said[kind]}), (seed, text)
        found += said
    assert found.keys() >= {kind for some in CALLS.values() for kind in some} - {"copy"}  # there are few copies


def test_fills_are_those_of_the_recording(device: vc.Device) -> None:
    """What the emulator fills before a replay, and what tables clear, have names of their own."""
    evens = Kernels(device).evens[0]
    x = device.zeros(80, vc.f32)
    apart = [device.zeros(80, vc.f32) for _ in range(8)]
    with device.record(fuse=True) as graph:
        t = graph.temporary(80, vc.f32)
        t.fill(2.0)
        x.copy_from(t)
        for each in apart:
            evens.launch(x, each)
    said = nodes(graph.explain())

    assert (said["fill"], said["copy"], said["kernel"]) == (1, 1, 1)
    assert said["fill of temporary arrays"] == device.properties.is_emulator
    assert said["clear"] + said["kernel that clears"] >= 1


def decided(hash_seed: int) -> str:
    """What explain says of recordings, in a process with this seed of the hashes of strings."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    words = [sys.executable, "-c", "from tests.device.graphs import test_explained_nodes as t; t.say()"]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def say() -> None:
    with vc.Device("emulator") as device:
        kernels = Kernels(device)
        for seed in some_of_each(2):
            print(Varied(device, kernels, seed).record(fuse=True).explain())


@pytest.mark.slow
@pytest.mark.thin
def test_decisions_are_the_same_in_every_process() -> None:
    first, second = decided(1), decided(2)

    assert first.count(" of the driver: ") == 2 * len(KINDS)
    assert first == second
