"""The requests of bench_service.py on the emulator: every way answers right, with and without other threads."""

from __future__ import annotations

import sys

import pytest

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.slow,
    pytest.mark.thin,
    pytest.mark.usefixtures("benchmarks_are_importable"),
]


def test_every_way_is_told(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    import bench_service

    words = ("--device", "emulator", "--requests", "64", "--threads", "1", "2")
    monkeypatch.setattr(sys, "argv", ["bench_service", *words])
    bench_service.main()
    told = capfd.readouterr().out

    assert told.count(" requests of each way") == 2
    assert told.count("layer") == 2 * 4
    assert told.count("kernel, ") == 2 * 6
    assert told.count("graph, ") == 2 * 5


def test_the_latencies_of_the_example_are_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import bench_service

    words = ("--example", "--device", "emulator", "--requests", "80", "--threads", "1", "2")
    monkeypatch.setattr(sys, "argv", ["bench_service", *words])
    bench_service.main()
    told = capfd.readouterr().out.splitlines()

    ways = ["call", "copies", "driver", "driver, mapped"]
    assert [line[:14].strip() for line in told if "p99.9" in line] == ways * 2
    assert [line.split(" requests")[0].split()[-1] for line in told if "p99.9" in line] == ["40"] * 4 + ["80"] * 4
