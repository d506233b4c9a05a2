"""The kernels that are measured, and what the C programs need to run the very same ones."""

from __future__ import annotations

from pathlib import Path

import vyre_cuda as vc
from harness.inputs import BLOCK
from vyre_cuda.codegen.core.lowered import Lowered
from vyre_cuda.codegen.core.target import target_for
from vyre_cuda.codegen.lower import lower
from vyre_cuda.descriptors.signature import signature
from vyre_cuda.passes.pipeline import optimize


def saxpy() -> vc.Program:
    """out = a * x + y."""
    b = vc.Builder("saxpy", block=BLOCK)
    x = b.input("x", vc.f32)
    y = b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i] + y[i]
    return b.build()


@vc.kernel(block=BLOCK)
def saxpy_function(x: vc.In[vc.f32], y: vc.In[vc.f32], a: vc.f32):
    """out = a * x + y, as a kernel function."""
    out = vc.output(vc.f32, x.size)
    i = vc.global_id.x
    if i < out.size:
        out[i] = a * x[i] + y[i]


def select() -> vc.Program:
    """out = a * x + y where x > 0; the other elements are cleared by the launch."""
    b = vc.Builder("select", block=BLOCK)
    x = b.input("x", vc.f32)
    y = b.input("y", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size), b.if_(x[i] > 0.0):
        out[i] = a * x[i] + y[i]
    return b.build()


def scale() -> vc.Program:
    """out = a * x."""
    b = vc.Builder("scale", block=BLOCK)
    x = b.input("x", vc.f32)
    out = b.output("out", vc.f32, size=x.size)
    a = b.scalar("a", vc.f32)
    i = b.let("i", vc.global_id.x)
    with b.if_(i < out.size):
        out[i] = a * x[i]
    return b.build()


PROGRAMS = {"saxpy": saxpy, "select": select, "scale": scale}


def lowered_for(device: vc.Device, program: vc.Program) -> Lowered:
    """What `device.compile` loads, with the parameter layout."""
    properties = device.properties
    target = target_for(properties.compute_capability, properties.driver_version)
    optimized = optimize(program)
    return lower(optimized, target, precision="ieee", bounds="check")


def write_bundle(path: Path, device: vc.Device) -> None:
    """saxpy for the device, as the PTX that the twins get."""
    properties = device.properties
    target = target_for(properties.compute_capability, properties.driver_version)
    vc.bundle(saxpy(), path, targets=[str(target)], cubins=False)


def write_kernel(folder: Path, name: str, program: vc.Program, lowered: Lowered) -> None:
    """NAME.ptx, NAME.layout for raw_driver and NAME.prepared for layer_driver."""
    (folder / f"{name}.ptx").write_text(lowered.ptx, encoding="ascii")
    (folder / f"{name}.layout").write_text(f"{lowered.entry} {program.block[0]} {_layout(lowered)}\n", encoding="ascii")
    tables = signature(program, lowered)
    parameters = ",".join(":".join(map(str, row)) for row in tables.parameters)
    bindings = ",".join("/".join(map(str, row)) for row in tables.bindings)
    prepared = f"{lowered.entry} {program.block[0]} {lowered.parameter_bytes} {parameters} {bindings}\n"
    (folder / f"{name}.prepared").write_text(prepared, encoding="ascii")


def _layout(lowered: Lowered) -> str:
    """Each parameter's kind, number among the buffers or scalars, offset, bytes."""
    buffers = [p.name for p in lowered.parameters if p.kind == "buffer"]
    scalars = [p.name for p in lowered.parameters if p.kind == "scalar"]
    words = []
    for parameter in lowered.parameters:
        group = scalars if parameter.kind == "scalar" else buffers
        words.append(f"{parameter.kind}:{group.index(parameter.name)}:{parameter.offset}:{parameter.size}")
    return ",".join(words)
