"""The spec's model: accepted values come back as they were meant, and all others raise LabError and nothing else."""

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hakmem_lab import kinds
from hakmem_lab.designs.itself import AaSpec
from hakmem_lab.errors import LabError, nearest
from hakmem_lab.kinds.tune.spec import Spec as TuneSpec
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import AbSpec, CompareSpec, MatrixSpec, SweepSpec, normalised, spec_hash

MODELS = {
    "ab": AbSpec,
    "compare": CompareSpec,
    "matrix": MatrixSpec,
    "sweep": SweepSpec,
    "tune": TuneSpec,
    "aa": AaSpec,
}
GOOD = {
    "ab": {"control": "glibc", "treatment": "hakmem"},
    "compare": {},
    "matrix": {"factors": {"a": "A=1", "b": "B=1"}},
    "sweep": {"default": "glibc", "candidates": {"a": "hakmem"}},
    "tune": {},
    "aa": {},
}
TEXTS = st.text(max_size=12) | st.sampled_from(
    ["1%", "nan%", "90s", "auto", "regex:(", "regex:(a)", "wall", "glibc", "true", "\0"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.datetimes() | st.dates() | st.times(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
KEYS = sorted({f.alias or n for model in MODELS.values() for n, f in model.model_fields.items()})
MEANINGFUL = st.dictionaries(st.sampled_from(KEYS) | TEXTS, VALUES, max_size=6)


@given(st.sampled_from(sorted(MODELS)), MEANINGFUL, st.booleans())
@settings(max_examples=300)
def test_any_values_give_a_model_or_a_message_of_the_file(kind, values, complete):
    if complete:
        values = {"kind": kind, "command": ["true"], **GOOD[kind]} | values
    try:
        spec = build(MODELS[kind], values, "x.toml")
    except LabError as error:
        assert str(error).startswith("x.toml: ")
    else:
        assert spec_hash(spec) == spec_hash(build(MODELS[kind], normalised(spec), "x.toml"))


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_file_gives_a_spec_or_an_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("spec") / "x.toml"
    path.write_bytes(content)
    with pytest.raises(LabError, match=r"x\.toml"):
        kinds.load_spec(path, "ab")


@given(
    st.dictionaries(
        st.sampled_from([*KEYS, "x"]), st.sampled_from(["5", '"a"', "true", "[1]", "{ a = 1 }", "nan", "inf", "1e999"])
    )
)
def test_toml_of_every_type_gives_a_spec_or_an_error(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("spec") / "x.toml"
    path.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
    assert tomllib.loads(path.read_text()).keys() == lines.keys()
    with pytest.raises(LabError, match=r"x\.toml"):
        kinds.load_spec(path, "ab")


@pytest.mark.parametrize(
    ("text", "value"), [("1%", 0.01), ("0.5 %", 0.005), (" 2% ", 0.02), (0.03, 0.03), ("0.04", 0.04)]
)
def test_ratios(text, value):
    spec = build(AbSpec, GOOD["ab"] | {"command": "true", "margin": text}, "x")
    assert spec.margin == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "value"), [("250ms", 0.25), ("90s", 90), ("10m", 600), ("1h", 3600), (5, 5), ("7", 7), ("1.5s", 1.5)]
)
def test_durations(text, value):
    assert build(AbSpec, GOOD["ab"] | {"command": "true", "timeout": text}, "x").timeout == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "words"), [("a b", ["a", "b"]), ("a 'b c'", ["a", "b c"]), (["a", "b c", ""], ["a", "b c", ""])]
)
def test_commands(text, words):
    assert build(AbSpec, GOOD["ab"] | {"command": text}, "x").command == words


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_the_hash_names_the_meaning(kind):
    values = {"command": "true", **GOOD[kind]}
    spec = build(MODELS[kind], values, "x")
    assert spec_hash(spec) == spec_hash(build(MODELS[kind], values | {"margin": "1%"}, "y"))
    assert spec_hash(spec) != spec_hash(build(MODELS[kind], values | {"margin": "2%"}, "x"))


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_normalised_keys_are_those_that_a_spec_is_written_with(kind):
    spec = build(MODELS[kind], {"command": "true", **GOOD[kind]}, "x")
    assert all("_" not in key for key in normalised(spec))
    assert build(MODELS[kind], normalised(spec), "x") == spec


@given(st.text(max_size=10), st.lists(st.text(max_size=10), max_size=5))
def test_nearest_answers_with_a_known_name(name, known):
    hint = nearest(name, known)
    assert hint == "there are none" if not known else any(entry in hint for entry in known)


@pytest.mark.parametrize(("name", "wanted"), [("GlibC", "glibc"), ("hakmen", "hakmem"), ("tc-malloc", "tcmalloc")])
def test_nearest_name(name, wanted):
    assert nearest(name, ["glibc", "hakmem", "tcmalloc"]) == f"did you mean '{wanted}'?"
