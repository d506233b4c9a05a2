"""What threads do together in control flow that differs between them is found, and uniform flow is left alone."""

from __future__ import annotations

import pytest

from vyre_cuda.errors import ProgramError
from vyre_cuda.ir.check.uniformity import find_divergent
from vyre_cuda.ir.read.parse import parse

HEADER = """program p
block 64 2
in x: u32
inout h: u32
inout untouched: u32
scalar n: u32
shared tile: u32[64]
shared constant: u32[64]
let t = thread_id.x
"""
DIVERGENT = "less(t, n)"
UNIFORM = "less(n, u32:5)"

UNIFORM_BODIES = [
    "barrier",
    f"if {UNIFORM}\nbarrier\nelse\nbarrier\nend",
    f"if {DIVERGENT}\nstore h[t], t\nend\nbarrier",
    "for j = u32:0 to n step u32:1\nbarrier\nend",
    "for j = n to size(x) step block_dim.x\nif less(j, n)\nbarrier\nend\nend",
    "if less(thread_id.z, n)\nbarrier\nend",
    "if less(global_id.z, n)\nbarrier\nend",
    "if less(block_id.x, grid_dim.y)\nbarrier\nend",
    "let v = load(x[n])\nif less(v, n)\nbarrier\nend",
    "let v = load(untouched[n])\nif less(v, n)\nbarrier\nend",
    "let v = load(constant[n])\nif less(v, n)\nbarrier\nend",
    # What all threads of the block read while none of them writes.
    "store tile[t], t\nbarrier\nlet v = load(tile[n])\nbarrier\nif less(v, n)\nbarrier\nend",
    "store tile[t], t\nbarrier\nlet v = load(tile[n])\nlet w = v\nbarrier\nif less(w, n)\nbarrier\nend",
    "store tile[t], t\nbarrier\nlet v = load(tile[n])\nlet w = load(tile[v])\nbarrier\nif less(w, v)\nbarrier\nend",
    "store tile[t], t\nbarrier\nlet go = less(load(tile[n]), n)\nbarrier\nif go\nbarrier\nend",
    "for j = u32:0 to n step u32:1\nstore tile[t], t\nbarrier\nlet v = load(tile[j])\nbarrier\n"
    "if less(v, n)\nbreak\nend\nbarrier\nend",
    # A divergent value that is overwritten, and one that is not used.
    "var v = t\nv = n\nif less(v, n)\nbarrier\nend",
    f"var v = n\nif {DIVERGENT}\nv = t\nend\nv = n\nif less(v, n)\nbarrier\nend",
    f"var v = n\nif {DIVERGENT}\nv = t\nend\nbarrier",
    f"var v = n\nif {UNIFORM}\nv = u32:7\nelse\nv = n\nend\nif less(v, n)\nbarrier\nend",
    "var v = n\nfor j = u32:0 to n step u32:1\nv = t\nv = n\nend\nif less(v, n)\nbarrier\nend",
    "var v = n\nfor j = u32:0 to n step u32:1\nif less(v, n)\nbarrier\nend\nv = add(v, j)\nend",
    "var v = n\nwhile\nlet go = less(v, u32:9)\ntest go\nbarrier\nv = add(v, v)\nend\nbarrier",
    # Threads that leave together, or come back.
    f"if {UNIFORM}\nreturn\nend\nbarrier",
    f"for j = u32:0 to n step u32:1\nif {UNIFORM}\nbreak\nend\nbarrier\nend",
    f"for j = u32:0 to n step u32:1\nif {DIVERGENT}\nbreak\nend\nend\nbarrier",
    f"for j = u32:0 to n step u32:1\nbarrier\nif {DIVERGENT}\ncontinue\nend\nstore h[t], t\nend\nbarrier",
    "for j = u32:0 to t step u32:1\nstore h[t], t\nend\nbarrier",
    f"barrier\nif {DIVERGENT}\nreturn\nend",
    f'assert {DIVERGENT}, "m"\nbarrier',
]
# The same for warps and the grid: {} stands for what is done together there.
WARP = "let s = warp ballot less(t, n)"
UNIFORM_IN_WARP = [
    "{}",
    "if less(n, u32:5)\n{}\nend",
    "if less(block_id.x, n)\n{}\nend",
    "if less(thread_id.y, n)\n{}\nend",
    "if less(global_id.y, n)\n{}\nend",
    "if less(t, u32:32)\n{}\nend",
    "if greater(u32:32, t)\n{}\nend",
    "if less_equal(t, u32:31)\n{}\nend",
    "if greater_equal(cast.i64(t), i64:32)\n{}\nend",
    "if greater(global_id.x, u32:63)\n{}\nend",
    "if equal(floor_divide(t, u32:32), u32:1)\n{}\nend",
    "let w = cast.u8(t)\nif equal(right_shift(w, u8:5), u8:1)\n{}\nend",
    "if equal(bitwise_and(u32:4294967264, t), u32:0)\n{}\nend",
    "let v = load(x[floor_divide(t, u32:64)])\nif less(v, n)\n{}\nend",
    "let c = warp any less(t, n)\nif c\n{}\nend",
    "let c = warp all less(t, n)\nif c\nreturn\nend\n{}",
    "let c = warp ballot less(t, n)\nif less(c, n)\n{}\nend",
    "let c = warp reduce t combine add\nfor j = n to c step u32:1\n{}\nend",
    "let c = warp broadcast t, n\nif less(c, n)\n{}\nend",
    "let c = warp shuffle t, thread_id.y\nif less(c, n)\n{}\nend",
    "let c = warp shuffle_xor thread_id.y, t\nif less(c, n)\n{}\nend",
    "let c = warp match thread_id.y\nif less(c, n)\n{}\nend",
    "var v = t\nlet c = warp reduce t combine maximum\nv = c\nif less(v, n)\n{}\nend",
    "while\nlet c = warp any less(load(h[t]), n)\ntest c\n{}\nstore h[t], n\nend",
    "if less(t, n)\nstore h[t], n\nend\n{}",
]
DIVERGENT_IN_WARP = [
    "if less(t, n)\n{}\nend",
    "if less(lane_id, n)\n{}\nend",
    "if less(t, u32:33)\n{}\nend",
    "if less(u32:32, t)\n{}\nend",
    "if equal(t, u32:32)\n{}\nend",
    "if less(floor_divide(t, u32:16), n)\n{}\nend",
    "if less(floor_divide(u32:64, t), n)\n{}\nend",
    "if less(bitwise_and(t, u32:48), n)\n{}\nend",
    "if less(right_shift(t, u32:4), n)\n{}\nend",
    "if less(trunc_divide(cast.i32(t), i32:32), i32:1)\n{}\nend",
    "if less(cast.f32(t), f32:32.0)\n{}\nend",
    "if less(t, u32:32)\nreturn\nend\nif less(t, n)\nreturn\nend\n{}",
    "let c = warp shuffle t, lane_id\nif less(c, n)\n{}\nend",
    "let c = warp shuffle n, lane_id\nif less(c, n)\n{}\nend",
    "let c = warp shuffle_up t, n\nif less(c, n)\n{}\nend",
    "let c = warp match t\nif less(c, n)\n{}\nend",
    "let c = warp inclusive_scan n combine add\nif less(c, n)\n{}\nend",
    "var v = n\nif less(t, n)\nv = u32:7\nend\nif less(v, n)\n{}\nend",
    "var v = n\nfor j = u32:0 to t step u32:1\nv = j\nend\nif less(v, n)\n{}\nend",
]
# Uniform in a warp, but not in a block.
DIVERGENT_IN_BLOCK = [
    "if less(thread_id.y, n)\n{}\nend",
    "if less(t, u32:32)\n{}\nend",
    "let c = warp any less(t, n)\nif c\n{}\nend",
    "let c = warp reduce t combine minimum\nif less(c, n)\n{}\nend",
    "let c = warp broadcast t, n\nif less(c, n)\n{}\nend",
]
UNIFORM_IN_GRID = [
    "{}",
    "if less(n, size(x))\n{}\nend",
    "if less(load(x[n]), grid_dim.x)\n{}\nend",
    "for j = n to size(h) step block_dim.y\n{}\nend",
    "if less(thread_id.z, n)\n{}\nend",
    "let c = warp any less(n, u32:5)\nif c\n{}\nend",
    "let c = warp reduce n combine add\nif less(c, n)\n{}\nend",
    "let c = warp broadcast n, u32:5\nif less(c, n)\n{}\nend",
    "if less(t, n)\nstore h[t], n\nend\n{}",
]
# Uniform in a block, but not in the grid.
DIVERGENT_IN_GRID = [
    "if less(block_id.x, n)\n{}\nend",
    "if less(global_id.z, n)\n{}\nend",
    "let c = warp any less(block_id.x, n)\nif c\n{}\nend",
    "if less(load(x[block_id.y]), n)\n{}\nend",
    "if less(block_id.x, n)\nreturn\nend\n{}",
    "for j = u32:0 to block_id.x step u32:1\n{}\nend",
    "var v = n\nif less(block_id.x, n)\nv = u32:7\nend\nif less(v, n)\n{}\nend",
]
# The body, and the path of the barrier.
DIVERGENT_BODIES: list[tuple[str, tuple[int | str, ...]]] = [
    (f"if {DIVERGENT}\nbarrier\nend", (1, "then", 0)),
    # Another thread may write before this one reads; other blocks to what is not shared, at any time.
    ("store tile[t], t\nbarrier\nlet v = load(tile[n])\nif less(v, n)\nbarrier\nend", (4, "then", 0)),
    ("store tile[t], t\nlet v = load(tile[n])\nbarrier\nif less(v, n)\nbarrier\nend", (4, "then", 0)),
    ("store tile[t], t\nbarrier\nlet v = load(tile[t])\nbarrier\nif less(v, n)\nbarrier\nend", (5, "then", 0)),
    ("store h[t], t\nbarrier\nlet v = load(h[n])\nbarrier\nif less(v, n)\nbarrier\nend", (5, "then", 0)),
    (
        "store tile[t], t\nbarrier\nlet v = load(tile[n])\nlet w = load(tile[t])\nbarrier\nif less(w, v)\nbarrier\nend",
        (6, "then", 0),
    ),
    (
        "barrier\nlet v = load(tile[n])\nstore tile[t], t\nlet w = v\nbarrier\nif less(w, n)\nbarrier\nend",
        (6, "then", 0),
    ),
    ("barrier\nlet v = load(tile[n])\nif less(v, n)\nbarrier\nend\nstore tile[t], t", (3, "then", 0)),
    ("store tile[t], t\nbarrier\nlet v = load(tile[n])\nbarrier\nif less(v, n)\ngrid_barrier\nend", (5, "then", 0)),
    (f"if {DIVERGENT}\nelse\nbarrier\nend", (1, "orelse", 0)),
    (f"if {DIVERGENT}\nif {UNIFORM}\nbarrier\nend\nend", (1, "then", 0, "then", 0)),
    ("if less(thread_id.y, n)\nbarrier\nend", (1, "then", 0)),
    ("if less(global_id.x, n)\nbarrier\nend", (1, "then", 0)),
    ("for j = u32:0 to t step u32:1\nbarrier\nend", (1, "body", 0)),
    ("for j = t to n step u32:1\nbarrier\nend", (1, "body", 0)),
    ("for j = n to u32:9 step t\nbarrier\nend", (1, "body", 0)),
    (f"while\nbarrier\ntest {DIVERGENT}\nend", (1, "setup", 0)),
    (f"while\ntest {DIVERGENT}\nbarrier\nend", (1, "body", 0)),
    # Memory.
    ("let v = load(x[t])\nif less(v, n)\nbarrier\nend", (2, "then", 0)),
    ("store h[n], n\nlet v = load(h[n])\nif less(v, n)\nbarrier\nend", (3, "then", 0)),
    ("let v = load(tile[n])\nif less(v, n)\nbarrier\nend\nstore tile[n], n", (2, "then", 0)),
    (
        "let v = load(h[n])\nif less(v, n)\nbarrier\nend\natomic add h[n], n order relaxed scope device",
        (2, "then", 0),
    ),
    ("let v = atomic add h[n], n order relaxed scope device\nif less(v, n)\nbarrier\nend", (2, "then", 0)),
    # Variables.
    ("var v = t\nif less(v, n)\nbarrier\nend", (2, "then", 0)),
    (f"var v = n\nif {DIVERGENT}\nv = u32:7\nend\nif less(v, n)\nbarrier\nend", (3, "then", 0)),
    (f"var v = n\nif {UNIFORM}\nv = t\nend\nif less(v, n)\nbarrier\nend", (3, "then", 0)),
    (f"var v = n\nif {UNIFORM}\nelse\nv = t\nend\nif less(v, n)\nbarrier\nend", (3, "then", 0)),
    (f"var v = t\nif {UNIFORM}\nv = n\nend\nif less(v, n)\nbarrier\nend", (3, "then", 0)),
    (f"var v = t\nif {UNIFORM}\nv = n\nelse\nif less(v, n)\nbarrier\nend\nend", (2, "orelse", 0, "then", 0)),
    (
        f"var v = n\nwhile\nv = n\ntest {UNIFORM}\nv = t\nbreak\nend\nif less(v, n)\nbarrier\nend",
        (3, "then", 0),
    ),
    ("var v = n\nfor j = u32:0 to t step u32:1\nv = add(v, j)\nend\nif less(v, n)\nbarrier\nend", (3, "then", 0)),
    ("var v = n\nfor j = u32:0 to n step u32:1\nif less(v, n)\nbarrier\nend\nv = t\nend", (2, "body", 0, "then", 0)),
    (
        "var v = n\nvar w = n\nfor j = u32:0 to n step u32:1\nif less(w, n)\nbarrier\nend\nw = v\nv = t\nend",
        (3, "body", 0, "then", 0),
    ),
    (
        "var v = n\nfor j = u32:0 to n step u32:1\nif less(j, u32:3)\nv = t\nbreak\nend\nv = n\nend\n"
        "if less(v, n)\nbarrier\nend",
        (3, "then", 0),
    ),
    (
        "var v = n\nfor j = u32:0 to n step u32:1\nif less(v, n)\nbarrier\nend\nif less(j, u32:3)\nv = t\ncontinue\n"
        "end\nv = n\nend",
        (2, "body", 0, "then", 0),
    ),
    (
        f"var v = n\nfor j = u32:0 to n step u32:1\nif {DIVERGENT}\ncontinue\nend\nv = u32:7\nend\n"
        "if less(v, n)\nbarrier\nend",
        (3, "then", 0),
    ),
    # Threads that left.
    ("for j = u32:0 to t step u32:1\nwhile\nreturn\ntest bool_:true\nend\nend\nbarrier", (2,)),
    (f"if {DIVERGENT}\nreturn\nend\nbarrier", (2,)),
    (f"for j = u32:0 to n step u32:1\nif {DIVERGENT}\nreturn\nend\nend\nbarrier", (2,)),
    (f"for j = u32:0 to n step u32:1\nbarrier\nif {DIVERGENT}\nreturn\nend\nend", (1, "body", 0)),
    (f"for j = u32:0 to n step u32:1\nif {DIVERGENT}\nbreak\nend\nbarrier\nend", (1, "body", 1)),
    (f"for j = u32:0 to n step u32:1\nbarrier\nif {DIVERGENT}\nbreak\nend\nend", (1, "body", 0)),
    (f"for j = u32:0 to n step u32:1\nif {DIVERGENT}\ncontinue\nend\nbarrier\nend", (1, "body", 1)),
    (
        f"for j = u32:0 to n step u32:1\nfor k = u32:0 to n step u32:1\nif {DIVERGENT}\nreturn\nend\nend\nbarrier\nend",
        (1, "body", 1),
    ),
    (
        f"for j = u32:0 to n step u32:1\nbarrier\nfor k = u32:0 to n step u32:1\nif {DIVERGENT}\nreturn\nend\nend\nend",
        (1, "body", 0),
    ),
]


