# ruff: noqa: B015, B018, F821, F841, RET504, SIM105, UP031, UP032
"""Kernels that are wrong, each in one way; `errors.txt` has what is said about each."""

from __future__ import annotations

import functools
import math
import random
import time
from collections.abc import Callable
from random import random as draw
from typing import Any, TypeVar

import numpy as np

import vyre_cuda as vc

T = TypeVar("T")
WRONG: dict[str, Callable[[], Any]] = {}
WRITABLE = np.zeros(4, np.float32)
TAPS = [1.0, 2.0]


class Config:
    scale = 2.0


CONFIG = Config()


def wrong(make: Callable[[], Any]) -> Callable[[], Any]:
    """`make` decorates a function and gives the kernel, of which a program is asked."""
    WRONG[make.__name__] = make
    return make


@wrong
def undefined_name() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[vc.global_id.x] = x[vc.global_id.x] * scale

    return f


@wrong
def unknown_function() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = vc.square_root(x[0])

    return f


@wrong
def used_before_assignment() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = total
        total = x[0]

    return f


@wrong
def operands_of_two_types() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        i = vc.global_id.x
        out[i] = 2.0 * x[i] + x[i] * i

    return f


@wrong
def missing_cast_in_a_store() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.f32, x.size)
        i = vc.global_id.x
        out[i] = x[i]

    return f


@wrong
def another_type_for_a_variable() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        acc: vc.f32 = 0
        acc = vc.global_id.x
        out[0] = acc

    return f


@wrong
def untyped_first_value() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, 1)
        acc = 0.0
        for j in range(x.size):
            acc += x[j]
        out[0] = acc

    return f


@wrong
def number_out_of_range() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.u8]):
        out = vc.output(vc.u8, x.size)
        out[0] = x[0] + 256

    return f


@wrong
def name_escapes_an_if() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        i = vc.global_id.x
        if x[i] > 0:
            sign = vc.f32(1)
        else:
            sign = vc.f32(-1)
        out[i] = sign

    return f


@wrong
def number_escapes_an_if() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        i = vc.global_id.x
        if x[i] > 0:
            sign = 1
        out[i] = sign

    return f


@wrong
def counter_escapes_a_loop() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.i32, x.size)
        for j in range(x.size):
            if x[j] > 0:
                break
        out[0] = j

    return f


@wrong
def counter_is_assigned() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        for j in range(x.size):
            j += 1

    return f


@wrong
def and_with_an_atomic() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32], n: vc.InOut[vc.u32]):
        if x[0] > 0 and vc.atomic_add(n, 0, 1) == 0:
            return

    return f


@wrong
def and_of_numbers() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        i = vc.global_id.x
        if i < x.size and x[i]:
            out[i] = 1

    return f


@wrong
def condition_is_no_bool() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        if x[0]:
            out[0] = 1

    return f


@wrong
def float_as_index() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = x[x[0] * 2]

    return f


@wrong
def slice_as_index() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = x[1:3]

    return f


@wrong
def slice_with_bounds_of_the_device() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        i = vc.global_id.x
        out[0] = sum(x[i : i + 3])

    return f


@wrong
def slice_without_an_end() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32, 2]):
        out = vc.output(vc.f32, x.size)
        out[0] = sum(x[0, 1:])

    return f


@wrong
def slice_from_the_end() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = sum(x[-2:0])

    return f


@wrong
def slice_with_step_0() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = sum(x[0:2:0])

    return f


@wrong
def slice_of_two_axes() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32, 2]):
        out = vc.output(vc.f32, x.size)
        out[0] = sum(x[:2, :2])

    return f


@wrong
def slice_takes_other_count() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[:3] = x[0], x[1]

    return f


@wrong
def slice_of_an_input_is_assigned() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        x[:2] = 1

    return f


@wrong
def slice_is_updated() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[:2] += 1

    return f


@wrong
def input_is_written() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        x[vc.global_id.x] = 0

    return f


@wrong
def buffer_is_assigned() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x = x * 2

    return f


@wrong
def arrays_are_multiplied() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32], y: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = x * y

    return f


@wrong
def python_minimum() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = min(x[0], 1.0)

    return f


@wrong
def python_length() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.i32, 1)
        out[0] = len(x)

    return f


