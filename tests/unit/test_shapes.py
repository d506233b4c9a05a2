"""Arrays with two to four axes in programs: declarations, indices, contracts, and what calls return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lower import lower
from vyre_cuda.ir.core.nodes import Apply, Const, Load, Parameter, Position, Size, Store
from vyre_cuda.ir.core.types import u32
from vyre_cuda.ir.wire.wire_tags import MAGIC
from vyre_cuda.passes.pipeline import optimize

TEXT = """program p
block 8 4
index u32
work size(x, 1), size(x, 0)
scalar n: u32
in x: f32[:, n]
in k: i32[u32:2, u32:3, u32:4, u32:5]
inout t: f32[:, :, :]
in flat: u8[add(n, u32:1)]
out o: f32[size(x, 0), size(x, 1)]
shared tile: f32[4, 8]

store o[global_id.y, global_id.x], load(x[global_id.y, global_id.x])
let old = atomic add t[global_id.y, u32:0, i8:-1], f32:1.0 order relaxed scope device
if less(size(x, 1), size(tile, 0))
  store tile[u32:0, load(k[u32:1, u32:1, u32:1, u32:1])], old
end
"""


def gather(axes: int = 2, **declared: Any) -> vc.Program:
    """o[i] = x[index 0 of i, index 1 of i, ...], the indices in columns."""
    b = vc.Builder("gather", block=32)
    x = b.input("x", vc.f32, **(declared or {"ndim": axes}))
    columns = [b.input(f"at{axis}", vc.i64) for axis in range(axes)]
    o = b.output("o", vc.f32, size=columns[0].size)
    i = vc.global_id.x
    with b.if_(i < o.size):
        o[i] = x[tuple(column[i] for column in columns)]
    return b.build()


def doubled(shape: tuple[int | None, ...] = (None, None)) -> vc.Program:
    b = vc.Builder("doubled", block=(8, 4))
    x = b.input("x", vc.f32, shape=shape)
    o = b.output("o", vc.f32, shape=x.shape)
    b.work(x.shape[1], x.shape[0])
    i, j = vc.global_id.y, vc.global_id.x
    o[i, j] = x[i, j] * 2
    return b.build()


# ---- text, bytes, validation -----------------------------------------------------------------------------------------


def test_text_and_bytes_can_be_read_back() -> None:
    program = vc.parse(TEXT)
    assert program.text() == TEXT
    assert vc.Program.from_bytes(program.to_bytes()) == program


def test_programs_that_use_nothing_new_keep_their_version() -> None:
    def version(header: str) -> int:
        return vc.parse(f"program p\nblock 32\nindex u32\n{header}").to_bytes()[len(MAGIC)]

    assert version("in x: f32\nout o: f32[size(x)]\nshared t: f32[4]\n") == 1
    assert version("in x: f32[u32:4]\n") == 3
    assert version("in x: f32[:, :]\n") == 3
    assert version("in x: f32\nshared t: f32[2, 2]\n") == 3


def test_a_shared_array_of_one_axis_has_one_encoding() -> None:
    data = vc.parse("program p\nin x: f32\nshared t: f32[2, 2]\n").to_bytes()
    assert data.count(bytes([0, 2, 2, 2])) == 1
    for axes in (bytes([0, 0]), bytes([0, 1, 2])):
        with pytest.raises(vc.ProgramError, match="with fewer than two it has a size instead"):
            vc.Program.from_bytes(data.replace(bytes([0, 2, 2, 2]), axes))


BAD = [
    ("in x: f32[:, :]\n\nlet t = load(x[u32:0])", "x has 2 axes; 1 index given"),
    ("in x: f32\n\nlet t = load(x[u32:0, u32:0])", "x has 1 axis; 2 indices given"),
    ("in x: f32[:, :]\n\nlet t = load(x[u32:0, f32:0.0])", "the index is f32"),
    ("in x: f32[:, :]\n\nlet t = size(x, 2)", "there is no axis 2 of x, which has 2 axes"),
    ("in x: f32\n\nlet t = size(x, 0)", "there is no axis 0 of x, which has one axis; write size(x)"),
    ("out o: f32[:, u32:3]", "the shape of o is given in part"),
    ("in x: f32[f32:1.0, u32:3]", "the shape is f32"),
    ("in x: f32[size(y), :]\nin y: f32[size(x)]", "depends on itself"),
    ("in x: f32[size(x, 1), :]", "depends on itself"),
    ("out o: f32[:, :]\nin x: f32[size(o), u32:2]", "known only once an array is passed"),
    ("in x: f32\nshared t: f32[2, 0]", "of 0 elements"),
    ("scalar n: u32[u32:1, u32:1]", "only buffers have sizes"),
]


@pytest.mark.parametrize("lines, message", BAD, ids=[lines[:40] for lines, _ in BAD])
def test_a_mistake_is_found(lines: str, message: str) -> None:
    with pytest.raises(vc.ProgramError) as caught:
        vc.parse(f"program p\n{lines}\n")
    assert message in str(caught.value)


def test_indices_of_several_axes_are_not_a_value() -> None:
    zero = Const(u32, 0)
    x = Parameter("x", "inout", vc.f32, shape=(None, None))
    position = Position(u32, (zero, zero))
    summed = Apply(u32, "add", (position, zero))
    for index in (Position(u32, (position, zero)), summed):
        with pytest.raises(vc.ProgramError, match=r"not a value|has 2 axes"):
            vc.Program("p", (x,), (Store("x", index, Load(vc.f32, "x", position)),)).to_bytes()


def test_a_shape_and_its_number_of_elements_agree() -> None:
    four = Const(u32, 4)
    x = Parameter("x", "in", vc.f32, size=four, shape=(four, four))
    with pytest.raises(vc.ProgramError, match="not the product of its shape"):
        vc.Program("p", (x,), ()).to_bytes()
    with pytest.raises(vc.ProgramError, match="tuple of 2 to 4 extents"):
        vc.Program("p", (Parameter("x", "in", vc.f32, size=four, shape=(four,)),), ()).to_bytes()


# ---- the builder -----------------------------------------------------------------------------------------------------


def test_a_shape_of_one_axis_is_a_size() -> None:
    one, other = vc.Builder("p", block=32), vc.Builder("p", block=32)
    assert one.input("x", vc.f32, shape=(4,)).ndim == 1
    other.input("x", vc.f32, 4)
    assert one.build() == other.build()


def test_extents_are_values_of_the_index_type() -> None:
    b = vc.Builder("p", index=vc.i64)
    x, y = b.input("x", vc.f32, ndim=3), b.input("y", vc.f32)
    assert [extent.type for extent in x.shape] == [vc.i64] * 3
    assert (x.ndim, y.ndim, len(y.shape)) == (3, 1, 1)


def test_misuse_says_what_to_write() -> None:
    b = vc.Builder("p")
    x = b.inout("x", vc.f32, ndim=2)
    with pytest.raises(vc.ProgramError, match=r"x has 2 axes; 1 index given \(write x\[i, j\]\)"):
        x[0]
    with pytest.raises(vc.ProgramError, match="x has 2 axes; 3 indices"):
        b.atomic_add(x, (0, 0, 0), 1.0)
    with pytest.raises(vc.ProgramError, match="a slice of x where one element is needed"):
        b.atomic_add(x, (0, slice(0, 2)), 1.0)
    with pytest.raises(vc.ProgramError, match="5 axes; an array has 1 to 4"):
        b.input("y", vc.f32, ndim=5)
    with pytest.raises(TypeError, match="a size and a shape"):
        b.input("y", vc.f32, 4, shape=(2, 2))
    with pytest.raises(TypeError, match="write a tuple"):
        b.input("y", vc.f32, shape=4)
    with pytest.raises(vc.ProgramError, match="ndim=3 of y, whose shape has 2 axes"):
        b.input("y", vc.f32, shape=(2, 2), ndim=3)
    with pytest.raises(vc.ProgramError, match="shared array t of 0 elements"):
        b.shared("t", vc.f32, (2, 0))


# ---- meaning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ndim", [2, 3, 4])
def test_each_axis_has_its_own_bounds(ndim: int) -> None:
    shape = (3, 4, 2, 5)[:ndim]
    x = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    near = np.array([-(2**40), -1, 0, 1, 2, 3, 4, 5, 2**32], np.int64)
    columns = [axis.ravel() for axis in np.meshgrid(*[near] * ndim)]
    inside = np.all([(at >= 0) & (at < extent) for at, extent in zip(columns, shape, strict=True)], axis=0)
    safe = tuple(np.where(inside, at, 0) for at in columns)
    expected = np.where(inside, x[safe], np.float32(0))

    program = gather(ndim)
    assert np.array_equal(vc.evaluate(program, x, *columns), expected)
    assert np.array_equal(vc.evaluate(optimize(program), x, *columns), expected)


def test_a_store_and_an_atomic_beyond_one_axis_do_nothing() -> None:
    b = vc.Builder("p", block=1)
    x = b.inout("x", vc.u32, ndim=2)
    old = b.output("old", vc.u32, size=2)
    b.work(1)
    x[0, 3] = 9
    x[vc.i32(-1), 0] = 9
    x[1, 2] = 7
    old[0] = b.atomic_add(x, (0, 3), 5)
    old[1] = b.atomic_add(x, (1, 2), 5)
    result, before = vc.evaluate(b.build(), np.zeros((2, 3), np.uint32))
    assert result.tolist() == [[0, 0, 0], [0, 0, 12]]
    assert before.tolist() == [0, 7]


def test_a_shared_array_with_a_shape_is_row_major_and_bounded() -> None:
    b = vc.Builder("p", block=(3, 2))
    o = b.output("o", vc.u32, shape=(2, 3))
    tile = b.shared("tile", vc.u32, (2, 3))
    b.work(3, 2)
    i, j = vc.thread_id.y, vc.thread_id.x
    tile[i, j] = i * 10 + j
    tile[i, j + 3] = 99
    b.barrier()
    o[i, j] = tile[1 - i, 2 - j]
    assert vc.evaluate(b.build()).tolist() == [[12, 11, 10], [2, 1, 0]]


# ---- calls -----------------------------------------------------------------------------------------------------------


def test_a_result_has_the_declared_shape() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(vc.evaluate(doubled(), x), x * 2)
    out = np.empty((2, 3), np.float32)
    assert vc.evaluate(doubled(), x, out=out) is out


def test_an_array_with_axes_fits_a_buffer_with_one_and_returns_one() -> None:
    b = vc.Builder("p")
    t = b.inout("t", vc.f32)
    t[vc.global_id.x] = t[vc.global_id.x] + 1.0
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(vc.evaluate(b.build(), x), x.ravel() + 1)


CONTRACTS: list[tuple[dict[str, Any], tuple[int, ...], str]] = [
    ({"shape": (4, 5)}, (4, 6), r"argument x has the shape \(4, 6\), not \(4, 5\)$"),
    ({"shape": (None, 5)}, (4, 6), r"argument x has the shape \(4, 6\), not \(:, 5\)$"),
    ({"ndim": 2}, (4,), r"argument x has the shape \(4,\); x is declared with 2 axes"),
    ({"ndim": 2}, (2, 2, 2), r"argument x has the shape \(2, 2, 2\); x is declared with 2 axes"),
]


@pytest.mark.parametrize("declared, shape, message", CONTRACTS)
def test_a_shape_is_a_contract(declared: dict[str, Any], shape: tuple[int, ...], message: str) -> None:
    at = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match=message):
        vc.evaluate(gather(2, **declared), np.zeros(shape, np.float32), at, at)


def test_a_size_is_a_contract_that_says_what_it_follows_from() -> None:
    b = vc.Builder("p")
    n = b.scalar("n", vc.i32)
    x = b.input("x", vc.f32)
    b.input("y", vc.f32, x.size + 1)
    b.inout("z", vc.f32, n)
    program = b.build()
    one, two = np.zeros(1, np.float32), np.zeros(2, np.float32)
    assert vc.evaluate(program, 2, one, two, two).shape == (2,)
    with pytest.raises(ValueError, match=r"p: argument y has 1 element, not 2 \(size\(x\) = 1\)$"):
        vc.evaluate(program, 2, one, one, two)
    with pytest.raises(ValueError, match=r"p: argument z has 1 element, not 2 \(n = 2\)$"):
        vc.evaluate(program, 2, one, two, one)
    with pytest.raises(ValueError, match=r"the size of z is -1, which is negative; n = -1$"):
        vc.evaluate(program, -1, one, two, two)


def test_an_out_and_the_array_for_it_have_one_shape() -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(ValueError, match=r"out= for o has the shape \(3, 2\), not \(2, 3\)"):
        vc.evaluate(doubled(), x, out=np.zeros((3, 2), np.float32))
    with pytest.raises(ValueError, match=r"out= for o has the shape \(6,\); o is declared with 2 axes"):
        vc.evaluate(doubled(), x, out=np.zeros(6, np.float32))


def test_an_inout_and_the_array_for_it_have_one_shape() -> None:
    b = vc.Builder("p")
    b.inout("t", vc.f32, ndim=2)
    program = b.build()
    with pytest.raises(ValueError, match=r"out= for t has the shape \(3, 2\), not \(2, 3\)"):
        vc.evaluate(program, np.zeros((2, 3), np.float32), out=np.zeros((3, 2), np.float32))


def test_an_out_with_more_elements_than_indices_count_is_refused() -> None:
    b = vc.Builder("p")
    n, m = b.scalar("n", vc.u32), b.scalar("m", vc.i32)
    b.output("o", vc.u8, shape=(n, m, 4))
    b.work(1)
    program = b.build()
    with pytest.raises(ValueError, match="buffer o has 17179869184 elements; a program with u32 indices"):
        vc.evaluate(program, 65536, 65536)
    with pytest.raises(ValueError, match=r"extent 1 of out o is -1, which is negative; m = -1$"):
        vc.evaluate(program, 65536, -1)
    assert vc.evaluate(program, 3, 2).shape == (3, 2, 4)


def test_an_extent_that_wrapped_is_refused_with_the_numbers() -> None:
    b = vc.Builder("p")
    x = b.input("x", vc.f32)
    b.output("o", vc.f32, shape=(x.size - 1, 2))
    program = b.build()
    with pytest.raises(ValueError, match=r"extent 0 of out o is -1, which is out of range of u32; size\(x\) = 0"):
        vc.evaluate(program, np.zeros(0, np.float32))


# ---- lowering --------------------------------------------------------------------------------------------------------


def _ptx(program: vc.Program) -> str:
    return lower(optimize(program), Target.parse("sm_90"), debug=True).ptx


def test_a_condition_proves_the_bounds_of_its_axes() -> None:
    b = vc.Builder("p", block=(16, 16))
    x = b.input("x", vc.f32, ndim=2)
    o = b.output("o", vc.f32, shape=x.shape)
    b.work(x.shape[1], x.shape[0])
    i, j = vc.global_id.y, vc.global_id.x
    with b.if_((i < x.shape[0]) & (j < x.shape[1])):
        o[i, j] = x[i, j] + 1.0
    ptx = _ptx(b.build())
    assert ptx.count("setp") == 2
    assert "@%p" not in ptx.replace("bra", "").split("// s1")[1]


def test_only_the_axis_that_is_not_proved_is_checked() -> None:
    b = vc.Builder("p", block=(16, 16))
    x = b.input("x", vc.f32, ndim=2)
    o = b.output("o", vc.f32, shape=x.shape)
    b.work(x.shape[1], x.shape[0])
    i, j = vc.global_id.y, vc.global_id.x
    with b.if_((i < x.shape[0]) & (j < x.shape[1])):
        o[i, j] = x[i, j + 1]
    assert _ptx(b.build()).count("setp") == 3


def test_extents_that_a_declaration_gives_are_not_passed() -> None:
    b = vc.Builder("p", block=(16, 16))
    h = b.scalar("h", vc.u32)
    x = b.input("x", vc.f32, shape=(h, 8))
    y = b.input("y", vc.f32, shape=(None, None))
    o = b.output("o", vc.f32, shape=(h, y.shape[1]))
    b.work(8, h)
    i, j = vc.global_id.y, vc.global_id.x
    o[i, j] = x[i, j] + y[i, j]
    parameters = lower(b.build(), Target.parse("sm_90")).parameters
    assert [p.name for p in parameters if p.kind == "extent"] == ["y.0", "y.1"]
    assert not [p for p in parameters if p.kind == "size"]


def test_an_extent_of_another_array_may_size_one_with_one_axis() -> None:
    b = vc.Builder("p")
    x = b.input("x", vc.f32, ndim=2)
    o = b.output("o", vc.f32, size=x.shape[1])
    o[vc.global_id.x] = x[0, vc.global_id.x]
    x_value = np.arange(6, dtype=np.float32).reshape(2, 3)
    program = b.build()
    assert vc.evaluate(program, x_value).tolist() == [0, 1, 2]
    parameters = lower(program, Target.parse("sm_90")).parameters
    assert [p.name for p in parameters if p.kind == "extent"] == ["x.0", "x.1"]


def test_sizes_of_buffers_and_of_axes_are_different_values() -> None:
    b = vc.Builder("p", block=1)
    x = b.input("x", vc.f32, ndim=2)
    o = b.output("o", vc.u32, size=3)
    b.work(1)
    for at, value in enumerate((x.size, *x.shape)):
        o[at] = value
    program = optimize(b.build())
    assert vc.evaluate(program, np.zeros((2, 5), np.float32)).tolist() == [10, 2, 5]
    assert {type(Size(u32, "x", axis=0)), type(Size(u32, "x"))} == {Size}
    assert Size(u32, "x", axis=0) != Size(u32, "x")
