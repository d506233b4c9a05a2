"""`vc.rewrites`: the steps that are reported, their words, and that both sides of each are equal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import vyre_cuda as vc
from tests.unit.terms_rules.grown import ELEMENTS, operands, program
from tests.unit.terms_rules.meaning import names
from tests.unit.terms_rules.operands import some
from vyre_cuda.codegen.core.target import Target
from vyre_cuda.codegen.lowering.recorded import RecordedLowering
from vyre_cuda.codegen.lowering.statements import Lowering
from vyre_cuda.codegen.terms.rules import RULES, Rule
from vyre_cuda.ir.core.types import u32
from vyre_cuda.testing.strategies import programs

HEADER = """program k
block 32
in x: u32
inout h: u32
out narrow: u8[u32:64]
scalar w: u32
scalar c: u32
scalar f: f32
work size(x)

let i = global_id.x
"""


def steps(text: str, **options: str) -> list[tuple[str, str, str]]:
    return [(each.rule, each.before, each.after) for each in vc.rewrites(vc.parse(HEADER + text + "\n"), **options)]


# ---- each kind of step ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("add(u32:2, u32:3)", [("constant", "add(u32:2, u32:3)", "u32:5")]),
        ("multiply(add(u32:2, u32:3), c)", [("constant", "add(u32:2, u32:3)", "u32:5")]),
        ("add(c, u32:0)", [("identity", "add(c, u32:0)", "c")]),
        ("multiply(c, u32:0)", [("identity", "multiply(c, u32:0)", "u32:0")]),
        ("minimum(c, c)", [("identity", "minimum(c, c)", "c")]),
        ("cast.u32(cast.u64(c))", [("identity", "cast.u32(cast.u64(c))", "c")]),
        ("invert(invert(c))", [("identity", "invert(invert(c))", "c")]),
        ("where(true, c, w)", [("identity", "where(true, c, w)", "c")]),
        ("subtract(add(c, w), c)", [("linear_form", "subtract(add(c, w), c)", "w")]),
        (
            "subtract(add(c, w), add(c, u32:5))",
            [("linear_form", "subtract(add(c, w), add(c, u32:5))", "subtract(w, u32:5)")],
        ),
        (
            "add(subtract(multiply(c, u32:5), multiply(c, u32:3)), u32:2147483648)",
            [
                ("linear_form", "subtract(multiply(c, u32:5), multiply(c, u32:3))", "multiply(c, u32:2)"),
            ],
        ),
        (
            "subtract(multiply(c, u32:7), multiply(w, u32:2))",
            [],  # nothing cancels
        ),
        (
            "add(add(c, w), multiply(c, u32:5))",
            [("linear_form", "add(add(c, w), multiply(c, u32:5))", "add(multiply(c, u32:6), w)")],
        ),
        (
            "floor_divide(floor_divide(c, u32:3), u32:5)",
            [("divided_twice", "floor_divide(floor_divide(c, u32:3), u32:5)", "floor_divide(c, u32:15)")],
        ),
        ("where(less(c, w), c, w)", [("smaller_chosen", "where(less(c, w), c, w)", "minimum(c, w)")]),
        (
            "bitwise_xor(bitwise_xor(add(c, u32:0), w), w)",
            [
                ("xor_twice", "bitwise_xor(bitwise_xor(add(c, u32:0), w), w)", "c"),
                ("identity", "add(c, u32:0)", "c"),
            ],
        ),
    ],
)
def test_a_step_has_its_rule_and_both_expressions(value: str, expected: list[tuple[str, str, str]]) -> None:
    value = value.replace("true", "bool_:true")
    expected = [(rule, before.replace("true", "bool_:true"), after) for rule, before, after in expected]

    assert sorted(steps(f"store h[i], {value}")) == sorted(expected)


def test_several_steps_of_an_expression_follow_each_other() -> None:
    value = "bitwise_and(bitwise_and(bitwise_and(c, u32:255), u32:15), u32:4294967295)"
    found = [each for each in steps(f"store h[i], {value}") if each[0] == "and_of_constants"]

    assert found == [("and_of_constants", "bitwise_and(bitwise_and(c, u32:255), u32:15)", "bitwise_and(c, u32:15)")]


def test_words_are_the_programs_and_say_where() -> None:
    body = """let row = floor_divide(i, w)
