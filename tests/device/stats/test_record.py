"""The record of the counters: its rows, what adds to them, resets, threads, states, and its text for Prometheus."""

from __future__ import annotations

import re
import threading
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda._native.core.context import STATS, stats_rows
from vyre_cuda.testing.emulator import Emulator

from .delta import Delta, N

pytestmark = pytest.mark.device
CUDA_ERROR_INVALID_VALUE = 1
CUDA_ERROR_ILLEGAL_ADDRESS = 700


# ---- the table -------------------------------------------------------------------------------------------------------


def test_record_has_every_row_of_the_table_in_order(device: vc.Device) -> None:
    assert [field.name for field in fields(vc.DeviceStats)] == list(STATS) == list(device.context.stats())


def test_document_has_the_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "telemetry.md").read_text()
    table = page.partition("<!-- counters: begin -->")[2].partition("<!-- counters: end -->")[0]
    rows = [f"| `{name}` | {kind} | {meaning} |" for name, (kind, meaning) in stats_rows().items()]

    assert table.strip().splitlines()[2:] == rows


def test_rows_have_a_kind_and_a_meaning() -> None:
    for name, (kind, meaning) in stats_rows().items():
        assert kind in ("total", "level", "most"), name
        assert meaning.endswith("."), name


def test_short_names_are_the_counters_that_they_stand_for(device: vc.Device, warm: vc.Kernel) -> None:
    x = device.zeros(N, vc.f32)
    with device.record() as graph:
        x.fill(1.0)
    graph.replay()
    stats = device.stats()

    assert stats.launches == stats.kernel_launches == 2
    assert stats.replays == stats.cuda_graph_launches == 1


HOSTS = [name for name in STATS if name.startswith(("kernel_cache", "disk_cache", "compile"))]


@pytest.mark.parametrize("name", HOSTS)
def test_host_adds_to_its_rows(name: str, device: vc.Device) -> None:
    delta = Delta(device)
    device.context.count(STATS[name], 5)

    assert delta.all() == {name: 5}


def test_level_can_be_lowered_and_survives_a_reset(device: vc.Device) -> None:
    before = device.stats().kernel_cache_entries
    device.context.count(STATS["kernel_cache_entries"], 5)
    device.reset_stats()
    device.context.count(STATS["kernel_cache_entries"], -2)

    assert device.stats().kernel_cache_entries == before + 3


def test_row_that_is_not_there_is_refused(device: vc.Device) -> None:
    with pytest.raises(ValueError):
        device.context.count(len(STATS), 1)
    with pytest.raises(ValueError):
        device.context.count(STATS["timed_device_ns_max"], 1)


# ---- errors, resets, threads and states ------------------------------------------------------------------------------


@pytest.mark.emulator
def test_driver_calls_that_fail_are_counted(device: vc.Device, emulator: Emulator) -> None:
    array, x = device.empty(N, vc.f32), np.ones(N, np.float32)
    delta = Delta(device)
    emulator.fail("cuMemcpyHtoDAsync", result=CUDA_ERROR_INVALID_VALUE)
    with pytest.raises(vc.DriverError):
        array.copy_from(x)

    assert delta.of("driver_errors") == (1,)


def test_reset_sets_totals_to_zero_and_keeps_caches(device: vc.Device, warm: vc.Kernel) -> None:
    array = device.empty(N, vc.f32)
    before = device.stats()
    device.reset_stats()
    after = asdict(device.stats())

    kinds = {name: kind for name, (kind, _) in stats_rows().items()}
    assert {name: value for name, value in after.items() if value} == {
        name: value for name, value in asdict(before).items() if value and kinds[name] == "level"
    }
    assert device.compile(warm.program) is warm
    assert len(array) == N


@pytest.mark.thin
def test_threads_lose_no_count(device: vc.Device, warm: vc.Kernel) -> None:
    """Threads that begin and end meanwhile, so that shards are inherited, and snapshots at the same time."""
    per_thread, waves, width = 200, 5, 8

    def work() -> None:
        arrays = [device.empty(N, vc.f32) for _ in range(3)]
        call = warm.bind(*arrays, 2.0)
        for _ in range(per_thread):
            call()

    delta = Delta(device)
    for _ in range(waves):
        threads = [threading.Thread(target=work) for _ in range(width)]
        for thread in threads:
            thread.start()
        device.stats()
        for thread in threads:
            thread.join()
    device.synchronize()

    assert delta.of("kernel_launches") == (per_thread * waves * width,)


def test_devices_count_apart(device_name: int | str, warm: vc.Kernel) -> None:
    with vc.Device(device_name) as other:
        other.empty(N, vc.f32)
        delta = Delta(other)
        warm(np.ones(N, np.float32), np.ones(N, np.float32), 2.0)

        assert delta.all() == {}


def test_closed_device_still_tells(device: vc.Device, warm: vc.Kernel) -> None:
    launches = device.stats().kernel_launches
    device.close()

    assert device.stats().kernel_launches == launches > 0
    device.reset_stats()
    assert device.stats().kernel_launches == 0


@pytest.mark.emulator
def test_lost_device_still_tells(device: vc.Device, warm: vc.Kernel, emulator: Emulator) -> None:
    emulator.fail("cuStreamQuery", result=CUDA_ERROR_ILLEGAL_ADDRESS, repeat=True)
    with pytest.raises(vc.DeviceLostError):
        device.synchronize()

    assert device.stats().driver_errors >= 1


# ---- Prometheus ------------------------------------------------------------------------------------------------------


SAMPLE = re.compile(
    r'(?P<name>[a-z_][a-z0-9_]*)(\{(?P<labels>[a-z_]+="(?:[^"\\\n]|\\.)*"(,[a-z_]+="[^"]*")*)\})? (\d+)'
)


def test_prometheus_text_has_every_counter_with_help_and_type(device: vc.Device, warm: vc.Kernel) -> None:
    stats = device.stats()
    lines = stats.prometheus().splitlines()

    assert len(lines) == 3 * len(STATS)
    for (name, value), help_line, type_line, sample in zip(
        asdict(stats).items(), lines[0::3], lines[1::3], lines[2::3], strict=True
    ):
        metric, number = sample.split()
        assert metric.removeprefix("vyre_cuda_").removesuffix("_total") == name.removesuffix("_total")
        assert int(number) == value
        assert help_line.startswith(f"# HELP {metric} ")
        assert type_line == f"# TYPE {metric} {'counter' if metric.endswith('_total') else 'gauge'}"


def test_prometheus_labels_are_escaped(device: vc.Device) -> None:
    text = device.stats().prometheus(device='a"b\\c\nd', job="x")
    samples = [line for line in text.splitlines() if not line.startswith("#")]

    assert all(SAMPLE.fullmatch(line) for line in samples)
    assert all('{device="a\\"b\\\\c\\nd",job="x"}' in line for line in samples)
