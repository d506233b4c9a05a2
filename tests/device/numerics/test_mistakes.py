"""Mistakes that compilers of small kernels make, one test each, named after the mistake: what one thread computes.

Values are written out, so that a mistake that both ways share is seen as well.
"""

from __future__ import annotations

import numpy as np
import pytest

import vyre_cuda as vc
from vyre_cuda.testing.compare import assert_same

from .texts import GLOBAL_ID, expect, f32s, i32s, one_op, u32s

NAN, INF = float("nan"), float("inf")


# ---- control flow ---------------------------------------------------------------------------------------------------


def test_return_is_ignored(device: vc.Device) -> None:
    text = (
        f"block 4\ninout h: u32\n{GLOBAL_ID}for j = u32:0 to u32:9 step u32:1\nif greater(j, i)\n"
        "if less(i, u32:2)\nreturn\nend\nend\nend\n"
    )
    expect(device, text + "store h[i], u32:7\n", [u32s(1, 1, 1, 1)], u32s(1, 1, 7, 7))


def test_entry_tail_guard_where_the_output_is_smaller_than_the_work(device: vc.Device) -> None:
    """No hidden guard: threads past the output still have effects."""
    text = (
        "block 32\nwork size(h)\ninout h: u32\nout out: u32[u32:1]\n"
        f"{GLOBAL_ID}store h[i], add(i, u32:1)\nstore out[i], u32:5\n"
    )
    expect(device, text, [np.zeros(40, np.uint32)], [np.arange(1, 41, dtype=np.uint32), u32s(5)])


def test_one_name_with_two_types(device: vc.Device) -> None:
    b = vc.Builder("p", block=1)
    out = b.output("out", vc.f32, size=2)
    for value in (vc.u32(3), vc.f32(0.5)):
        with b.if_(vc.global_id.x == 0):
            v = b.var("v", value)
            v.set(v + v)
            out[int(value.type is vc.f32)] = vc.f32(v)
    program = b.build()

    assert_same(f32s(6, 1), vc.evaluate(program))
    assert_same(f32s(6, 1), device.run(program))


def test_nested_loops_with_one_counter_name_lose_the_outer_index(device: vc.Device) -> None:
    b = vc.Builder("p", block=1)
    out = b.output("out", vc.u32, size=6)
    with b.for_(0, 2) as j:
        outer = j
        with b.for_(0, 3) as j:
            out[outer * 3 + j] = outer * 10 + j
        out[outer * 3] = out[outer * 3] + outer * 100
    program = b.build()

    assert_same(u32s(0, 1, 2, 110, 11, 12), vc.evaluate(program))
    assert_same(u32s(0, 1, 2, 110, 11, 12), device.run(program))


def test_assignment_to_a_buffer_name() -> None:
    with pytest.raises(vc.ProgramError, match="h is not a var"):
        vc.parse("program p\ninout h: u32\nh = u32:1\n")


def test_parameter_names_that_are_words_of_ptx_clash(device: vc.Device) -> None:
    names = ("ret", "add", "p", "p0", "r1", "tid", "entry", "reg", "shared_memory", "WARP_SZ")
    text = "block 1\n" + "".join(f"inout {name}: u32\n" for name in names)
    text += "".join(f"store {name}[u32:0], u32:{at}\n" for at, name in enumerate(names))
    expect(device, text, [u32s(9)] * len(names), [u32s(at) for at in range(len(names))])


# ---- memory ---------------------------------------------------------------------------------------------------------

FAR = [5, 6, 2**31, 2**32 - 1]


def test_out_of_bounds_load_reads_element_0(device: vc.Device) -> None:
    text = (
        f"block 32\nin x: u32\nin at: u32\nout out: u32[size(at)]\n{GLOBAL_ID}if less(i, size(at))\n"
        "store out[i], load(x[load(at[i])])\nend\n"
    )
    expect(device, text, [u32s(7, 8, 9, 10, 11), u32s(4, *FAR)], u32s(11, 0, 0, 0, 0))


@pytest.mark.parametrize(
    "statement", ["store h[load(at[i])], u32:1", "atomic add h[load(at[i])], u32:1 order relaxed scope device"]
)
def test_out_of_bounds_store_overwrites_element_0(device: vc.Device, statement: str) -> None:
    text = f"block 32\nwork size(at)\nin at: u32\ninout h: u32\n{GLOBAL_ID}if less(i, size(at))\n{statement}\nend\n"
    expect(device, text, [u32s(*FAR), u32s(7, 8, 9, 10, 11)], u32s(7, 8, 9, 10, 11))