let column = remainder(i, w)
if not_equal(w, u32:0)
  store h[add(multiply(row, w), column)], c
end"""
    (found,) = vc.rewrites(vc.parse(HEADER + body + "\n"))

    assert (found.rule, found.before, found.after) == (
        "quotient_and_rest_of_divisor",
        "add(multiply(row, w), column)",
        "i",
    )
    assert (found.statement, found.text) == (4, "store h[add(multiply(row, w), column)], c")
    assert found.source is not None
    assert found.source[1] == HEADER.count("\n") + 4
    assert found.why == "((x // y) * y) + (x % y) is x, where y is not 0"


def test_a_value_that_was_overwritten_has_an_apostrophe() -> None:
    body = """let a = add(load(h[i]), u32:1)
store h[i], subtract(a, u32:1)
var t = load(x[i])
let b = add(t, w)
t = c
store h[i], subtract(b, w)"""

    assert steps(body) == [
        ("linear_form", "subtract(a, u32:1)", "load(h'[i])"),
        ("linear_form", "subtract(b, w)", "load(x[i])"),
    ]


def test_a_variable_that_holds_a_scalar_is_called_by_that() -> None:
    body = """var t = load(x[i])
for j = u32:0 to w step u32:1
  t = subtract(add(t, c), add(t, u32:0))
  t = add(load(x[t]), add(t, u32:0))
end
store h[i], t"""

    assert steps(body) == [
        ("linear_form", "subtract(add(t, c), add(t, u32:0))", "c"),
        ("identity", "add(t, u32:0)", "c"),
    ]


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 7, 480])
@pytest.mark.parametrize("planes", [1, 2, 3, 4, 5, 7, 640])
def test_the_places_of_an_array_of_constant_extents_have_their_steps(planes: int, columns: int) -> None:
    body = f"""let row = floor_divide(i, u32:{columns})
let z = floor_divide(row, u32:{planes})
let y = remainder(row, u32:{planes})
store h[z], y
store h[y], remainder(z, u32:7)
store h[i], remainder(remainder(row, u32:{planes}), u32:6)"""
    found = steps(body)

    joined = [after for rule, _, after in found if rule == "divided_twice"]
    rest = f"remainder(row, u32:{planes})"
    rests = [after for rule, before, after in found if (rule, before) == ("rest_of_quotient", rest)]
    assert len(joined) <= 2
    is_mask = planes & (planes - 1) == 0  # and takes no quotient
    assert bool(rests) == (f"floor_divide(i, u32:{planes * columns})" in joined and not is_mask)
    assert set(rests) <= {f"subtract(row, multiply(z, u32:{planes}))", "y"}


# ---- only what is computed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "let dead = subtract(add(c, w), c)",
        "let dead = multiply(u32:2, u32:3)",
        "let dead = subtract(add(c, w), c)\nlet a = bitwise_xor(w, c)\nstore h[i], a",
        "let dead = floor_divide(floor_divide(c, u32:3), u32:5)\nlet too = bitwise_xor(bitwise_xor(dead, w), w)",
        "if bool_:false\n  store h[i], subtract(add(c, w), c)\nend",
    ],
)
def test_what_is_not_computed_is_not_reported(body: str) -> None:
    assert steps(body) == []


def test_a_rule_whose_result_vanishes_is_not_reported() -> None:
    twice = "floor_divide(floor_divide(c, u32:3), u32:5)"

    assert steps(f"store h[i], multiply({twice}, u32:0)") == [("identity", f"multiply({twice}, u32:0)", "u32:0")]


def test_a_let_counts_when_something_needs_it_later() -> None:
    body = "let a = subtract(add(c, w), c)\nlet b = multiply(a, c)\nif less(i, c)\n  store h[i], b\nend"

    assert steps(body) == [("linear_form", "subtract(add(c, w), c)", "w")]


def test_facts_of_a_branch_do_not_leave_it() -> None:
    value = "add(multiply(floor_divide(i, w), w), remainder(i, w))"
    body = f"if not_equal(w, u32:0)\n  store h[i], {value}\nend\nstore h[i], {value}"

    assert [rule for rule, _, _ in steps(body)] == ["quotient_and_rest_of_divisor", "quotient_and_rest"]


def test_a_let_that_only_something_dead_reads_is_gone_with_its_scope() -> None:
    inner = "let k = add(load(x[i]), u32:0)\n  let dead = bitwise_xor(k, w)"

    assert steps(f"if less(i, c)\n  {inner}\nend\nstore h[i], add(c, u32:0)") == [("identity", "add(c, u32:0)", "c")]


def test_precisions_differ_where_subnormals_flush() -> None:
    body = "store narrow[i], cast.u8(multiply(f, f32:1.0))"

    assert steps(body) == [("identity", "multiply(f, f32:1.0)", "f")]
    assert steps(body, precision="ftz") == []


# ---- both sides are equal -------------------------------------------------------------------------------------------

MANY = [
    "add(multiply(floor_divide(add(c, w), c), c), remainder(add(c, w), c))",
    "subtract(multiply(c, u32:9), subtract(multiply(c, u32:3), w))",
    "subtract(multiply(add(c, u32:1), w), w)",
    "bitwise_or(left_shift(c, u32:13), right_shift(c, u32:19))",
    "minimum(minimum(c, u32:100), u32:50)",
    "where(less_equal(c, w), w, c)",
    "bitwise_and(bitwise_or(c, w), w)",
    "negative(subtract(negative(c), w))",
    "right_shift(right_shift(c, u32:3), u32:4)",
    "cast.u32(cast.i8(cast.u16(c)))",
    "invert(add(invert(c), w))",
    "remainder(remainder(c, w), w)",
]


SIDES = """program sides
block 32
in cs: u32
in ws: u32
out left: u32[size(cs)]
out right: u32[size(cs)]
work size(cs)