@wrong
def python_conversion() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.i32, x.size)
        out[0] = int(x[0])

    return f


@wrong
def python_mathematics() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = math.sqrt(x[0])

    return f


@wrong
def numpy_mathematics() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = np.sqrt(x[0])

    return f


@wrong
def misspelled_function() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = vc.maximun(x[0], 1.0)

    return f


@wrong
def membership() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        if x[0] in x:
            out[0] = 1

    return f


@wrong
def identity() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        if x[0] is not None:
            out[0] = 1

    return f


@wrong
def loop_over_an_array() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, 1)
        for v in x:
            out[0] += v

    return f


@wrong
def break_under_a_condition_in_a_python_loop() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, 1)
        for k in vc.unrolled(4):
            if x[k] > 0:
                break

    return f


@wrong
def try_statement() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        try:
            x[0] = 1
        except IndexError:
            pass

    return f


@wrong
def with_statement() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        with open("log") as log:
            x[0] = 1

    return f


@wrong
def raise_statement() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        if x[0] < 0:
            raise ValueError("negative")

    return f


@wrong
def walrus() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        if (v := x[0]) > 0:
            x[0] = v * 2

    return f


@wrong
def else_of_a_loop() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        for j in range(4):
            x[j] = 0
        else:
            x[5] = 1

    return f


@wrong
def returned_value() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        return out

    return f


@wrong
def starred_assignment() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        first, *rest = x[0], x[1], x[2]

    return f


@wrong
def attribute_assignment() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32], c: vc.const = CONFIG):
        c.scale = 2

    return f


@wrong
def type_without_value() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        acc: vc.f32
        acc = x[0]
        x[1] = acc

    return f


@wrong
def python_list_changes_on_the_device() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        seen = [0, 0]
        if x[0] > 0:
            seen[0] = 1
        x[1] = vc.f32(seen[0])

    return f


@wrong
def python_list_grows_on_the_device() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        seen = []
        if x[0] > 0:
            seen.append(1)
        x[1] = vc.f32(len(seen))

    return f


@wrong
def python_item_escapes_an_if() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        if x[0] > 0:
            for c in vc.unrolled(3):
                x[c] = 0
        x[1] = vc.f32(c)

    return f


@wrong
def python_iterator() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32], values: vc.const = (1, 2)):
        each = iter(values)
        for j in range(2):
            x[j] = next(each)

    return f


@vc.func
def factorial(n):
    if n <= 1:
        return n
    return n * factorial(n - 1)


@wrong
def recursion() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.i32]):
        x[0] = factorial(x[0])

    return f


def plain_absolute(v: Any) -> Any:
    if v < 0:
        return -v
    return v


@wrong
def control_flow_in_a_plain_function() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[0] = plain_absolute(x[0])

    return f


@vc.func
def sometimes(v):
    if v > 0:
        return v


@wrong
def function_returns_on_some_paths() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[0] = sometimes(x[0])

    return f


@vc.func
def first_positive(x):
    for j in range(x.size):
        if x[j] > 0:
            return j
    return x.size


@wrong
def function_returns_in_a_loop() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[0] = vc.f32(first_positive(x))

    return f


@wrong
def kernel_in_a_kernel() -> Any:
    @vc.kernel
    def inner(x: vc.InOut[vc.f32]):
        x[0] = 1

    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        inner(x)

    return f


@wrong
def captured_array_that_can_be_written() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[0] = WRITABLE[0]

    return f


@wrong
def captured_list() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        for tap in TAPS:
            x[0] += tap

    return f


@wrong
def captured_object() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[0] *= CONFIG.scale

    return f


@wrong
def output_without_a_name() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        vc.output(vc.f32, x.size)[0] = x[0]

    return f


@wrong
def output_in_a_block() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        if x[0] > 0:
            out = vc.output(vc.f32, x.size)
            out[0] = 1

    return f


@wrong
def size_read_from_memory() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.u32]):
        out = vc.output(vc.f32, x[0])
        out[0] = 1

    return f


@wrong
def barrier_in_a_branch() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        if vc.thread_id.x < 10:
            vc.barrier()
        x[0] = 1

    return f


