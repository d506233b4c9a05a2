"""Binding of call arguments: what is accepted, what is refused and with which exception, sizes, and results."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from vyre_cuda.ir.call.call import Call, argument_parameters, assertion_error, bind, result_parameters
from vyre_cuda.ir.core.scalars import bits_of
from vyre_cuda.ir.core.types import TYPES, Type, bf16, f32
from vyre_cuda.ir.read.parse import parse

SAXPY = parse("""
    program saxpy
    block 256
    index u32
    in x: f32
    in y: f32
    out r: f32[size(x)]
    scalar a: f32
    store r[global_id.x], multiply(a, load(x[global_id.x]))
""")

SEVERAL = parse("""
    program several
    block 32
    index u32
    out first: f32[add(size(x), n)]
    in x: f32
    inout h: u32
    scalar n: u32
    out second: i32[multiply(size(first), u32:2)]
    out third: bool_
    store h[u32:0], n
""")

X = np.arange(6, dtype=np.float32)
H = np.zeros(4, dtype=np.uint32)


def f32s(count: int) -> np.ndarray[Any, np.dtype[Any]]:
    return np.zeros(count, dtype=np.float32)


def saxpy(*args: Any, out: Any = None, **kwargs: Any) -> Call:
    return bind(SAXPY, args, kwargs, out=out)


def several(out: Any, *, x: Any = X, h: Any = H, n: Any = 1) -> Call:
    return bind(SEVERAL, (x, h, n), {}, out=out)


# ---- accepted -------------------------------------------------------------------------------------------------------


def test_arguments_are_the_parameters_without_the_outs_in_declared_order() -> None:
    assert [p.name for p in argument_parameters(SEVERAL)] == ["x", "h", "n"]
    assert [p.name for p in result_parameters(SEVERAL)] == ["first", "h", "second", "third"]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((X, X, 2.0), {}), ((X,), {"a": 2.0, "y": X}), ((), {"a": 2.0, "y": X, "x": X})],
    ids=["positions", "mixed", "names"],
)
def test_arguments_bind_by_position_and_by_name(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    call = bind(SAXPY, args, kwargs)

    assert call.arrays["x"].tolist() == X.tolist()
    assert dict(call.scalars) == {"a": bits_of(f32, 2.0)}
    assert dict(call.sizes) == {"x": 6, "y": 6, "r": 6}
    assert call.geometry.grid == (1, 1, 1)


def test_contiguous_array_is_taken_flat_without_a_copy() -> None:
    matrix = f32s(6).reshape(2, 3)
    call = saxpy(matrix, matrix, 1)

    assert call.arrays["x"].shape == (6,)
    assert np.shares_memory(call.arrays["x"], matrix)


@pytest.mark.parametrize("x", [X.reshape(2, 3).T, X[::2], X[::-1], np.broadcast_to(np.float32(3), (4,))], ids=repr)
def test_array_that_is_not_contiguous_is_copied_in_c_order(x: Any) -> None:
    assert x.flatten().tolist() == saxpy(x, X, 1).arrays["x"].tolist()


def test_array_that_is_not_aligned_is_copied() -> None:
    x = np.zeros(25, np.uint8)[1:].view(np.float32)

    assert saxpy(x, X, 1).arrays["x"].flags.aligned


def test_read_only_input_is_accepted() -> None:
    x = X.copy()
    x.flags.writeable = False

    assert saxpy(x, x, 1).sizes["x"] == 6


def test_out_sizes_may_name_scalars_and_other_outs() -> None:
    call = several({"third": np.zeros(9, np.bool_)}, n=np.uint32(5))

    assert dict(call.sizes) == {"first": 11, "x": 6, "h": 4, "second": 22, "third": 9}


def test_an_out_size_that_wraps_is_refused_with_its_numbers() -> None:
    with pytest.raises(ValueError, match=r"4294967296, which is out of range of u32; n = 4294967290"):
        several({"third": np.zeros(1, np.bool_)}, n=2**32 - 6)


def test_grid_overrides_the_geometry() -> None:
    assert bind(SAXPY, (X, X, 1.0), {}, grid=(3, 2)).geometry.grid == (3, 2, 1)


# ---- results --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["array", "tuple", "dict"])
def test_single_result_takes_an_array_a_tuple_or_a_dict(form: str) -> None:
    out = f32s(6).reshape(3, 2)
    given: Any = {"array": out, "tuple": (out,), "dict": {"r": out}}[form]

    returned = saxpy(X, X, 1, out=given).deliver({"r": X})

    assert returned is out
    assert out.tolist() == X.reshape(3, 2).tolist()


def test_several_results_are_a_tuple_in_declared_order_and_outs_may_be_left_open() -> None:
    h, third = np.ones(4, np.uint32), np.zeros(2, np.bool_)
    computed = {"first": f32s(7), "h": H + 3, "second": np.zeros(14, np.int32), "third": np.ones(2, np.bool_)}

    returned = several((None, h, None, third)).deliver(computed)

    assert returned[0] is computed["first"]
    assert returned[1] is h
    assert returned[3] is third
    assert (h.tolist(), third.tolist()) == ([3, 3, 3, 3], [True, True])


# ---- refused --------------------------------------------------------------------------------------------------------

BIG = np.broadcast_to(np.float32(0), (2**32,))
SWAPPED = X.astype(X.dtype.newbyteorder())
MASKED = np.ma.masked_array(X, X > 2)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((X, X), {}),
        ((X, X, 1.0, X), {}),
        ((X, X, 1.0), {"x": X}),
        ((X, X, 1.0), {"z": X}),
        ((X, X, 1.0), {"r": f32s(6)}),
        (([0.0, 1.0], X, 1.0), {}),
        ((None, X, 1.0), {}),
        ((np.float32(1), X, 1.0), {}),
        ((MASKED, X, 1.0), {}),
        ((X.astype(np.float64), X, 1.0), {}),
        ((X.view(np.uint32), X, 1.0), {}),
        ((SWAPPED, X, 1.0), {}),
        ((X, X, np.float64(0.1)), {}),
        ((X, X, "1"), {}),
        ((X, X, True), {}),
        ((X, X, X), {}),
    ],
    ids=[
        "too few", "too many", "twice", "unknown name", "out by name", "list", "None", "scalar for buffer", "masked",
        "float64", "other type of the same width", "byte order", "NumPy scalar of another type", "str", "bool", "array",
    ],
)  # fmt: skip
def test_arity_kind_and_dtype_are_type_errors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        bind(SAXPY, args, kwargs)


@pytest.mark.parametrize(
    ("x", "way"),
    [
        (X.astype(np.complex64), "pass x.real and x.imag as two arrays"),
        (np.zeros(4, [("count", "i4"), ("mass", "f4")]), "pass a field, as in x['mass']"),
        (X.astype(np.float64), "write x.astype(vc.f32.dtype)"),
    ],
    ids=["complex", "structured", "float64"],
)
def test_the_error_says_how_to_make_an_array_of_the_type(x: Any, way: str) -> None:
    with pytest.raises(TypeError, match="it needs float32 ") as found:
        bind(SAXPY, (x, X, 1.0), {})

    assert way in str(found.value)


def test_an_array_of_one_number_is_no_scalar_but_has_one() -> None:
    with pytest.raises(TypeError, match=r"array\(2.*write \.item\(\)"):
        bind(SAXPY, (X, X, np.array(2.0)), {})


@pytest.mark.parametrize("n", [-1, 2**32])
def test_scalar_out_of_range_is_an_overflow_error(n: int) -> None:
    with pytest.raises(OverflowError):
        several({"third": np.zeros(1, np.bool_)}, n=n)


def test_buffer_of_2_to_the_32_elements_is_refused_before_it_is_copied() -> None:
    with pytest.raises(ValueError, match="4294967296"):
        saxpy(BIG, X, 1.0)


def test_out_of_2_to_the_32_elements_is_refused_before_it_is_made() -> None:
    program = parse("program p\nout r: u8[u64:4294967296]")

    with pytest.raises(ValueError, match="4294967296"):
        bind(program, (), {}, grid=1)


def test_buffer_of_2_to_the_32_elements_is_taken_by_a_program_with_wide_indices() -> None:
    program = parse("program p\nindex u64\nin x: u8\nout r: u64[u32:1]\nstore r[u32:0], size(x)")
    large = np.zeros(2**32 + 1, np.uint8)
    call = bind(program, (large,), {})

    assert call.sizes["x"] == 2**32 + 1
    assert np.shares_memory(large, call.arrays["x"])


# ---- types ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_arrays_and_scalars_have_the_dtype_of_their_type(type_: Type) -> None:
    program = parse(f"program p\nin x: {type_}\nscalar a: {type_}\nout r: {type_}[size(x)]")
    array = np.zeros(3, type_.dtype)
    call = bind(program, (array, array[0]), {})
    other = np.zeros(3, np.uint16 if type_ is bf16 else np.complex64)  # which are the bits of a bf16 elsewhere

    assert call.arrays["x"].dtype == type_.dtype
    assert dict(call.scalars) == {"a": 0}
    assert call.deliver({"r": np.zeros(3, type_.storage)}).dtype == type_.dtype  # type: ignore[union-attr]
    with pytest.raises(TypeError):
        bind(program, (other, array[0]), {})
    with pytest.raises(TypeError):
        bind(program, (array, other[0]), {})


def test_bf16_results_are_delivered_bit_by_bit() -> None:
    program = parse("program p\nout r: bf16[u32:2]")
    mine = np.zeros(2, bf16.dtype)
    call = bind(program, (), {}, out=mine)

    assert call.deliver({"r": np.array([0x3F80, 0xC000], np.uint16)}) is mine
    assert mine.astype(np.float32).tolist() == [1.0, -2.0]


WITHOUT_ML_DTYPES = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np
import vyre_cuda as vc
b = vc.Builder("p")
x = b.input("x", vc.bf16)
a = b.scalar("a", vc.bf16)
out = b.output("out", vc.bf16, size=x.size)
out[vc.global_id.x] = x[vc.global_id.x] * a + 0.1
program = b.build()
result = vc.evaluate(program, np.array([0x3F80, 0x4000], np.uint16), 2.0)
print(result.dtype, [hex(n) for n in result], "bf16:0.1" in program.text())
"""