def test_literal_and_shared_indices_are_unchecked(device: vc.Device) -> None:
    text = (
        "block 1\nshared t: u32[2]\nshared guard: u32[2]\ninout h: u32\nstore guard[u32:0], u32:6\n"
        "store t[u32:2], u32:1\nstore t[i32:-1], u32:1\nstore h[u32:3], u32:1\nstore h[i32:-1], u32:1\n"
        "store h[u32:0], add(load(t[u32:2]), add(load(guard[u32:0]), load(h[u32:3])))\n"
    )
    expect(device, text, [u32s(1, 2, 3)], u32s(6, 2, 3))


def test_shared_memory_is_not_zeroed(device: vc.Device) -> None:
    """A second block finds zeros, not what the first one left."""
    text = (
        f"block 32\nwork size(h)\ninout h: u32\nshared t: u32[32]\n{GLOBAL_ID}let l = thread_id.x\n"
        "let old = load(t[l])\nstore t[l], u32:5\nstore h[i], old\n"
    )
    expect(device, text, [np.full(32 * 64, 9, np.uint32)], np.zeros(32 * 64, np.uint32))


def test_reduction_in_shared_memory_races(device: vc.Device) -> None:
    text = (
        "block 256\nwork size(x)\nin x: u32\nout out: u32[floor_divide(size(x), u32:256)]\n"
        f"shared t: u32[256]\n{GLOBAL_ID}let l = thread_id.x\n"
        "store t[l], load(x[i])\nbarrier\nvar d = u32:128\nwhile\ntest greater(d, u32:0)\nif less(l, d)\n"
        "store t[l], add(load(t[l]), load(t[add(l, d)]))\nend\nbarrier\nd = right_shift(d, u32:1)\nend\n"
        "if equal(l, u32:0)\nstore out[block_id.x], load(t[u32:0])\nend\n"
    )
    x = np.random.default_rng(1).integers(0, 1000, 256 * 40, dtype=np.uint32)
    expect(device, text, [x], x.reshape(-1, 256).sum(1, dtype=np.uint32))


def test_narrow_elements_are_loaded_as_words(device: vc.Device) -> None:
    one_op(device, "cast.i32(x)", np.array([-1, 2, -128, 127], np.int8), i32s(-1, 2, -128, 127))
    one_op(
        device,
        "cast.f32(x)",
        np.array([1.5, -2, 6e-8, 65504], np.float16),
        np.array([1.5, -2, 6e-8, 65504], np.float16).astype(np.float32),
    )


# ---- integers -------------------------------------------------------------------------------------------------------


def test_right_shift_of_i32_is_logical(device: vc.Device) -> None:
    one_op(device, "right_shift(x, i32:1)", i32s(-8, 7, -1), i32s(-4, 3, -1))


def test_signedness_comes_from_the_register_class(device: vc.Device) -> None:
    """Results of ops that are the same for both signs, then an op that is not."""
    one_op(device, "right_shift(invert(x), i32:1)", i32s(7, -8), i32s(-4, 3))
    one_op(device, "minimum(bitwise_and(x, i32:-1), i32:0)", i32s(-5, 5), i32s(-5, 0))
    one_op(device, "less(negative(x), u32:5)", u32s(1, 2**32 - 3), np.array([False, True]))
    one_op(device, "cast.f32(bitcast.i32(x))", u32s(2**32 - 1), f32s(-1))


def test_shifts_by_the_width_or_more_are_masked_or_fused(device: vc.Device) -> None:
    one_op(device, "left_shift(left_shift(x, u32:20), u32:20)", u32s(1, 2**32 - 1), u32s(0, 0))
    one_op(device, "right_shift(right_shift(x, i32:20), i32:20)", i32s(-1, 2**31 - 1), i32s(-1, 0))
    one_op(device, "left_shift(x, y)", u32s(1, 1, 3), u32s(0, 2**31, 0), u32s(32, 31, 2**32 - 1))


def test_division_by_zero_and_of_the_smallest_number(device: vc.Device) -> None:
    x, y = i32s(7, -7, -(2**31), -(2**31), 0), i32s(0, 0, -1, 0, 0)
    one_op(device, "floor_divide(x, y)", x, i32s(0, 0, -(2**31), 0, 0), y)
    one_op(device, "remainder(x, y)", x, i32s(0, 0, 0, 0, 0), y)


def test_casts_to_narrow_types_keep_high_bits(device: vc.Device) -> None:
    one_op(device, "cast.u32(cast.u8(x))", u32s(511, 256), u32s(255, 0))
    one_op(device, "cast.i32(cast.i8(x))", i32s(255, 128, -129), i32s(-1, -128, 127))
    one_op(device, "cast.i32(add(x, i8:1))", np.array([127, -1], np.int8), i32s(-128, 0))


def test_64_bit_ops_work_on_32_bits(device: vc.Device) -> None:
    x = np.array([2**40, 2**63, 3], np.uint64)
    one_op(device, "right_shift(add(x, u64:4294967296), u64:33)", x, (x + np.uint64(2**32)) >> np.uint64(33))
    one_op(device, "greater(x, u64:4294967296)", x, np.array([True, True, False]))
    one_op(device, "cast.f32(x)", np.array([-(2**40)], np.int64), f32s(-(2.0**40)))