@wrong
def no_annotation() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32], a):
        pass

    return f


@wrong
def array_without_a_type() -> Any:
    @vc.kernel
    def f(x: vc.In, a: vc.f32):
        pass

    return f


@wrong
def python_type_as_annotation() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32], a: float):
        pass

    return f


@wrong
def default_of_a_scalar() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32], a: vc.f32 = 1.0):
        pass

    return f


@wrong
def any_number_of_parameters() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32], *others: vc.In[vc.f32]):
        pass

    return f


@wrong
def failed_assertion_when_built() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32], n: vc.const = 3):
        assert n % 2 == 0, "n must be even"
        x[0] = n

    return f


@wrong
def division_by_zero_when_built() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32], n: vc.const = 0):
        x[0] = 1 / n

    return f


@wrong
def no_source() -> Any:
    names: dict[str, Any] = {"vc": vc}
    exec("def f(x: vc.In[vc.f32]):\n    pass\n", names)
    return vc.kernel(names["f"])


@wrong
def a_lambda() -> Any:
    return vc.kernel(lambda x: None)


@wrong
def arms_without_a_type() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        chosen = 1 if x[0] > 0 else 0
        out[0] = chosen

    return f


@wrong
def print_of_a_buffer() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        print("x", x)

    return f


@wrong
def print_of_nine_values() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        i = vc.global_id.x
        print(i, i, i, i, i, i, i, i, i)

    return f


@wrong
def print_of_two_lines() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        print("one\ntwo")

    return f


@wrong
def print_without_an_end() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        print("x", x[0], end="")

    return f


@wrong
def print_with_a_format() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        print(f"{x[0]:.3f}")

    return f


@wrong
def an_f_string_that_is_not_printed() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        assert x[0] > 0.0, f"x is {x[0]}"

    return f


@wrong
def division_of_integers() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        out[0] = x[1] / 2

    return f


@wrong
def division_of_a_variable() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.u8]):
        out = vc.output(vc.u8, x.size)
        v = x[0]
        v /= 2
        out[0] = v

    return f


@vc.func
def of_two(a, b, *, c=1):
    return a + b + c


@wrong
def too_few_arguments() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.i32]):
        x[0] = 1 + of_two(x[0])

    return f


@wrong
def too_many_arguments() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.i32]):
        x[0] = of_two(x[0], x[1], x[2])

    return f


@wrong
def unknown_argument() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.i32]):
        x[0] = of_two(x[0], x[1], d=3)

    return f


@vc.func
def calls_of_two(a):
    return of_two(a)


@wrong
def too_few_arguments_in_a_func() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.i32]):
        x[0] = calls_of_two(x[0])

    return f


@vc.func
def of_many(*values):
    return values[0]


@wrong
def func_with_any_number_of_parameters() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.i32]):
        x[0] = of_many(x[0], x[1])

    return f


@wrong
def a_generator() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        yield x[0]

    return f


@wrong
def a_coroutine() -> Any:
    @vc.kernel
    async def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)

    return f


@wrong
def shared_array_of_a_size_of_the_device() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        t = vc.shared(vc.f32, x.size)
        t[0] = x[0]
        out[0] = t[0]

    return f


@wrong
def float_is_shifted() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = x[0] << 1

    return f


@wrong
def output_is_declared_twice() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        out = vc.output(vc.i32, x.size)
        out[0] = x[0]

    return f


@wrong
def atomic_without_its_array() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        vc.atomic_add(x[0], 1.0)

    return f


@wrong
def method_of_numpy() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = x[0].astype(vc.i32)

    return f


@wrong
def name_of_numba() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        i = vc.grid(1)
        out[i] = x[i]

    return f


@wrong
def name_of_cuda() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        i = vc.threadIdx.x
        out[i] = x[i]

    return f


@wrong
def id_without_an_axis() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        i = vc.global_id
        out[i] = x[i]

    return f


@wrong
def id_of_a_fourth_axis() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        i = vc.global_id.w
        out[i] = x[i]

    return f


@wrong
def dict_is_asked_on_the_device() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        table = {0: 1, 1: 2}
        out[0] = table[x[0]]

    return f


@wrong
def tuple_is_indexed_on_the_device() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        table = (5, 6, 7)
        out[0] = table[x[0]]

    return f