def test_bf16_without_ml_dtypes_is_raw_uint16() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_ML_DTYPES], capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert done.stdout.split() == ["uint16", "['0x4006',", "'0x4083']", "True"]


def read_only() -> Any:
    out = f32s(6)
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    "out",
    [f32s(5), f32s(7), f32s(12)[::2], f32s(6).reshape(2, 3).T, read_only()],
    ids=["too small", "too large", "strided", "Fortran order", "read-only"],
)
def test_out_of_wrong_size_layout_or_read_only_is_a_value_error(out: Any) -> None:
    with pytest.raises(ValueError):
        saxpy(X, X, 1.0, out=out)


@pytest.mark.parametrize(
    "out",
    [[0.0] * 6, np.zeros(6), SWAPPED.copy(), (f32s(6), f32s(6)), (), {"x": f32s(6)}, {"s": f32s(6)}, [f32s(6)]],
    ids=["list", "float64", "byte order", "two for one", "none for one", "an input", "unknown", "list of arrays"],
)
def test_out_of_wrong_kind_dtype_or_number_is_a_type_error(out: Any) -> None:
    with pytest.raises(TypeError):
        saxpy(X, X, 1.0, out=out)


def test_out_for_an_inout_has_the_size_of_its_argument() -> None:
    with pytest.raises(ValueError):
        several((None, np.zeros(3, np.uint32), None, np.zeros(1, np.bool_)))


@pytest.mark.parametrize("out", [None, {"first": f32s(7)}, (None, None, None, None), np.zeros(2, np.bool_)], ids=repr)
def test_out_without_a_declared_size_must_be_brought(out: Any) -> None:
    with pytest.raises(TypeError):
        several(out)


def test_outs_that_overlap_are_refused() -> None:
    both = np.zeros(20, np.uint32)
    outs = {"h": both[:4], "second": both[3:17].view(np.int32), "third": np.zeros(1, np.bool_)}

    with pytest.raises(ValueError):
        several(outs)


# ---- assertions -----------------------------------------------------------------------------------------------------


def test_assertion_sites_and_statements_are_numbered_in_pre_order() -> None:
    program = parse("""
        program asserting
        block 1
        index u32
        scalar ok: bool_
        while
          assert ok, "setup"
        test ok
          if ok
            assert ok, "then"
          else
            assert ok, "orelse"
          end
        end
        assert ok, "last"
    """)
    errors = [assertion_error(program, site, 17) for site in range(4)]

    assert [error.message for error in errors] == ["setup", "then", "orelse", "last"]
    assert [error.statement for error in errors] == [1, 3, 4, 5]
    assert {(error.program, error.thread) for error in errors} == {("asserting", 17)}
