"""`f.python(...)`: a kernel function runs as Python on the arguments of a call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from vyre_cuda.frontend.building.namespace import namespace_of
from vyre_cuda.frontend.building.program import Definition, types_by_name
from vyre_cuda.frontend.current import Running
from vyre_cuda.frontend.python.builder import RunningBuilder
from vyre_cuda.frontend.python.launch import Launch
from vyre_cuda.frontend.python.rewrite import python_function
from vyre_cuda.frontend.specialization import Open
from vyre_cuda.ir.call.call import bind
from vyre_cuda.ir.core.program import Program


def untraced(build: Callable[[], Program]) -> Program:
    """The program, built out of a debugger's sight: the code that builds it has the lines of the function too."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        return build()
    finally:
        sys.settrace(trace)


def run(
    definition: Definition, program: Program, given: Open, arguments: Mapping[str, Any], options: Mapping[str, Any]
) -> Any:
    """The results of a call; `options` are `out` and `grid`. Raises what the call and the function raise."""
    builder = RunningBuilder(program)
    filename = definition.source.filename
    types = types_by_name(definition, given.types)
    names = namespace_of(builder, definition.function, definition.rewritten, filename, types)
    code = python_function(definition.source.tree(definition.function.__name__), filename, names)
    taken = [each.name for each in definition.parameters]
    consts = given.constants
    call = bind(program, (), {name: value for name, value in arguments.items() if name not in consts}, **options)

    def body() -> None:
        with Running(builder):
            code(**{name: consts[name] if name in consts else builder.parameter(name) for name in taken})

    return Launch(call, builder.scope, body).run()