@wrong
def numpy_conversion() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.f32, x.size)
        out[0] = np.float32(x[0])

    return f


@wrong
def conditions_are_added() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        out = vc.output(vc.i32, x.size)
        out[0] = (x[0] > 1) + (x[1] > 1)

    return f


@wrong
def float_in_whole_arithmetic() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.i32]):
        x[0] = x[0] + 0.5

    return f


@wrong
def unrolled_over_a_size() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.i32]):
        for k in vc.unrolled(x.size):
            x[k] = 1

    return f


@wrong
def method_of_a_numpy_array() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, 1)
        out[0] = x.sum()

    return f


@wrong
def matrix_product() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32, 2], y: vc.In[vc.f32, 2]):
        out = vc.output(vc.f32, x.shape)
        out[0, 0] = x @ y

    return f


@wrong
def arguments_in_another_order() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        t = vc.local(16, vc.f32)
        out[0] = t[0]

    return f


STEPS = np.arange(4, dtype=np.float32)
STEPS.flags.writeable = False


def step_of(i: Any) -> Any:
    return STEPS[i]


@wrong
def array_in_a_plain_function() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[0] = step_of(vc.global_id.x)

    return f


@wrong
def block_is_too_large() -> Any:
    @vc.kernel(block=2000)
    def f(x: vc.InOut[vc.f32]):
        x[vc.global_id.x] = 0

    return f


@wrong
def index_is_a_word() -> Any:
    @vc.kernel(index="i32")
    def f(x: vc.InOut[vc.f32]):
        x[vc.global_id.x] = 0

    return f


def twice(function: Any) -> Any:
    @functools.wraps(function)
    def called(*arguments: Any) -> Any:
        return function(*arguments)

    return called


@wrong
def decorator_is_between() -> Any:
    @vc.kernel
    @twice
    def f(x: vc.InOut[vc.f32]):
        x[vc.global_id.x] = 0

    return f


@wrong
def extent_of_a_third_axis() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32, 2]):
        out = vc.output(vc.i32, 1)
        out[0] = x.shape[2]

    return f


@wrong
def part_of_a_complex_number() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        v = x[0]
        x[0] = v.real

    return f


@wrong
def transposed_array() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32, 2]):
        x.T[0, 1] = 1.0

    return f


@wrong
def comparison_as_a_statement() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[0] == 1.0

    return f


@wrong
def barrier_that_is_not_called() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        t = vc.shared(vc.f32, 256)
        t[vc.thread_id.x] = x[0]
        vc.barrier
        x[0] = t[0]

    return f


@wrong
def random_number_of_python() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[vc.global_id.x] = random.random()

    return f


@wrong
def random_number_of_numpy() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[vc.global_id.x] = np.random.rand()

    return f


@wrong
def clock_of_python() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[0] = time.time()

    return f


@wrong
def value_in_a_text_with_percent() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        print("x = %s" % x[0])

    return f


@wrong
def value_in_a_text_with_format() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        print("x = {}".format(x[0]))

    return f


@wrong
def text_of_a_value() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        print("x = " + repr(x[0]))

    return f


@wrong
def array_of_numpy_as_local_memory() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        t = np.zeros(4)
        t[0] = x[0]

    return f


@wrong
def array_like_another_by_numpy() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = np.zeros_like(x)
        out[0] = x[0]

    return f


@wrong
def list_is_indexed_by_an_id() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        t = [1.0, 2.0]
        t[vc.global_id.x] = 3.0

    return f


@wrong
def id_is_called() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[vc.global_id()] = 1

    return f


@wrong
def id_with_a_number_of_the_axis() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[vc.global_id[0]] = 1

    return f


@wrong
def size_is_called() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        if vc.global_id.x < x.size():
            x[0] = 1

    return f


@wrong
def complex_number() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[0] = x[0] * 1j

    return f


@wrong
def divmod_of_values() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.i32]):
        x[0], x[1] = divmod(x[0], 3)

    return f


@wrong
def type_of_python_for_a_variable() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        total: float = 0
        x[0] = total

    return f


@wrong
def type_of_numpy_for_an_output() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(np.float32, x.size)
        out[0] = x[0]

    return f