@pytest.mark.thin
@pytest.mark.parametrize("body", UNIFORM_BODIES)
def test_uniform_barrier_is_accepted(body: str) -> None:
    assert find_divergent(parse(HEADER + body)) == []


@pytest.mark.thin
@pytest.mark.parametrize("body, path", DIVERGENT_BODIES)
def test_divergent_barrier_is_found(body: str, path: tuple[int | str, ...]) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(HEADER + body)

    assert [diagnostic.path for diagnostic in caught.value.diagnostics] == [path]


def refused(body: str, what: str, header: str = HEADER) -> list[str]:
    """How the messages begin for a body in which {} is what threads do together."""
    try:
        parse(header + body.replace("{}", what))
    except ProgramError as error:
        return [diagnostic.message.split(" may not reach")[0] for diagnostic in error.diagnostics]
    return []


@pytest.mark.parametrize("body", UNIFORM_IN_WARP)
def test_warp_operation_where_a_warp_is_together_is_accepted(body: str) -> None:
    assert refused(body, WARP) == []


@pytest.mark.parametrize("body", DIVERGENT_IN_WARP)
def test_warp_operation_where_a_warp_may_be_apart_is_found(body: str) -> None:
    assert refused(body, WARP) == ["some threads of a warp"]


@pytest.mark.parametrize("body", DIVERGENT_IN_BLOCK)
def test_what_differs_between_warps_stops_barriers_alone(body: str) -> None:
    assert refused(body, WARP) == []
    assert refused(body, "barrier") == ["some threads of a block"]
    assert refused(body, "grid_barrier") == ["some threads of the grid"]


