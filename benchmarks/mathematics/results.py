"""The result files of the benchmarks of mathematical functions."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from harness.environment import commit_name

import vyre_cuda as vc


def write(folder: Path, benchmark: str, device: vc.Device, emulator: bool, content: dict[str, Any]) -> Path:
    """Keep a result as FOLDER/DATE-DEVICE-BENCHMARK.json; infinities and NaN are words there."""
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H%M%SZ")
    name = re.sub(r"[^a-z0-9]+", "-", device.properties.name.lower()).strip("-")
    facts = {"date": now, "commit": commit_name(), "device": device.properties.name, "emulator": emulator}
    plain = json.loads(json.dumps({**facts, **content}), parse_constant=str)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{now}-{name}-{benchmark}.json"
    path.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    return path
