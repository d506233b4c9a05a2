"""Counters of a device as a record, and as the text that Prometheus reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from vyre_cuda._native.core.context import stats_rows

_PREFIX = "vyre_cuda_"


@dataclass(frozen=True, slots=True)
class DeviceStats:
    """What a device has done since it was opened or `reset_stats` was called, and the memory that it holds now.

    Operations, bytes and nanoseconds as integers; docs/telemetry.md says what each counts. `launches` and `replays`
    are short for `kernel_launches` and `cuda_graph_launches`.
    """

    kernel_launches: int
    plain_kernel_launches: int
    cuda_graph_launches: int
    cuda_graph_instantiations: int
    host_dispatches: int
    host_upload_operations: int
    host_to_device_bytes: int
    device_readback_operations: int
    device_to_host_bytes: int
    device_copy_operations: int
    device_to_device_bytes: int
    fill_operations: int
    fill_bytes: int
    mapped_read_bytes: int
    mapped_write_bytes: int
    staged_in_bytes: int
    staged_out_bytes: int
    readback_bytes: int
    resident_allocation_bytes_requested: int
    transient_allocation_bytes_requested: int
    sync_points: int
    timed_dispatches: int
    timed_wall_ns_total: int
    timed_device_ns_total: int
    timed_device_ns_max: int
    timed_enqueue_ns_total: int
    timed_wait_ns_total: int
    driver_errors: int
    module_loads: int
    module_load_ns_total: int
    module_links: int
    compiles: int
    compile_ns_total: int
    kernel_cache_hits: int
    kernel_cache_misses: int
    kernel_cache_evictions: int
    kernel_cache_entries: int
    kernel_cache_bytes: int
    disk_cache_hits: int
    disk_cache_misses: int
    disk_cache_evictions: int
    disk_cache_read_bytes: int
    disk_cache_written_bytes: int
    disk_cache_errors: int
    device_pool_hits: int
    device_pool_misses: int
    pinned_pool_hits: int
    pinned_pool_misses: int
    live_bytes: int
    idle_bytes: int
    pinned_live_bytes: int
    pinned_idle_bytes: int
    live_streams: int
    adopted_streams: int
    idle_events: int
    event_creations: int
    worker_calls: int
    worker_launches: int
    worker_turns: int
    worker_idle_ends: int
    worker_pauses: int
    worker_errors: int
    worker_spread_calls: int

    @property
    def launches(self) -> int:
        """Kernels launched on a stream, without those of recorded graphs."""
        return self.kernel_launches

    @property
    def replays(self) -> int:
        """Replays of recorded graphs."""
        return self.cuda_graph_launches

    def prometheus(self, **labels: str) -> str:
        """Every counter in the text format of Prometheus, version 0.0.4.

        Parameters
        ----------
        **labels
            Labels of each, by name.

        Returns
        -------
        str
            The text.
        """
        values = asdict(self)
        marks = ",".join(f'{name}="{_escaped(str(text))}"' for name, text in labels.items())
        marks = f"{{{marks}}}" if marks else ""
        lines = []
        for name, (kind, meaning) in stats_rows().items():
            metric, of_type = _metric(name, kind)
            lines += [f"# HELP {metric} {meaning}", f"# TYPE {metric} {of_type}", f"{metric}{marks} {values[name]}"]
        return "\n".join(lines) + "\n"


def _metric(name: str, kind: str) -> tuple[str, str]:
    """The name and type of a metric: names of those that only grow end in _total."""
    if kind != "total":
        return _PREFIX + name, "gauge"
    return _PREFIX + (name if name.endswith("_total") else f"{name}_total"), "counter"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