@wrong
def type_in_words_for_an_output() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output("float32", x.size)
        out[0] = x[0]

    return f


@wrong
def shared_array_as_numba_has_it() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        t = vc.shared.array(256, vc.f32)
        x[0] = t[0]

    return f


@wrong
def atomic_as_numba_has_it() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        vc.atomic.add(x, 0, 1.0)

    return f


@wrong
def number_of_the_thread_in_other_words() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[vc.local_id.x] = 1

    return f


@wrong
def missing_prefix() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[global_id.x] = 1

    return f


@wrong
def type_is_given_two_values() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[0] = vc.f32(1, 2)

    return f


@wrong
def number_of_python_as_a_parameter() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32], a: float):
        x[0] = a

    return f


@wrong
def type_of_numpy_in_brackets() -> Any:
    @vc.kernel
    def f(x: vc.In[np.float32]):
        vc.barrier()

    return f


@wrong
def five_axes() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32, 5]):
        vc.barrier()

    return f


@wrong
def parentheses_instead_of_brackets() -> Any:
    @vc.kernel
    def f(x: vc.In(vc.f32)):
        vc.barrier()

    return f


@wrong
def method_as_a_kernel() -> Any:
    class Model:
        @vc.kernel
        def f(self, x: vc.InOut[vc.f32]):
            x[0] = 1

    return Model.f


@wrong
def block_is_a_float() -> Any:
    @vc.kernel(block=256.0)
    def f(x: vc.InOut[vc.f32]):
        x[0] = 1

    return f


@wrong
def annotation_that_is_made_before() -> Any:
    floats = vc.In[float]

    @vc.kernel
    def f(x: floats):
        vc.barrier()

    return f


def summed(n: Any) -> Any:
    return sum(k for k in range(n))


@wrong
def arrays_are_compared() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32], y: vc.In[vc.f32]):
        if x == y:
            x[0] = 1

    return f


@wrong
def shapes_are_compared() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32, 2]):
        if x.shape == (2, 3):
            x[0, 0] = 1

    return f


@wrong
def list_of_values_is_printed() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        print([x[0], x[1]])

    return f


@wrong
def shape_is_printed() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32, 2]):
        print(x.shape)

    return f


@wrong
def list_of_values_in_an_f_string() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        print(f"{[x[0]]}")

    return f


@wrong
def id_of_three_axes_is_printed() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        print(vc.global_id)

    return f


@wrong
def texts_are_joined() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        print(", ".join([x[0], x[1]]))

    return f


@wrong
def text_and_value_are_added() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        print("x = " + x[0])

    return f


@wrong
def random_number_by_another_name() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[0] = draw()

    return f


@wrong
def arrays_are_swapped() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32], y: vc.InOut[vc.f32]):
        x, y = y, x
        x[0] = 1

    return f


@wrong
def loop_in_a_plain_function() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.i32]):
        x[0] = summed(x[0])

    return f


@wrong
def last_element_from_the_end() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[0] = x[-1]

    return f


@wrong
def last_column_from_the_end() -> Any:
    last = -1

    @vc.kernel
    def f(x: vc.InOut[vc.f32, 2]):
        x[0, last] = 1

    return f


@wrong
def atomic_from_the_end() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.i32]):
        counts = vc.shared(vc.u32, 8)
        vc.atomic_add(counts, -2, 1)

    return f


@wrong
def op_before_the_value() -> Any:
    @vc.kernel
    def f(x: vc.InOut[vc.f32]):
        x[0] = vc.warp_scan("add", x[0])

    return f


@wrong
def dtype_as_value() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = x.dtype

    return f


@wrong
def text_as_value() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = "x"

    return f


@wrong
def output_assigned() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out = x

    return f


@wrong
def output_assigned_in_a_block() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        if vc.global_id.x < out.size:
            out = x[vc.global_id.x] * 2

    return f


@wrong
def element_of_an_element() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        out = vc.output(vc.f32, x.size)
        out[0] = x[0][1]

    return f


@wrong
def value_in_a_message() -> Any:
    @vc.kernel
    def f(x: vc.In[vc.f32]):
        i = vc.global_id.x
        assert x[i] > 0, f"element {i} is not positive"

    return f