@pytest.mark.parametrize("body", UNIFORM_IN_GRID)
def test_grid_barrier_where_the_grid_is_together_is_accepted(body: str) -> None:
    assert refused(body, "grid_barrier") == []


@pytest.mark.parametrize("body", DIVERGENT_IN_GRID)
def test_what_differs_between_blocks_stops_grid_barriers_alone(body: str) -> None:
    assert refused(body, WARP) == []
    assert refused(body, "barrier") == []
    assert refused(body, "grid_barrier") == ["some threads of the grid"]


@pytest.mark.parametrize("body", DIVERGENT_IN_BLOCK)
def test_warps_of_a_block_of_one_warp_do_not_differ(body: str) -> None:
    assert refused(body, "barrier", HEADER.replace("block 64 2", "block 32")) == []


@pytest.mark.parametrize("op", ["ballot less(n, u32:5)", "reduce n combine add", "broadcast n, u32:9"])
def test_a_partial_last_warp_gives_other_results(op: str) -> None:
    body = f"let c = warp {op}\nif less(c, n)\n{{}}\nend"

    assert refused(body, "barrier", HEADER.replace("block 64 2", "block 20 2")) == ["some threads of a block"]
    assert refused(body, WARP, HEADER.replace("block 64 2", "block 20 2")) == []


