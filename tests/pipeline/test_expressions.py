from __future__ import annotations

from pathlib import Path

import pytest

from orun.errors import PipelineError
from orun.pipeline.expressions import Expressions, list_used_axes
from orun.pipeline.nodes import Map, Scalar, list_scalars, to_plain
from orun.pipeline.problems import Problems
from tests.pipeline.support import EXPORT, complaint, list_notes, loaded, mapping

VARS = """\
number: 1e-3
version: 1.10
flag: true
list: [1, 2]
nested: {deep: {x: 7}}
built: v${vars.version}-${vars.nested.deep.x}
literal: $${vars.number}
none:
"""


def resolved(folder: Path, text: str) -> object:
    problems = Problems()
    expressions = Expressions(mapping(folder, VARS), problems)
    node = expressions.substitute(mapping(folder, f"value: {text}"))
    problems.check()
    assert isinstance(node, Map)
    return to_plain(node)["value"]


def test_a_whole_value_keeps_its_type(tmp_path: Path) -> None:
    assert resolved(tmp_path, "${vars.number}") == 0.001
    assert resolved(tmp_path, "'${vars.flag}'") is True
    assert resolved(tmp_path, "${vars.list}") == [1, 2]
    assert resolved(tmp_path, "${ vars.nested.deep.x }") == 7
    assert resolved(tmp_path, "${vars.none}") is None


def test_within_text_a_value_is_written_as_it_was(tmp_path: Path) -> None:
    assert resolved(tmp_path, "a-${vars.number}-${vars.version}-${vars.flag}") == "a-1e-3-1.10-true"


def test_variables_may_be_made_of_variables(tmp_path: Path) -> None:
    assert resolved(tmp_path, "${vars.built}") == "v1.10-7"


def test_a_literal_dollar_brace_is_escaped(tmp_path: Path) -> None:
    # `plain` writes it as a file would: escaped again.
    assert resolved(tmp_path, "a$${b}") == "a$${b}"
    assert resolved(tmp_path, "${vars.literal}") == "$${vars.number}"


def test_a_value_stands_where_it_is_used_and_a_path_belongs_to_the_file_that_wrote_it(tmp_path: Path) -> None:
    expressions = Expressions(mapping(tmp_path, VARS), Problems())
    substituted = expressions.substitute(
        Scalar("${vars.number}", "${vars.number}", mapping(tmp_path, "a: 1").span, "used.yaml")
    )
    assert isinstance(substituted, Scalar)
    assert (substituted.value, substituted.text, substituted.via) == (0.001, "1e-3", "${vars.number}")
    assert substituted.span.source == "a: 1"
    assert substituted.file == str(tmp_path / "p.yaml")


def test_axes_that_are_used_are_found(tmp_path: Path) -> None:
    root = mapping(tmp_path, "a: ${matrix.x}-${ matrix.y }\nb: ['$${matrix.z}', '${vars.v}']\n")
    assert list_used_axes(list_scalars(root)) == {"x", "y"}


def test_variables_that_multiply_are_refused(tmp_path: Path) -> None:
    levels = ["  v0: [x, x, x, x, x, x, x, x, x, x]"]
    for number in range(1, 9):
        use = f'"${{vars.v{number - 1}}}"'
        levels.append(f"  v{number}: [{', '.join([use] * 10)}]")
    message = complaint(tmp_path, "vars:\n" + "\n".join(levels) + f"\nstages:\n{EXPORT}")
    assert message.splitlines()[0] == (
        "p.yaml:6:7: error: with its variables and matrices written out, this holds more than 100000 values"
    )


def test_a_long_chain_of_variables_is_refused(tmp_path: Path) -> None:
    chain = "".join(f"  v{n}: ${{vars.v{n + 1}}}\n" for n in range(60)) + "  v60: 1\n"
    message = complaint(tmp_path, f"vars:\n{chain}stages:\n{EXPORT}")
    assert message == (
        "p.yaml:51:8: error: variables refer to one another more than 50 deep\n"
        "   51 |   v49: ${vars.v50}\n"
        "      |        ^^^^^^^^^^^"
    )


