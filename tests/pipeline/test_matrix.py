from __future__ import annotations

from pathlib import Path

from orun.pipeline.declarations import MAX_STAGES
from orun.pipeline.model import Pipeline
from tests.pipeline.support import EXPORT, complaint, loaded

INT8 = "  int8: {uses: quantize/dynamic, needs: export, matrix: {per_channel: [true, false]}}\n"


def needs(pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    return {stage.id: stage.upstream for stage in pipeline.stages}


def test_an_axis_sets_the_parameter_of_its_name(tmp_path: Path) -> None:
    pipeline = loaded(tmp_path, f"stages:\n{EXPORT}{INT8}")
    assert {stage.id: stage.params.get("per_channel") for stage in pipeline.stages} == {
        "export": None,
        "int8[per_channel=true]": True,
        "int8[per_channel=false]": False,
    }


def test_an_axis_can_be_used_anywhere_in_the_stage(tmp_path: Path) -> None:
    text = (
        f"stages:\n{EXPORT}"
        "  s:\n    uses: '${matrix.kind}'\n    needs: export\n    timeout: '${matrix.minutes}min'\n"
        "    matrix: {kind: [optimize-simplify], minutes: [1, 2]}\n"
    )
    assert "there is no kind of stage 'optimize-simplify'" in complaint(tmp_path, text)
    good = text.replace("'${matrix.kind}'", "optimize/simplify").replace("kind: [optimize-simplify], ", "")
    assert {stage.id: stage.timeout for stage in loaded(tmp_path, good).stages} == {
        "export": None,
        "s[minutes=1]": 60.0,
        "s[minutes=2]": 120.0,
    }


def test_the_text_of_a_value_names_the_stage_and_its_value_sets_the_parameter(tmp_path: Path) -> None:
    pipeline = loaded(
        tmp_path,
        f"stages:\n{EXPORT}  s: {{uses: optimize/simplify, needs: export, matrix: {{atol: [1e-3, 0.0010]}}}}\n",
    )
    assert {stage.id: stage.params.get("atol") for stage in pipeline.stages[1:]} == {
        "s[atol=1e-3]": 0.001,
        "s[atol=0.0010]": 0.001,
    }


def test_stages_after_a_matrix_are_made_along_it(tmp_path: Path) -> None:
    text = (
        f"stages:\n{EXPORT}{INT8}"
        "  simple: {uses: optimize/simplify, needs: int8}\n"
        "  release: {uses: release/bundle, needs: {model: simple, model.first: int8}}\n"
        "  one: {uses: optimize/simplify, needs: 'int8[per_channel=false]'}\n"
    )
    assert needs(loaded(tmp_path, text)) == {
        "export": (),
        "int8[per_channel=true]": ("export",),
        "int8[per_channel=false]": ("export",),
        "simple[per_channel=true]": ("int8[per_channel=true]",),
        "simple[per_channel=false]": ("int8[per_channel=false]",),
        "release[per_channel=true]": ("simple[per_channel=true]", "int8[per_channel=true]"),
        "release[per_channel=false]": ("simple[per_channel=false]", "int8[per_channel=false]"),
        "one": ("int8[per_channel=false]",),
    }


def test_two_inputs_with_axes_of_their_own_are_crossed(tmp_path: Path) -> None:
    text = (
        f"stages:\n{EXPORT}{INT8}"
        "  other: {uses: quantize/dynamic, needs: export, matrix: {weight_type: [int8, uint8]}}\n"
        "  latency: {uses: measure/latency, needs: {model: int8, reference: other}}\n"
    )
    assert [stage.id for stage in loaded(tmp_path, text).stages if stage.uses == "measure/latency"] == [
        "latency[per_channel=true,weight_type=int8]",
        "latency[per_channel=true,weight_type=uint8]",
        "latency[per_channel=false,weight_type=int8]",
        "latency[per_channel=false,weight_type=uint8]",
    ]


def test_an_axis_of_the_stages_own_picks_from_what_it_needs(tmp_path: Path) -> None:
    text = (
        f"stages:\n{EXPORT}{INT8}"
        "  simple:\n    uses: optimize/float16\n    needs: int8\n    matrix: {per_channel: [true]}\n"
        "    with: {keep_io_types: '${matrix.per_channel}'}\n"
    )
    pipeline = loaded(tmp_path, text)
    (stage,) = [stage for stage in pipeline.stages if stage.uses == "optimize/float16"]
    assert (stage.id, stage.upstream, stage.params["keep_io_types"]) == (
        "simple[per_channel=true]",
        ("int8[per_channel=true]",),
        True,
    )


def test_an_axis_may_say_what_is_needed(tmp_path: Path) -> None:
    text = (
        f"stages:\n{EXPORT}{INT8}"
        "  latency: {uses: measure/latency, needs: '${matrix.of}', matrix: {of: [export, int8]}}\n"
    )
    assert [(stage.id, stage.upstream) for stage in loaded(tmp_path, text).stages[3:]] == [
        ("latency[of=export]", ("export",)),
        ("latency[per_channel=true,of=int8]", ("int8[per_channel=true]",)),
        ("latency[per_channel=false,of=int8]", ("int8[per_channel=false]",)),
    ]


def test_a_stage_may_come_before_its_matrix_in_the_file(tmp_path: Path) -> None:
    text = f"stages:\n  simple: {{uses: optimize/simplify, needs: int8}}\n{INT8}{EXPORT}"
    assert [stage.id for stage in loaded(tmp_path, text).stages] == [
        "export",
        "int8[per_channel=true]",
        "simple[per_channel=true]",
        "int8[per_channel=false]",
        "simple[per_channel=false]",
    ]


def test_a_mistake_in_a_stage_with_a_matrix_is_told_once(tmp_path: Path) -> None:
    message = complaint(tmp_path, f"stages:\n{EXPORT}{INT8.replace('matrix', 'with: {prepocess: true}, matrix')}")
    assert [line.partition(" error: ")[2] for line in message.splitlines() if " error: " in line] == [
        "'prepocess' is not a parameter of quantize/dynamic"
    ]


def test_a_matrix_of_thousands_is_refused(tmp_path: Path) -> None:
    numbers = ", ".join(str(number) for number in range(40))
    text = (
        f"stages:\n{EXPORT}"
        f"  s: {{uses: optimize/simplify, needs: export, matrix: {{atol: [{numbers}], rtol: [{numbers}]}}}}\n"
    )
    assert f"this matrix makes more than {MAX_STAGES} stages" in complaint(tmp_path, text)


def test_a_loop_through_a_matrix_is_told(tmp_path: Path) -> None:
    text = (
        "stages:\n"
        "  a: {uses: quantize/dynamic, needs: b, matrix: {per_channel: [true, false]}}\n"
        "  b: {uses: optimize/simplify, needs: 'a[per_channel=true]'}\n"
    )
    assert complaint(tmp_path, text).splitlines()[0] == (
        "p.yaml:2:38: error: these stages need one another in a loop: a -> b -> a"
    )


def test_inputs_that_are_crossed_to_thousands_are_refused(tmp_path: Path) -> None:
    axes = ", ".join(str(number) for number in range(100))
    text = f"stages:\n{EXPORT}" + "".join(
        f"  {name}: {{uses: optimize/simplify, needs: export, matrix: {{{axis}: [{axes}]}}}}\n"
        for name, axis in (("a", "atol"), ("b", "rtol"))
    )
    text += "  c: {uses: measure/accuracy, needs: {model: a, reference: b}}\n"
    assert complaint(tmp_path, text).splitlines()[0] == (
        "p.yaml:5:3: error: with what it needs, this stands for more than 1000 stages"
    )


def test_large_stages_of_a_matrix_are_refused(tmp_path: Path) -> None:
    many = ", ".join(str(number) for number in range(1000))
    stage = f"{{uses: quantize/dynamic, needs: export, with: {{exclude: [{many}]}}, matrix: {{a: [{many}]}}}}"
    assert complaint(tmp_path, f"stages:\n{EXPORT}  s: {stage}\n").splitlines()[0] == (
        "p.yaml:3:3: error: with their matrices written out, the stages hold more than 100000 values"
    )


def test_a_loop_of_many_stages_is_abridged(tmp_path: Path) -> None:
    stages = (f"  s{number}: {{uses: optimize/simplify, needs: s{(number + 1) % 200}}}\n" for number in range(200))
    message = complaint(tmp_path, f"stages:\n{''.join(stages)}")
    first, *_, last = message.splitlines()
    assert first == (
        "p.yaml:2:40: error: these stages need one another in a loop: s0 -> s1 -> s2 -> s3 -> s4 -> s5 -> s6 -> s7 -> "
        "(185 more) -> s193 -> s194 -> s195 -> s196 -> s197 -> s198 -> s199 -> s0"
    )
    assert last == "    s199 needs s0 at p.yaml:201:42"


def test_the_shortest_loop_of_a_dense_graph_is_told(tmp_path: Path) -> None:
    """Where every stage needs every other one, the shortest loop is found by going through the graph once."""
    names = [f"s{number}" for number in range(60)]
    text = "stages:\n" + "".join(
        f"  {name}: {{uses: optimize/simplify, needs: [{', '.join(other for other in names if other != name)}]}}\n"
        for name in names
    )
    assert complaint(tmp_path, text).splitlines()[0] == (
        "p.yaml:2:41: error: these stages need one another in a loop: s0 -> s1 -> s0"
    )


def test_a_stage_that_a_list_names_twice_is_refused(tmp_path: Path) -> None:
    message = complaint(tmp_path, f"stages:\n{EXPORT}  s: {{uses: optimize/simplify, needs: [export, export]}}\n")
    assert message == (
        "p.yaml:3:48: error: 'export' is named twice\n"
        "    3 |   s: {uses: optimize/simplify, needs: [export, export]}\n"
        "      |                                                ^^^^^^\n"
        "  expected: each stage once\n"
        "  hint: to feed two inputs with it, name them: `needs: {model: export, ...}`"
    )


def test_values_of_a_matrix_may_meet_in_a_list(tmp_path: Path) -> None:
    text = (
        f"stages:\n{EXPORT}  size: {{uses: measure/size, needs: export}}\n"
        "  s:\n    uses: optimize/simplify\n    needs: [export, '${matrix.a}', '${matrix.b}']\n"
        "    matrix: {a: [export, size], b: [export, size]}\n"
    )
    assert len(loaded(tmp_path, text).stages) == 6
