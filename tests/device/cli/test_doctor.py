"""`vyre-cuda doctor` and `bench`, and the floors of the machine that they show."""

from __future__ import annotations

import gc
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import vyre_cuda as vc
from vyre_cuda.cli import findings, main
from vyre_cuda.runtime.device.driver_latency import FLOORS, measure_floor
from vyre_cuda.testing.emulator import STREAM_MODES, Emulator, StreamMode

pytestmark = pytest.mark.device

CUDA_ERROR_UNKNOWN = 999
CUDA_ERROR_ILLEGAL_ADDRESS = 700
PARTS = 16  # of the driver's functions
RELEASES = ("Destroy", "Free", "Release", "Unload", "Unregister")
WAYS = ("call", "call_changed", "launch", "call_sync", "host_dispatch", "synchronize", "event", "upload", "download")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of the test's own."""
    path = tmp_path / "cache"
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", str(path))
    return path


def told(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


# ---- floors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FLOORS)
def test_floor_gives_as_many_times_as_are_asked_for(name: str, device: vc.Device) -> None:
    times = measure_floor(device, name, count=70, nbytes=4096)

    assert len(times) == 70
    assert all(0 <= time < 10**10 for time in times)
    assert measure_floor(device, name, count=0, nbytes=0) == []


@pytest.mark.emulator
@pytest.mark.parametrize("mode", STREAM_MODES)
@pytest.mark.parametrize("name", ["mapped", "round_trip", "event"])
def test_floor_is_measured_in_every_stream_mode(
    name: str, mode: StreamMode, emulator: Emulator, own_device: vc.Device
) -> None:
    emulator.stream_mode(mode)

    assert len(measure_floor(own_device, name, count=3, nbytes=64)) == 3


def test_unknown_floor_is_refused(device: vc.Device) -> None:
    with pytest.raises(KeyError):
        measure_floor(device, "ceiling", count=1)
    with pytest.raises(ValueError):
        device.context.measure(11, 1, 0)


@pytest.mark.thin(PARTS)
@pytest.mark.emulator
@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_floor_that_fails_anywhere_leaves_nothing_behind(part: int, emulator: Emulator, leak_check: Any) -> None:
    for name in emulator.functions()[part::PARTS]:
        if "Error" in name or any(word in name for word in RELEASES):  # what was not given back is still there
            continue
        for nth in (1, 2):
            with vc.Device("emulator") as device:
                emulator.fail(name, nth=nth, result=CUDA_ERROR_UNKNOWN)
                for floor in ("mapped", "upload", "event"):
                    with suppress(vc.DriverError):
                        measure_floor(device, floor, count=2, nbytes=100)
                emulator.reset()
                assert len(measure_floor(device, "mapped", count=2)) == 2
            gc.collect()
            assert leak_check.new() == {}, (name, nth)


# ---- doctor ----------------------------------------------------------------------------------------------------------


def test_doctor_finds_a_healthy_device(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    document = told(capsys, 0, "doctor", *on)

    subjects = {each["subject"] for each in document["findings"]}
    assert document["healthy"] is True
    assert {"python", "variables", "cuda", "cache", "driver's cache", "device", "trial"} <= subjects
    assert set(FLOORS) <= set(document["floors_ns"])
    assert set(WAYS) <= set(document["rows"])
    for times in (*document["floors_ns"].values(), *(row["ours_ns"] for row in document["rows"].values())):
        assert 0 <= times["median"] <= times["p90"] <= times["p99"] <= times["max"]
        assert times["jitter"] >= 0
    for row in document["rows"].values():
        if row["floor_ns"] is not None:
            assert row["above_ns"] == pytest.approx(row["ours_ns"]["median"] - row["floor_ns"]["median"])


def test_doctor_is_for_people(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *on]) == 0

    out, err = capsys.readouterr()
    assert "no problems that affect calls" in out
    assert "bound call, enqueue" in out
    assert "FAIL" not in out
    assert "device:" in err


def test_doctor_without_figures_measures_nothing(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    document = told(capsys, 0, "doctor", "--no-figures", *on)

    assert document["floors_ns"] == document["rows"] == {}
    assert any(each["subject"] == "trial" for each in document["findings"])


@pytest.mark.emulator
def test_doctor_of_one_of_several_emulated_devices_needs_no_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VYRE_CUDA_DRIVER", "libcuda_that_is_not_there.so.1")

    told(capsys, 0, "doctor", "--no-figures", "--device", "emulator:0")


def test_doctor_fails_where_the_wanted_device_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    document = told(capsys, 1, "doctor", "--device", "999")

    assert document["healthy"] is False
    assert any(each["subject"] == "device" for each in document["findings"] if each["status"] == "failure")
    assert main(["doctor", "--device", "999"]) == 1
    assert "see FAIL above" in capsys.readouterr().out


@pytest.mark.emulator
def test_doctor_fails_where_a_gpu_is_required(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VYRE_CUDA_DRIVER", "/nowhere/libcuda.so.1")
    monkeypatch.setenv("VYRE_CUDA_REQUIRE_GPU", "1")
    document = told(capsys, 1, "doctor", "--no-figures", "--device", "cuda")

    failed = {each["subject"]: each for each in document["findings"] if each["status"] == "failure"}
    assert {"driver", "cuda"} <= set(failed)
    assert failed["driver"]["advice"]


@pytest.mark.emulator
def test_doctor_fails_where_a_call_does(emulator: Emulator, capsys: pytest.CaptureFixture[str]) -> None:
    emulator.fail("cuGraphLaunch", result=CUDA_ERROR_UNKNOWN, repeat=True)
    emulator.fail("cuLaunchKernel", result=CUDA_ERROR_UNKNOWN, repeat=True)
    document = told(capsys, 1, "doctor", "--device", "emulator")

    assert "CUDA_ERROR_UNKNOWN" in document["findings"][-1]["text"]


@pytest.mark.thin
@pytest.mark.emulator
@pytest.mark.slow
def test_doctor_shows_progress_on_stderr_when_it_takes_long(
    emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    emulator.set("delay_us", 1000)
    assert main(["doctor", "--device", "emulator", "--json"]) == 0

    assert re.search(r"^\[ *\d+\.\d s\] ", capsys.readouterr().err, re.MULTILINE)


# ---- findings --------------------------------------------------------------------------------------------------------


def found(subject: str, items: Any) -> list[findings.Finding]:
    return [each for each in items if each.subject == subject]


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("CUDA_LAUNCH_BLOCKING", "1", "warning"),
        ("CUDA_VISIBLE_DEVICES", "", "warning"),
        ("CUDA_LAUNCH_BLOCKING", "0", ""),
        ("VYRE_CUDA_FUSE", "0", "warning"),
        ("VYRE_CUDA_FUSE", "Off", ""),
    ],
)
def test_variables_that_cost_something_are_told(
    name: str, value: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ("CUDA_LAUNCH_BLOCKING", "CUDA_VISIBLE_DEVICES", "VYRE_CUDA_FUSE"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    told_of = [each for each in found("variables", findings.environment()) if each.status != "ok"]

    assert [each.status for each in told_of] == ([status] if status else [])
    assert all(name in each.text and each.advice for each in told_of)


def test_a_cache_that_is_off_or_has_no_place_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CUDA_CACHE_DIR", "off")
    assert next(findings.caches()).status == "note"
    monkeypatch.delenv("VYRE_CUDA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/path")
    monkeypatch.delenv("HOME", raising=False)
    found = next(findings.caches())
    assert (found.subject, found.status) == ("cache", "warning")


def test_cache_that_others_may_read_is_told(cache: Path) -> None:
    cache.mkdir(mode=0o755)
    cache.chmod(0o755)
    (finding,) = found("cache", findings.caches())

    assert finding.status == "warning"
    assert finding.advice == f"chmod 700 {cache}"
    cache.chmod(0o700)
    (finding,) = found("cache", findings.caches())
    assert finding.status == "ok"


def test_cache_that_cannot_be_made_is_told(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write_text("a file in its place")
    (finding,) = found("cache", findings.caches())

    assert finding.status == "warning"
    assert str(cache) in finding.text


def test_cache_of_another_user_is_reported(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: cache.stat().st_uid + 1)
    (finding,) = found("cache", findings.caches())

    assert (finding.status, "another user" in finding.text) == ("warning", True)


def test_driver_that_keeps_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_CACHE_DISABLE", "1")
    (finding,) = found("driver's cache", findings.caches())

    assert finding.status == "note"


def test_missing_gpu_is_a_note_unless_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CUDA_DRIVER", "/nowhere/libcuda.so.1")
    monkeypatch.delenv("VYRE_CUDA_REQUIRE_GPU", raising=False)

    assert found("cuda", findings.driver(wanted="auto"))[0].status == "note"
    assert found("cuda", findings.driver(wanted="cuda"))[0].status == "failure"
    assert found("driver", findings.driver(wanted="auto"))[0].status == "failure"


# ---- bench -----------------------------------------------------------------------------------------------------------


@pytest.mark.thin
@pytest.mark.slow
def test_bench_measures_every_way(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    document = told(capsys, 0, "bench", *on)

    assert {*WAYS, "host_dispatch_new", "host_dispatch_pinned", "graph_100", "upload_large"} <= set(document["rows"])
    assert document["rows"]["upload_large"]["gib_per_s"] > 0
    assert document["rows"]["alloc_free"]["floor_ns"] is None


@pytest.mark.thin
@pytest.mark.slow
def test_bench_is_for_people(on: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *on]) == 0

    out = capsys.readouterr().out
    assert "driver calls alone" in out
    assert "GiB/s" in out


# ---- who else uses the GPU -------------------------------------------------------------------------------------------


def sharing_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: vc.Device, answers: dict[str, str], *, fails: bool = False
) -> list[tuple[str, str]]:
    """What is said of a GPU whose tool gives these answers."""
    from dataclasses import replace

    from vyre_cuda.cli import sharing

    tool = tmp_path / "nvidia-smi"
    lines = [f"  {query}) printf '{text}' ;;" for query, text in answers.items()]
    tool.write_text(
        "\n".join(["#!/bin/sh", 'case "$1" in', *lines, "esac", f"exit {int(fails)}", ""]), encoding="utf-8"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "pipes"))
    properties = replace(device.properties, is_emulator=False)
    return [(each.status, each.text) for each in sharing.workers(properties)]


def test_a_gpu_that_nobody_else_uses_suits_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: vc.Device
) -> None:
    answers = {"--query-gpu=display_active": "Disabled\\n", "--query-compute-apps=pid": f"{os.getpid()}\\n"}
    ((status, _),) = sharing_findings(tmp_path, monkeypatch, device, answers)
    assert status == "ok"


def test_a_screen_and_other_processes_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: vc.Device
) -> None:
    answers = {"--query-gpu=display_active": "Enabled\\n", "--query-compute-apps=pid": "11\\n12\\n"}
    (screen, others) = sharing_findings(tmp_path, monkeypatch, device, answers)
    assert screen[0] == others[0] == "warning"
    assert "screen" in screen[1]
    assert "2 other processes" in others[1]
    (tmp_path / "pipes").mkdir()
    (tmp_path / "pipes" / "control").touch()
    assert [status for status, _ in sharing_findings(tmp_path, monkeypatch, device, answers)] == ["warning"]


def test_a_tool_that_fails_leaves_it_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: vc.Device) -> None:
    ((status, text),) = sharing_findings(tmp_path, monkeypatch, device, {}, fails=True)
    assert status == "note"
    assert "cannot say" in text