def test_rows_that_are_no_multiple_of_a_warp_mix_in_it() -> None:
    header = HEADER.replace("block 64 2", "block 20 2")

    assert refused("if less(thread_id.y, n)\n{}\nend", WARP, header) == ["some threads of a warp"]
    assert refused("if less(t, u32:32)\n{}\nend", WARP, header) == ["some threads of a warp"]


def test_global_numbers_of_odd_blocks_mix_in_a_warp() -> None:
    header = HEADER.replace("block 64 2", "block 40")

    assert refused("if less(global_id.x, u32:32)\n{}\nend", WARP, header) == ["some threads of a warp"]
    assert refused("if less(t, u32:32)\n{}\nend", WARP, header) == []


def message(body: str) -> str:
    with pytest.raises(ProgramError) as caught:
        parse(HEADER + body, filename="f")
    return caught.value.diagnostics[0].message


def test_message_names_condition_and_source() -> None:
    expected = (
        "some threads of a block may not reach this barrier: `less(v, n)` (f:12) depends on an element of h, "
        "which the program writes"
    )

    assert expected == message("store h[n], n\nlet v = load(h[n])\nif less(v, n)\nbarrier\nend")


def test_message_says_how_a_block_reads_what_is_the_same() -> None:
    expected = (
        "some threads of a block may not reach this barrier: `less(v, n)` (f:13) depends on an element of tile, "
        "which the program writes (all see the same with a barrier before and behind the lets that read it)"
    )

    assert expected == message("store tile[t], t\nbarrier\nlet v = load(tile[n])\nif less(v, n)\nbarrier\nend")


def test_message_names_how_threads_left() -> None:
    expected = (
        "some threads of a block may not reach this barrier: some threads leave by a `return` (f:11): "
        "`less(t, n)` (f:10) depends on thread_id.x"
    )

    assert expected == message("if less(t, n)\nreturn\nend\nbarrier")


def test_message_names_what_the_grid_differs_in() -> None:
    expected = "some threads of the grid may not reach this grid barrier: `less(c, n)` (f:11) depends on block_id.x"

    assert expected == message("let c = warp reduce block_id.x combine add\nif less(c, n)\ngrid_barrier\nend")


@pytest.mark.thin
@pytest.mark.slow
def test_large_program_is_analyzed_in_linear_time() -> None:
    chain = "".join(f"v{n} = v{n + 1}\n" for n in range(3000)) + "v3000 = t\n"
    text = "".join(f"var v{n} = n\n" for n in range(3001)) + f"for j = u32:0 to n step u32:1\n{chain}end\nbarrier"
    nested = "".join(f"for k{n} = u32:0 to n step u32:1\n" for n in range(60)) + "v = t\n" + "end\n" * 60

    assert find_divergent(parse(HEADER + text)) == []
    assert find_divergent(parse(HEADER + "var v = n\n" + nested + "barrier")) == []
