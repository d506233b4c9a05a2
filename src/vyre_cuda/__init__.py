"""vyre_cuda: small typed programs, lowered to PTX and dispatched on NVIDIA GPUs.

`import vyre_cuda as vc` loads nothing yet: a name is resolved when it is first used, and the native extension with the
first device. Names that begin with an underscore, and all other modules, are not part of the public interface.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from vyre_cuda import algorithms as algorithms
    from vyre_cuda import distributed as distributed
    from vyre_cuda import egraph as egraph
    from vyre_cuda.bundles.write import bundle as bundle
    from vyre_cuda.codegen.rewrites import Rewrite as Rewrite
    from vyre_cuda.codegen.rewrites import rewrites as rewrites
    from vyre_cuda.codegen.source import ptx as ptx
    from vyre_cuda.errors import BundleError as BundleError
    from vyre_cuda.errors import BundleVersionError as BundleVersionError
    from vyre_cuda.errors import CacheError as CacheError
    from vyre_cuda.errors import CommunicationError as CommunicationError
    from vyre_cuda.errors import CompileError as CompileError
    from vyre_cuda.errors import CompileLocation as CompileLocation
    from vyre_cuda.errors import DataRaceError as DataRaceError
    from vyre_cuda.errors import DeviceLostError as DeviceLostError
    from vyre_cuda.errors import DeviceUnavailableError as DeviceUnavailableError
    from vyre_cuda.errors import Diagnostic as Diagnostic
    from vyre_cuda.errors import DriverError as DriverError
    from vyre_cuda.errors import Error as Error
    from vyre_cuda.errors import InternalError as InternalError
    from vyre_cuda.errors import KernelAssertionError as KernelAssertionError
    from vyre_cuda.errors import KernelTimeoutError as KernelTimeoutError
    from vyre_cuda.errors import Limit as Limit
    from vyre_cuda.errors import ProgramError as ProgramError
    from vyre_cuda.errors import RacingAccess as RacingAccess
    from vyre_cuda.errors import RecordingError as RecordingError
    from vyre_cuda.errors import ResourceError as ResourceError
    from vyre_cuda.errors import UninitializedError as UninitializedError
    from vyre_cuda.errors import UnsupportedError as UnsupportedError
    from vyre_cuda.frontend.checked_types import In as In
    from vyre_cuda.frontend.checked_types import In2 as In2
    from vyre_cuda.frontend.checked_types import In3 as In3
    from vyre_cuda.frontend.checked_types import In4 as In4
    from vyre_cuda.frontend.checked_types import InOut as InOut
    from vyre_cuda.frontend.checked_types import InOut2 as InOut2
    from vyre_cuda.frontend.checked_types import InOut3 as InOut3
    from vyre_cuda.frontend.checked_types import InOut4 as InOut4
    from vyre_cuda.frontend.checked_types import Out as Out
    from vyre_cuda.frontend.checked_types import Out2 as Out2
    from vyre_cuda.frontend.checked_types import Out3 as Out3
    from vyre_cuda.frontend.checked_types import Out4 as Out4
    from vyre_cuda.frontend.checked_types import bf16 as bf16
    from vyre_cuda.frontend.checked_types import bool_ as bool_
    from vyre_cuda.frontend.checked_types import const as const
    from vyre_cuda.frontend.checked_types import f16 as f16
    from vyre_cuda.frontend.checked_types import f32 as f32
    from vyre_cuda.frontend.checked_types import f64 as f64
    from vyre_cuda.frontend.checked_types import i8 as i8
    from vyre_cuda.frontend.checked_types import i16 as i16
    from vyre_cuda.frontend.checked_types import i32 as i32
    from vyre_cuda.frontend.checked_types import i64 as i64
    from vyre_cuda.frontend.checked_types import u8 as u8
    from vyre_cuda.frontend.checked_types import u16 as u16
    from vyre_cuda.frontend.checked_types import u32 as u32
    from vyre_cuda.frontend.checked_types import u64 as u64
    from vyre_cuda.frontend.function import func as func
    from vyre_cuda.frontend.kernel_function import KernelFunction as KernelFunction
    from vyre_cuda.frontend.kernel_function import kernel as kernel
    from vyre_cuda.frontend.vectorize import Vectorized as Vectorized
    from vyre_cuda.frontend.vectorize import vectorize as vectorize
    from vyre_cuda.frontend.vocabulary import all as all  # noqa: A004
    from vyre_cuda.frontend.vocabulary import any as any  # noqa: A004
    from vyre_cuda.frontend.vocabulary import atomic_add as atomic_add
    from vyre_cuda.frontend.vocabulary import atomic_and as atomic_and
    from vyre_cuda.frontend.vocabulary import atomic_compare_exchange as atomic_compare_exchange
    from vyre_cuda.frontend.vocabulary import atomic_exchange as atomic_exchange
    from vyre_cuda.frontend.vocabulary import atomic_load as atomic_load
    from vyre_cuda.frontend.vocabulary import atomic_max as atomic_max
    from vyre_cuda.frontend.vocabulary import atomic_min as atomic_min
    from vyre_cuda.frontend.vocabulary import atomic_or as atomic_or
    from vyre_cuda.frontend.vocabulary import atomic_store as atomic_store
    from vyre_cuda.frontend.vocabulary import atomic_sub as atomic_sub
    from vyre_cuda.frontend.vocabulary import atomic_xor as atomic_xor
    from vyre_cuda.frontend.vocabulary import ballot as ballot
    from vyre_cuda.frontend.vocabulary import barrier as barrier
    from vyre_cuda.frontend.vocabulary import broadcast as broadcast
    from vyre_cuda.frontend.vocabulary import grid_barrier as grid_barrier
    from vyre_cuda.frontend.vocabulary import local as local
    from vyre_cuda.frontend.vocabulary import match as match
    from vyre_cuda.frontend.vocabulary import output as output
    from vyre_cuda.frontend.vocabulary import shared as shared
    from vyre_cuda.frontend.vocabulary import shuffle as shuffle
    from vyre_cuda.frontend.vocabulary import shuffle_down as shuffle_down
    from vyre_cuda.frontend.vocabulary import shuffle_up as shuffle_up
    from vyre_cuda.frontend.vocabulary import shuffle_xor as shuffle_xor
    from vyre_cuda.frontend.vocabulary import unrolled as unrolled
    from vyre_cuda.frontend.vocabulary import warp_reduce as warp_reduce
    from vyre_cuda.frontend.vocabulary import warp_scan as warp_scan
    from vyre_cuda.frontend.vocabulary import work as work
    from vyre_cuda.interp.evaluate import evaluate as evaluate
    from vyre_cuda.ir.builder.builder import Builder as Builder
    from vyre_cuda.ir.builder.functions import absolute as absolute
    from vyre_cuda.ir.builder.functions import add as add
    from vyre_cuda.ir.builder.functions import add_saturate as add_saturate
    from vyre_cuda.ir.builder.functions import bitcast as bitcast
    from vyre_cuda.ir.builder.functions import bitwise_and as bitwise_and
    from vyre_cuda.ir.builder.functions import bitwise_count as bitwise_count
    from vyre_cuda.ir.builder.functions import bitwise_or as bitwise_or
    from vyre_cuda.ir.builder.functions import bitwise_xor as bitwise_xor
    from vyre_cuda.ir.builder.functions import ceil as ceil
    from vyre_cuda.ir.builder.functions import clip as clip
    from vyre_cuda.ir.builder.functions import copysign as copysign
    from vyre_cuda.ir.builder.functions import count_leading_zeros as count_leading_zeros
    from vyre_cuda.ir.builder.functions import count_trailing_zeros as count_trailing_zeros
    from vyre_cuda.ir.builder.functions import divide as divide
    from vyre_cuda.ir.builder.functions import equal as equal
    from vyre_cuda.ir.builder.functions import floor as floor
    from vyre_cuda.ir.builder.functions import floor_divide as floor_divide
    from vyre_cuda.ir.builder.functions import fma as fma
    from vyre_cuda.ir.builder.functions import fmax as fmax
    from vyre_cuda.ir.builder.functions import fmin as fmin
    from vyre_cuda.ir.builder.functions import fmod as fmod
    from vyre_cuda.ir.builder.functions import greater as greater
    from vyre_cuda.ir.builder.functions import greater_equal as greater_equal
    from vyre_cuda.ir.builder.functions import integer_power as integer_power
    from vyre_cuda.ir.builder.functions import invert as invert
    from vyre_cuda.ir.builder.functions import isfinite as isfinite
    from vyre_cuda.ir.builder.functions import isinf as isinf
    from vyre_cuda.ir.builder.functions import isnan as isnan
    from vyre_cuda.ir.builder.functions import left_shift as left_shift
    from vyre_cuda.ir.builder.functions import less as less
    from vyre_cuda.ir.builder.functions import less_equal as less_equal
    from vyre_cuda.ir.builder.functions import logical_and as logical_and
    from vyre_cuda.ir.builder.functions import logical_not as logical_not
    from vyre_cuda.ir.builder.functions import logical_or as logical_or
    from vyre_cuda.ir.builder.functions import logical_xor as logical_xor
    from vyre_cuda.ir.builder.functions import maximum as maximum
    from vyre_cuda.ir.builder.functions import minimum as minimum
    from vyre_cuda.ir.builder.functions import multiply as multiply
    from vyre_cuda.ir.builder.functions import multiply_high as multiply_high
    from vyre_cuda.ir.builder.functions import negative as negative
    from vyre_cuda.ir.builder.functions import nextafter as nextafter
    from vyre_cuda.ir.builder.functions import not_equal as not_equal
    from vyre_cuda.ir.builder.functions import reciprocal as reciprocal
    from vyre_cuda.ir.builder.functions import remainder as remainder
    from vyre_cuda.ir.builder.functions import reverse_bits as reverse_bits
    from vyre_cuda.ir.builder.functions import right_shift as right_shift
    from vyre_cuda.ir.builder.functions import rint as rint
    from vyre_cuda.ir.builder.functions import rotate_left as rotate_left
    from vyre_cuda.ir.builder.functions import rotate_right as rotate_right
    from vyre_cuda.ir.builder.functions import sign as sign
    from vyre_cuda.ir.builder.functions import signbit as signbit
    from vyre_cuda.ir.builder.functions import sqrt as sqrt
    from vyre_cuda.ir.builder.functions import square as square
    from vyre_cuda.ir.builder.functions import subtract as subtract
    from vyre_cuda.ir.builder.functions import subtract_saturate as subtract_saturate
    from vyre_cuda.ir.builder.functions import trunc as trunc
    from vyre_cuda.ir.builder.functions import trunc_divide as trunc_divide
    from vyre_cuda.ir.builder.functions import where as where
    from vyre_cuda.ir.builder.handles import Buffer as Buffer
    from vyre_cuda.ir.builder.handles import Variable as Variable
    from vyre_cuda.ir.builder.ids import block_dim as block_dim
    from vyre_cuda.ir.builder.ids import block_id as block_id
    from vyre_cuda.ir.builder.ids import global_id as global_id
    from vyre_cuda.ir.builder.ids import grid_dim as grid_dim
    from vyre_cuda.ir.builder.ids import lane_id as lane_id
    from vyre_cuda.ir.builder.ids import thread_id as thread_id
    from vyre_cuda.ir.builder.mathematics import arccos as arccos
    from vyre_cuda.ir.builder.mathematics import arccosh as arccosh
    from vyre_cuda.ir.builder.mathematics import arcsin as arcsin
    from vyre_cuda.ir.builder.mathematics import arcsinh as arcsinh
    from vyre_cuda.ir.builder.mathematics import arctan as arctan
    from vyre_cuda.ir.builder.mathematics import arctan2 as arctan2
    from vyre_cuda.ir.builder.mathematics import arctanh as arctanh
    from vyre_cuda.ir.builder.mathematics import cbrt as cbrt
    from vyre_cuda.ir.builder.mathematics import cos as cos
    from vyre_cuda.ir.builder.mathematics import cosh as cosh
    from vyre_cuda.ir.builder.mathematics import erf as erf
    from vyre_cuda.ir.builder.mathematics import exp as exp
    from vyre_cuda.ir.builder.mathematics import exp2 as exp2
    from vyre_cuda.ir.builder.mathematics import expm1 as expm1
    from vyre_cuda.ir.builder.mathematics import hypot as hypot
    from vyre_cuda.ir.builder.mathematics import log as log
    from vyre_cuda.ir.builder.mathematics import log1p as log1p
    from vyre_cuda.ir.builder.mathematics import log2 as log2
    from vyre_cuda.ir.builder.mathematics import log10 as log10
    from vyre_cuda.ir.builder.mathematics import power as power
    from vyre_cuda.ir.builder.mathematics import rsqrt as rsqrt
    from vyre_cuda.ir.builder.mathematics import sigmoid as sigmoid
    from vyre_cuda.ir.builder.mathematics import sin as sin
    from vyre_cuda.ir.builder.mathematics import sinh as sinh
    from vyre_cuda.ir.builder.mathematics import tan as tan
    from vyre_cuda.ir.builder.mathematics import tanh as tanh
    from vyre_cuda.ir.builder.random_numbers import normal as normal
    from vyre_cuda.ir.builder.random_numbers import philox as philox
    from vyre_cuda.ir.builder.random_numbers import uniform as uniform
    from vyre_cuda.ir.builder.sums import dot as dot
    from vyre_cuda.ir.builder.values import Value as Value
    from vyre_cuda.ir.core.program import Program as Program
    from vyre_cuda.ir.core.types import Type as Type
    from vyre_cuda.ir.read.parse import parse as parse
    from vyre_cuda.locations import get_include as get_include
    from vyre_cuda.locations import get_library_dir as get_library_dir
    from vyre_cuda.runtime.base.jit_cache import JitCache as JitCache
    from vyre_cuda.runtime.base.jit_cache import configure_jit_cache as configure_jit_cache
    from vyre_cuda.runtime.base.properties import DeviceInfo as DeviceInfo
    from vyre_cuda.runtime.base.properties import DeviceProperties as DeviceProperties
    from vyre_cuda.runtime.base.properties import KernelAttributes as KernelAttributes
    from vyre_cuda.runtime.base.properties import MemoryStats as MemoryStats
    from vyre_cuda.runtime.base.properties import PeerInfo as PeerInfo
    from vyre_cuda.runtime.base.symbol import Symbol as Symbol
    from vyre_cuda.runtime.base.symbol import symbol as symbol
    from vyre_cuda.runtime.bundle.bundle import Bundle as Bundle
    from vyre_cuda.runtime.bundle.bundle import BundledKernel as BundledKernel
    from vyre_cuda.runtime.bundle.bundle import load_bundle as load_bundle
    from vyre_cuda.runtime.bundle.bundled_graph import BundledGraph as BundledGraph
    from vyre_cuda.runtime.bundle.bundled_graph import BundledSymbol as BundledSymbol
    from vyre_cuda.runtime.bundle.loaded_bundle import LoadedBundle as LoadedBundle
    from vyre_cuda.runtime.device.default_device import default_device as default_device
    from vyre_cuda.runtime.device.device import Device as Device
    from vyre_cuda.runtime.device.device import Event as Event
    from vyre_cuda.runtime.device.device import Stream as Stream
    from vyre_cuda.runtime.device.device import devices as devices
    from vyre_cuda.runtime.device.device import from_dlpack as from_dlpack
    from vyre_cuda.runtime.device.support import Support as Support
    from vyre_cuda.runtime.graph.graph import Graph as Graph
    from vyre_cuda.runtime.kernel.bound import BoundCall as BoundCall
    from vyre_cuda.runtime.kernel.kernel import CompileTimes as CompileTimes
    from vyre_cuda.runtime.kernel.kernel import Kernel as Kernel
    from vyre_cuda.runtime.kernel.loaded_kernel import BoundForeignCall as BoundForeignCall
    from vyre_cuda.runtime.kernel.loaded_kernel import ForeignKernel as ForeignKernel
    from vyre_cuda.runtime.kernel.loaded_kernel import ForeignParameter as ForeignParameter
    from vyre_cuda.runtime.kernel.occupancy import Occupancy as Occupancy
    from vyre_cuda.runtime.kernel.recorded_call import RecordedCall as RecordedCall
    from vyre_cuda.runtime.kernel.runs import Timed as Timed
    from vyre_cuda.runtime.kernel.side_by_side import SideBySide as SideBySide
    from vyre_cuda.runtime.memory.array import DeviceArray as DeviceArray
    from vyre_cuda.runtime.telemetry.stats import DeviceStats as DeviceStats
    from vyre_cuda.runtime.waiting.pending import Pending as Pending
    from vyre_cuda.runtime.waiting.pending import PendingReplay as PendingReplay
    from vyre_cuda.runtime.worker.worker import Worker as Worker
    from vyre_cuda.runtime.worker.worker import WorkerStats as WorkerStats

# Public names by the module that defines them.
_HOMES = {
    "vyre_cuda.bundles.write": "bundle",
    "vyre_cuda.errors": (
        "BundleError BundleVersionError CacheError CommunicationError CompileError CompileLocation DataRaceError "
        "Diagnostic "
        "DeviceLostError DeviceUnavailableError DriverError Error InternalError KernelAssertionError "
        "KernelTimeoutError Limit ProgramError RacingAccess RecordingError ResourceError "
        "UninitializedError UnsupportedError"
    ),
    "vyre_cuda.frontend.annotations": "In In2 In3 In4 InOut InOut2 InOut3 InOut4 Out Out2 Out3 Out4 const",
    "vyre_cuda.frontend.function": "func",
    "vyre_cuda.frontend.kernel_function": "KernelFunction kernel",
    "vyre_cuda.frontend.vectorize": "Vectorized vectorize",
    "vyre_cuda.frontend.vocabulary": (
        "all any atomic_add atomic_and atomic_compare_exchange atomic_exchange atomic_load atomic_max atomic_min "
        "atomic_or atomic_store atomic_sub atomic_xor ballot barrier broadcast grid_barrier local match output shared "
        "shuffle shuffle_down shuffle_up shuffle_xor unrolled warp_reduce warp_scan work"
    ),
    "vyre_cuda.interp.evaluate": "evaluate",
    "vyre_cuda.ir.builder.builder": "Builder",
    "vyre_cuda.ir.builder.functions": (
        "absolute add add_saturate bitcast bitwise_and bitwise_count bitwise_or bitwise_xor ceil clip copysign "
        "count_leading_zeros count_trailing_zeros divide equal floor floor_divide fma fmax fmin fmod greater "
        "greater_equal integer_power invert isfinite isinf isnan left_shift less less_equal logical_and logical_not "
        "logical_or logical_xor maximum minimum multiply multiply_high negative nextafter not_equal reciprocal "
        "remainder reverse_bits right_shift rint rotate_left rotate_right sign signbit sqrt square subtract "
        "subtract_saturate trunc trunc_divide where"
    ),
    "vyre_cuda.ir.builder.handles": "Buffer Variable",
    "vyre_cuda.ir.builder.ids": "block_dim block_id global_id grid_dim lane_id thread_id",
    "vyre_cuda.ir.builder.mathematics": (
        "arccos arccosh arcsin arcsinh arctan arctan2 arctanh cbrt cos cosh erf exp exp2 expm1 hypot log log10 log1p "
        "log2 power rsqrt sigmoid sin sinh tan tanh"
    ),
    "vyre_cuda.ir.builder.random_numbers": "normal philox uniform",
    "vyre_cuda.ir.builder.sums": "dot",
    "vyre_cuda.ir.read.parse": "parse",
    "vyre_cuda.ir.core.program": "Program",
    "vyre_cuda.ir.core.types": "Type bf16 bool_ f16 f32 f64 i16 i32 i64 i8 u16 u32 u64 u8",
    "vyre_cuda.ir.builder.values": "Value",
    "vyre_cuda.codegen.rewrites": "Rewrite rewrites",
    "vyre_cuda.codegen.source": "ptx",
    "vyre_cuda.runtime.memory.array": "DeviceArray",
    "vyre_cuda.locations": "get_include get_library_dir",
    "vyre_cuda.runtime.bundle.bundle": "Bundle BundledKernel load_bundle",
    "vyre_cuda.runtime.bundle.loaded_bundle": "LoadedBundle",
    "vyre_cuda.runtime.bundle.bundled_graph": "BundledGraph BundledSymbol",
    "vyre_cuda.runtime.device.default_device": "default_device",
    "vyre_cuda.runtime.device.device": "Device Event Stream devices from_dlpack",
    "vyre_cuda.runtime.kernel.loaded_kernel": "BoundForeignCall ForeignKernel ForeignParameter",
    "vyre_cuda.runtime.kernel.bound": "BoundCall",
    "vyre_cuda.runtime.base.jit_cache": "JitCache configure_jit_cache",
    "vyre_cuda.runtime.kernel.kernel": "CompileTimes Kernel",
    "vyre_cuda.runtime.kernel.runs": "Timed",
    "vyre_cuda.runtime.graph.graph": "Graph",
    "vyre_cuda.runtime.kernel.occupancy": "Occupancy",
    "vyre_cuda.runtime.waiting.pending": "Pending PendingReplay",
    "vyre_cuda.runtime.base.properties": "DeviceInfo DeviceProperties KernelAttributes MemoryStats PeerInfo",
    "vyre_cuda.runtime.kernel.recorded_call": "RecordedCall",
    "vyre_cuda.runtime.worker.worker": "Worker WorkerStats",
    "vyre_cuda.runtime.kernel.side_by_side": "SideBySide",
    "vyre_cuda.runtime.telemetry.stats": "DeviceStats",
    "vyre_cuda.runtime.device.support": "Support",
    "vyre_cuda.runtime.base.symbol": "Symbol symbol",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
# Modules with public names of their own.
_ROOMS = ("algorithms", "distributed", "egraph")

__all__ = ["__version__", *sorted((*_HOME_OF, *_ROOMS))]


class _NoSuchName(AttributeError):
    """Says what to write instead when it is shown: Python asks for each module of the package, too, before it imports
    that."""

    __module__, __qualname__ = "builtins", "AttributeError"

    def __init__(self, name: str) -> None:
        super().__init__(f"module {__name__!r} has no attribute {name!r}")
        self.name = name

    def __str__(self) -> str:
        instead: str = import_module("vyre_cuda.frontend.other_names").instead(self.name)
        return f"{self.args[0]}{instead}"


if not TYPE_CHECKING:  # otherwise every name would be an attribute

    def __getattr__(name: str) -> Any:
        if name in _HOME_OF:
            value = getattr(import_module(_HOME_OF[name]), name)
        elif name in _ROOMS:
            value = import_module(f"{__name__}.{name}")
        else:
            raise _NoSuchName(name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return list(__all__)
