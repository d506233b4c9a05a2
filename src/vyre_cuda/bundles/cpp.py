"""A C++ header with a class for each kernel and each graph of a bundle, on top of vyre_cuda.hpp."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from vyre_cuda.ir.core.nodes import Parameter
from vyre_cuda.ir.core.types import Type

_TYPES: Final = {
    "bool_": "bool",
    "u8": "std::uint8_t",
    "i8": "std::int8_t",
    "u16": "std::uint16_t",
    "i16": "std::int16_t",
    "u32": "std::uint32_t",
    "i32": "std::int32_t",
    "u64": "std::uint64_t",
    "i64": "std::int64_t",
    "f16": "vyre::half",
    "bf16": "vyre::bfloat16",
    "f32": "float",
    "f64": "double",
}
_ROLES: Final = {"in": "In", "inout": "InOut", "out": "Out"}
# What a namespace or a member function may not be called.
_KEYWORDS: Final = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype
default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int
long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template
this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t
while xor xor_eq
"""
# What a graph's class has from its base.
_MEMBERS: Final = "launch try_launch try_load try_open locate get tag put put_bits rows"


class Symbol(Protocol):
    """A symbol of a graph of a bundle."""

    @property
    def name(self) -> str: ...
    @property
    def is_array(self) -> bool: ...
    @property
    def type(self) -> Type: ...
    @property
    def written(self) -> bool: ...


class KernelFacts(NamedTuple):
    """A kernel of a bundle."""

    name: str
    parameters: Sequence[Parameter]


class GraphFacts(NamedTuple):
    """A graph of a bundle, with its symbols in the order of their names."""

    name: str
    symbols: Sequence[Symbol]


def header(stem: str, kernels: Iterable[KernelFacts], graphs: Iterable[GraphFacts]) -> str:
    """The header for a bundle that is called `stem`, with everything in a namespace of that name.

    ValueError: two kernels or graphs would have the same name in C++.
    """
    classes: dict[str, str] = {}
    texts = []
    everything: list[KernelFacts | GraphFacts] = [*kernels, *graphs]
    for each in everything:
        name = class_name(each.name)
        if name in classes:
            raise ValueError(f"{classes[name]} and {each.name} would both be the class {name}: rename one of them")
        classes[name] = each.name
        texts.append(_kernel(name, each) if isinstance(each, KernelFacts) else _graph(name, each))
    namespace = _identifier(stem)
    if namespace in classes or namespace in ("std", "vyre"):
        namespace = f"{namespace}_bundle"
    return (
        f"// Kernels and graphs of the bundle {stem}; `vyre-cuda bundle --cpp` wrote this file.\n"
        "#pragma once\n\n#include <vyre_cuda.hpp>\n\n"
        f"namespace {namespace} {{\n\n" + "\n".join(texts) + f"\n}} // namespace {namespace}\n"
    )


def class_name(name: str) -> str:
    """A name of a kernel or graph as a name of a class: `tone_map` is `ToneMap`."""
    words = [word for word in re.split(r"[^A-Za-z0-9]+", name) if word]
    joined = "".join(word[0].upper() + word[1:] for word in words) or "Kernel"
    return f"K{joined}" if joined[0].isdigit() else joined


def _identifier(name: str) -> str:
    made = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "bundle"
    made = f"b{made}" if made[0].isdigit() else made
    return f"{made}_" if made in _KEYWORDS.split() else made


def _text(name: str) -> str:
    """A string literal; names of programs have no control characters."""
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _kernel(name: str, kernel: KernelFacts) -> str:
    types = [_parameter(each) for each in kernel.parameters]
    base = f"vyre::TypedKernel<{', '.join(types)}>"
    names = ", ".join(_text(each.name) for each in kernel.parameters) or "nullptr"
    signature = ", ".join(_declared(each) for each in kernel.parameters)
    return f"""// {kernel.name}({signature})
class {name} final : public {base} {{
public:
  {name}() noexcept {{}}
  static vyre::Result<{name}> try_load(const vyre::Context &context, const vyre::Bundle &bundle,
      char *log_out = nullptr, std::size_t log_bytes = 0) noexcept {{
    {name} made;
    vyre::Result<void> opened = made.try_open(context, bundle, {_text(kernel.name)}, names, log_out, log_bytes);
    if (!opened) return std::move(opened).failure();
    return made;
  }}
#if VYRE_EXCEPTIONS
  {name}(const vyre::Context &context, const vyre::Bundle &bundle) {{
    try_open(context, bundle, {_text(kernel.name)}, names, nullptr, 0).value();
  }}
#endif

private:
  static constexpr const char *names[] = {{{names}}};
}};
"""


def _parameter(parameter: Parameter) -> str:
    type_ = _TYPES[parameter.type.name]
    if parameter.kind == "scalar":
        return f"vyre::Scalar<{type_}>"
    axes = f", {parameter.ndim}" if parameter.ndim > 1 else ""
    return f"vyre::{_ROLES[parameter.kind]}<{type_}{axes}>"


def _declared(parameter: Parameter) -> str:
    axes = f"[{', '.join('?' * parameter.ndim)}]" if parameter.ndim > 1 else ""
    return f"{parameter.kind} {parameter.type.name}{axes} {parameter.name}"


def _graph(name: str, graph: GraphFacts) -> str:
    taken: dict[str, str] = {}
    setters, rows = [], []
    for number, symbol in enumerate(graph.symbols):
        setter = _identifier(symbol.name)
        setter = f"{setter}_" if setter in _MEMBERS.split() or setter == name else setter
        if setter in taken:
            raise ValueError(
                f"symbols {taken[setter]} and {symbol.name} of graph {graph.name} would both be {setter} in C++: "
                "rename one of them"
            )
        taken[setter] = symbol.name
        type_ = _TYPES[symbol.type.name]
        kind = "VYC_SYMBOL_ARRAY" if symbol.is_array else "VYC_SYMBOL_SCALAR"
        code = f"VYC_TYPE_{symbol.type.name.rstrip('_').upper()}"
        rows.append(f"      {{{_text(symbol.name)}, {kind}, {code}, {str(symbol.written).lower()}}},")
        if symbol.is_array:
            given = f"vyre::DeviceView<{type_ if symbol.written else f'const {type_}'}>"
            put = f"put({number}, value)"
        else:
            given, put = type_, f"put_bits({number}, vyre::detail::bits(value))"
        setters.append(f"  {name} &{setter}({given} value) noexcept {{\n    {put};\n    return *this;\n  }}")
    table = "\n".join(rows) or "      {nullptr, 0, 0, false},"
    members = "".join(f"{text}\n" for text in setters)
    return f"""// graph {graph.name}({", ".join(symbol.name for symbol in graph.symbols)})
class {name} final : public vyre::Replay<{len(graph.symbols)}> {{
public:
  {name}() noexcept {{}}
  static vyre::Result<{name}> try_load(const vyre::Context &context, const vyre::Bundle &bundle) noexcept {{
    {name} made;
    vyre::Result<void> opened = made.try_open(context, bundle, {_text(graph.name)}, rows);
    if (!opened) return std::move(opened).failure();
    return made;
  }}
#if VYRE_EXCEPTIONS
  {name}(const vyre::Context &context, const vyre::Bundle &bundle) {{
    try_open(context, bundle, {_text(graph.name)}, rows).value();
  }}
#endif

  // Values for the next launch.
{members}
private:
  static constexpr vyre::SymbolRow rows[] = {{
{table}
  }};
}};
"""