def test_and_and_or_of_integers_are_mixed_up_with_those_of_bools(device: vc.Device) -> None:
    one_op(device, "bitwise_and(x, y)", u32s(6, 1), u32s(2, 0), u32s(3, 2))
    one_op(device, "logical_and(x, not_equal(y, u32:0))", np.array([True, True]), np.array([True, False]), u32s(2, 0))
    with pytest.raises(vc.ProgramError, match="logical_and is not defined for u32"):
        vc.parse("program p\nscalar n: u32\nlet v = logical_and(n, n)\n")


def test_ops_on_bools_are_those_of_words(device: vc.Device) -> None:
    b, c = np.array([True, True, False, False]), np.array([True, False, True, False])
    one_op(device, "logical_xor(x, y)", b, b ^ c, c)
    one_op(device, "equal(x, y)", b, b == c, c)
    one_op(device, "where(x, y, logical_not(y))", b, np.where(b, c, ~c), c)


def test_type_of_a_signed_op_is_unsigned(device: vc.Device) -> None:
    one_op(device, "remainder(x, i32:4)", i32s(-1, -5), i32s(3, 3))
    one_op(device, "less(bitwise_xor(x, i32:1), i32:0)", i32s(-1, 1), np.array([True, False]))


# ---- floats ---------------------------------------------------------------------------------------------------------


def test_ties_round_away_from_zero(device: vc.Device) -> None:
    one_op(device, "rint(x)", f32s(0.5, 1.5, -2.5, 8388609), f32s(0, 2, -2, 8388609))


def test_product_and_sum_are_contracted(device: vc.Device) -> None:
    x = f32s(1.0000001, 1.1, 3.3)
    one_op(device, "subtract(multiply(x, x), y)", x, f32s(0, 0, 0), x * x)


def test_x_equals_x_is_folded_to_true(device: vc.Device) -> None:
    one_op(device, "equal(x, x)", f32s(1, NAN, INF), np.array([True, False, True]))
    one_op(device, "not_equal(x, x)", f32s(1, NAN), np.array([False, True]))


def test_x_minus_x_is_folded_to_zero(device: vc.Device) -> None:
    one_op(device, "subtract(x, x)", f32s(1, INF, NAN), f32s(0, NAN, NAN))
    one_op(device, "multiply(x, f32:0.0)", f32s(-1, INF), f32s(-0.0, NAN))


def test_adding_zero_is_dropped(device: vc.Device) -> None:
    one_op(device, "add(x, f32:0.0)", f32s(-0.0, 0.0), f32s(0.0, 0.0))
    one_op(device, "subtract(f32:0.0, x)", f32s(0.0), f32s(0.0))


def test_division_by_a_constant_becomes_a_product(device: vc.Device) -> None:
    x = np.arange(1, 2000, dtype=np.float32)
    one_op(device, "divide(x, f32:3.0)", x, x / np.float32(3))


def test_zeros_of_both_signs_share_a_kernel(device: vc.Device) -> None:
    kernels = [
        device.compile(vc.parse(f"program p\nblock 1\ninout h: f32\nstore h[u32:0], f32:{zero}\n"))
        for zero in ("0.0", "-0.0")
    ]

    assert kernels[0].program.fingerprint != kernels[1].program.fingerprint
    assert_same(f32s(0.0), kernels[0](f32s(1)))
    assert_same(f32s(-0.0), kernels[1](f32s(1)))


def test_literal_of_zero_has_no_digits(device: vc.Device) -> None:
    """A PTX float literal has all its digits: 0f00000000."""
    one_op(device, "add(x, y)", f32s(1, -0.0), f32s(1, 0), f32s(0, 0))
    assert "0F," not in device.compile(vc.parse("program p\nblock 1\ninout h: f32\nstore h[u32:0], f32:0.0\n")).ptx


def test_f64_is_computed_in_f32(device: vc.Device) -> None:
    one_op(device, "add(x, f64:1e-12)", np.array([1.0, 1e300]), np.array([1.0 + 1e-12, 1e300]))


def test_sign_of_floats_is_missing(device: vc.Device) -> None:
    one_op(device, "sign(x)", f32s(-3, -0.0, 7, NAN), f32s(-1, 0, 1, NAN))


def test_minimum_drops_nan(device: vc.Device) -> None:
    one_op(device, "minimum(x, y)", f32s(NAN, 1, 0.0), f32s(NAN, NAN, -0.0), f32s(1, NAN, -0.0))


@pytest.mark.cuda
def test_a_check_is_for_the_emulator_only(device_name: int | str) -> None:
    with pytest.raises(vc.UnsupportedError, match='only Device\\("emulator"\\) can check') as caught:
        vc.Device(device_name, check="races")

    assert caught.value.capability == "check"