let i = global_id.x
let c = load(cs[i])
let w = load(ws[i])
"""


@pytest.mark.parametrize("value", MANY)
def test_both_sides_of_a_step_have_the_same_values(value: str) -> None:
    numbers = some(("c", "w"), u32, 7, 64)
    found = vc.rewrites(vc.parse(f"{SIDES}store left[i], {value}\n"))
    assert found
    for step in found:
        sides = vc.parse(f"{SIDES}store left[i], cast.u32({step.before})\nstore right[i], cast.u32({step.after})\n")
        left, right = vc.evaluate(sides, numbers["c"], numbers["w"])
        np.testing.assert_array_equal(left, right, err_msg=str(step))


@pytest.mark.thin
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_both_sides_of_steps_grown_from_rules_have_the_same_values(rule: Rule) -> None:
    fired = 0
    for type_ in rule.types:
        found = vc.rewrites(program(rule, type_, 3))
        fired += sum(step.rule == rule.name for step in found)
        head = ["program sides", f"block {ELEMENTS}", *(f"in {name}: {type_}" for name in names(rule))]
        head += [f"out {side}: {type_}[multiply(size(x), u32:{len(found)})]" for side in ("left", "right")]
        body = [
            f"store {side}[add(multiply(i, u32:{len(found)}), u32:{k})], cast.{type_}({text})"
            for k, step in enumerate(found)
            for side, text in (("left", step.before), ("right", step.after))
        ]
        sides = vc.parse("\n".join([*head, "work size(x)", "", "let i = global_id.x", *body, ""]))
        left, right = vc.evaluate(sides, *operands(rule, type_, 3))
        np.testing.assert_array_equal(left, right, err_msg=f"{rule.name} {type_}")

    assert fired


# ---- who asks -------------------------------------------------------------------------------------------------------


def test_lowering_without_asking_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("recorded")

    monkeypatch.setattr(RecordedLowering, "__init__", refuse)
    program = vc.parse(HEADER + "store h[i], subtract(add(c, w), c)\n")

    assert "sub" not in vc.ptx(program).split("{", 1)[0]
    with pytest.raises(AssertionError, match="recorded"):
        vc.rewrites(program)


def test_equal_steps_of_two_places_of_a_statement_are_listed_once() -> None:
    expected = ("identity", "add(c, u32:0)", "c")

    assert steps("store h[add(c, u32:0)], add(c, u32:0)") == [expected]
    assert steps("store h[add(c, u32:0)], w\nstore h[w], add(c, u32:0)") == [expected] * 2


def test_a_step_in_a_loop_belongs_to_its_statement_also_where_it_is_computed_before() -> None:
    text = "for j = u32:0 to c step u32:1\n  let t = add(load(x[add(c, u32:0)]), w)\n  store h[j], add(t, u32:0)\nend"
    program = vc.parse(HEADER + text + "\n")

    found = [(each.statement, each.before, each.after) for each in vc.rewrites(program)]

    assert found == [(2, "add(c, u32:0)", "c"), (3, "add(t, u32:0)", "t")]


@pytest.mark.parametrize("named", ["let t", "var t"])
def test_a_name_is_not_used_behind_its_block_even_where_that_is_always_run(named: str) -> None:
    block = f"if less(u32:1, u32:2)\n  {named} = multiply(c, u32:3)\n  store h[t], w\nend\n"
    outer = "store h[i], add(multiply(c, u32:3), u32:0)"
    found = [(each.before, each.after) for each in vc.rewrites(vc.parse(HEADER + block + outer + "\n"))]

    assert found[-1] == ("add(multiply(c, u32:3), u32:0)", "multiply(c, u32:3)")
    within = block.replace("end\n", f"  {outer}\nend\n")
    assert steps(within)[-1] == ("identity", "add(multiply(c, u32:3), u32:0)", "t")


def assert_the_same_is_computed_for_who_asks(program: vc.Program) -> None:
    options = {"precision": "ieee", "bounds": "check", "debug": False}
    silent, asked = (made(program, Target.parse("sm_90"), **options) for made in (Lowering, RecordedLowering))
    silent.run()
    asked.run()

    assert asked.builder.function.code == silent.builder.function.code
    assert asked.builder.function.ops == silent.builder.function.ops
    assert vc.rewrites(program) == asked.rewrites()


@pytest.mark.thin
@settings(deadline=None)
@given(program=programs())
def test_the_same_is_computed_for_who_asks(program: vc.Program) -> None:
    assert_the_same_is_computed_for_who_asks(program)


@pytest.mark.parametrize(
    "body",
    [
        # A sum of values, a - b and the like, that is compared with another form and costs no less.
        """let a = subtract(s, maximum(s, i32:1))
