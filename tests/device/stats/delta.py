"""What a device has counted since a moment."""

from __future__ import annotations

from dataclasses import asdict

import vyre_cuda as vc

N = 1000


class Delta:
    """What has changed since it was made, without rows that did not."""

    def __init__(self, device: vc.Device) -> None:
        self._device = device
        self._before = asdict(device.stats())

    def all(self) -> dict[str, int]:
        now = asdict(self._device.stats())
        return {name: now[name] - before for name, before in self._before.items() if now[name] != before}

    def of(self, *names: str) -> tuple[int, ...]:
        changed = self.all()
        return tuple(changed.get(name, 0) for name in names)