def test_a_mistake_in_a_variable_is_told_once_and_where_it_is(tmp_path: Path) -> None:
    message = complaint(
        tmp_path,
        "vars: {a: '${vars.b}'}\n"
        "stages: {export: {uses: convert/onnx, with: {path: '${vars.a}', digest: '${vars.a}'}}}\n",
    )
    assert message == (
        "p.yaml:1:12: error: there is no variable 'b'\n"
        "    1 | vars: {a: '${vars.b}'}\n"
        "      |            ^^^^^^^^^\n"
        "  expected: a"
    )


def test_a_mapping_may_come_from_a_variable(tmp_path: Path) -> None:
    pipeline = loaded(
        tmp_path,
        f"vars: {{fast: {{per_channel: true, weight_type: uint8}}}}\nstages:\n{EXPORT}"
        "  int8: {uses: quantize/dynamic, needs: export, with: '${vars.fast}'}\n",
    )
    params = pipeline.stage("int8").params
    assert (params["per_channel"], params["weight_type"]) == (True, "uint8")


def test_unused_variables_are_checked_too(tmp_path: Path) -> None:
    with pytest.raises(PipelineError) as caught:
        loaded(tmp_path, f"vars: {{a: '${{vars.x}}'}}\nstages:\n{EXPORT}")
    assert [problem.message for problem in caught.value.problems] == ["there is no variable 'x'"]


def test_texts_that_look_like_expressions_are_noted(tmp_path: Path) -> None:
    """A text parameter may want them as they are; only those that name a variable or an axis are noted."""
    texts = "'$who', '{{ vars.who }} $5', '{{who}}', '$HOME', '$vars.who', '$matrix.axis', '${vars.who}'"
    stage = f"  edit:\n    uses: quantize/dynamic\n    needs: export\n    with: {{exclude: [{texts}]}}\n"
    notes = list_notes(tmp_path, f"vars: {{who: me}}\nstages:\n{EXPORT}{stage}")
    line = f"    with: {{exclude: [{texts}]}}"
    assert notes == [
        f"p.yaml:7:{line.index(quoted) + 1}: {text!r} stays as it is; did you mean ${{vars.who}}?"
        for text, quoted in (("$who", "'$who'"), ("{{ vars.who }}", "'{{ v"), ("$vars.who", "'$vars"))
    ]


def test_a_stage_that_variables_make_too_large_is_refused(tmp_path: Path) -> None:
    items = ", ".join(["x"] * 1000)
    uses = ", ".join(['"${vars.many}"'] * 400)
    text = f"vars: {{many: [{items}]}}\nstages:\n{EXPORT}  int8:\n    uses: quantize/dynamic\n    needs: export\n"
    text += f"    with: {{exclude: [{uses}]}}\n"
    assert complaint(tmp_path, text).splitlines()[0] == (
        "p.yaml:5:5: error: with its variables and matrices written out, this holds more than 100000 values"
    )


@pytest.mark.parametrize("place", ["vars", "name", "--set"])
def test_text_that_multiplies_is_refused(tmp_path: Path, place: str) -> None:
    """Ten times the text below it at each level: a gigabyte after nine of them."""
    levels = "".join(f'  v{n}: "{f"${{vars.v{n - 1}}}" * 10}"\n' for n in range(1, 10))
    text = f"vars:\n  v0: ten\n{levels}stages:\n{EXPORT}"
    overrides = {"name": "${vars.v9}"} if place == "--set" else {}
    text += "name: ${vars.v9}\n" if place == "name" else ""
    message = complaint(tmp_path, text, overrides).splitlines()[0]
    assert message == (
        "p.yaml:9:7: error: with its variables and matrices written out, the file holds more than 16 MiB of text"
    )


def test_a_long_text_that_stands_in_many_values_is_refused(tmp_path: Path) -> None:
    long, many = "x" * 100_000, ", ".join(["'-${vars.long}'"] * 1000)
    message = complaint(tmp_path, f"vars: {{long: {long}, many: [{many}]}}\nstages:\n{EXPORT}")
    assert message.splitlines()[0] == (
        "p.yaml:1:102862: error: with its variables and matrices written out, the file holds more than 16 MiB of text"
    )


def test_text_of_some_megabytes_is_fine(tmp_path: Path) -> None:
    pipeline = loaded(tmp_path, f"vars: {{long: {'x' * 1_000_000}, all: '{'${vars.long}' * 8}'}}\nstages:\n{EXPORT}")
    assert [stage.id for stage in pipeline.stages] == ["export"]