let b = add(left_shift(subtract(i32:2, a), i32:6), right_shift(a, i32:26))
store h[i], maximum(i32:2, add(s, b))""",
        """let a = subtract(subtract(u8:28, cast.u8(i)), subtract(u8:6, load(x[i])))
store o[i], invert(a)
store o[i], left_shift(a, u8:3)""",
    ],
)
def test_forms_that_are_only_compared_stay_so_for_who_asks(body: str) -> None:
    head = "program k\nin x: u8\ninout o: u8\ninout h: i32\nscalar s: i32\nwork size(h)\n\nlet i = global_id.x\n"
    assert_the_same_is_computed_for_who_asks(vc.parse(head + body + "\n"))


def test_known_values_are_those_of_a_kernel_that_is_compiled_for_them() -> None:
    program = vc.parse(HEADER + "store h[i], add(multiply(floor_divide(i, w), w), remainder(i, w))\n")
    (unknown,) = vc.rewrites(program)
    *_, known = vc.rewrites(program, specialize={"w": 28, "x.size": 784})

    assert (unknown.rule, unknown.after) == ("quotient_and_rest", "where(not_equal(w, u32:0), i, u32:0)")
    assert (known.rule, known.after) == ("quotient_and_rest_of_divisor", "i")
    assert "div.u32" not in vc.ptx(program, specialize={"w": 28})


def test_what_cannot_be_asked_about_is_refused() -> None:
    program = vc.parse(HEADER + "store h[i], c\n")
    with pytest.raises(TypeError, match="takes a Program, not an int"):
        vc.rewrites(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="precision"):
        vc.rewrites(program, precision="exact")
    with pytest.raises(ValueError, match="sm_"):
        vc.rewrites(program, target="sm_x")
    for asked in (vc.rewrites, vc.ptx):
        with pytest.raises(ValueError, match="there is no 'z'"):
            asked(program, specialize={"z": 1})
        with pytest.raises(OverflowError):
            asked(program, specialize={"w": -1})
