"""From the command line to the verdict, on programs with a known true difference."""

import json
import random

import pytest

KEYS = {"verdict", "estimate", "ci_low", "ci_high", "margin", "blocks", "arms", "run"}
RATE = r"regex:ops (\d+)"
FAST = ("--repeat", "1", "--warm-up", "0", "--looks", "1", "--max-blocks", "6", "--quiet", "--json", "-")


@pytest.fixture
def compare_two(here, counted):
    """An A/B of the counted script with deterministic rates."""

    def call(treatment, *flags, control="glibc"):
        words = ["ab", "--control", control, "--treatment", treatment, "--metric", RATE, *FAST, *flags]
        return here(*words, "--", counted)

    return call


@pytest.mark.parametrize(
    ("rate", "higher", "verdict", "estimate"),
    [
        (1100, True, "GO", 0.1),
        (1100, False, "NO-GO", 1 / 1.1 - 1),
        (900, True, "NO-GO", -0.1),
        (900, False, "GO", 1 / 0.9 - 1),
        (1000, True, "NEUTRAL", 0.0),
        (1005, False, "NEUTRAL", 1 / 1.005 - 1),
    ],
)
def test_plus_means_that_the_treatment_is_better(compare_two, rate, higher, verdict, estimate):
    flags = ["--higher-is-better"] if higher else []
    result = compare_two(f"glibc,RATE={rate}", *flags).result()
    assert result["verdict"] == verdict
    assert result["estimate"] == pytest.approx(estimate)
    assert result["ci_low"] <= result["estimate"] <= result["ci_high"]


def test_the_object_has_the_promised_keys(compare_two, store):
    result = compare_two("glibc,RATE=1100", "--margin", "2%").result()
    assert set(result) >= KEYS
    assert (result["margin"], result["blocks"]) == (0.02, 6)
    assert [arm["name"] for arm in result["arms"]] == ["glibc", "glibc,RATE=1100"]
    assert [path.stem for path in store.glob("*")] == [result["run"]]


def test_standard_output_holds_the_object_alone(hak, fakes):
    answer = hak(
        "ab", "--control", "glibc", "--treatment", "glibc", *FAST[:-3], "--json", "-", "--", fakes.program, "exit", "0"
    )
    assert set(answer.result()) >= KEYS
    assert answer.status == 0
    assert "6 blocks" in answer.err


@pytest.mark.parametrize(("wanted", "status"), [("GO", 0), ("NO-GO", 1), ("NEUTRAL", 1), ("INCONCLUSIVE", 1)])
def test_require(compare_two, wanted, status):
    answer = compare_two("glibc,RATE=1100", "--higher-is-better", "--require", wanted)
    assert answer.status == status
    assert answer.result()["verdict"] == "GO"


def test_without_require_the_status_is_0_whatever_the_verdict(compare_two):
    assert compare_two("glibc,RATE=500", "--higher-is-better").status == 0


@pytest.mark.parametrize(
    ("slow", "verdict", "schedule"), [("control", "GO", "together"), ("treatment", "NO-GO", "one-by-one")]
)
def test_a_really_slower_allocator(here, fakes, slow, verdict, schedule):
    """A preloaded library that wastes 15 ms of processor time, against the same library that does not."""
    arms = {"control": str(fakes.allocator), "treatment": str(fakes.allocator)}
    arms[slow] += ",FAKE_SPIN=15"
    flags = [word for name, arm in arms.items() for word in (f"--{name}", arm)]
    flags += ["--metric", "cpu", "--schedule", schedule]
    result = here("ab", *flags, *FAST, "--", fakes.program, "burn", "10").result()
    assert (result["verdict"], result["schedule"]) == (verdict, schedule)
    beside = "wall" if schedule == "one-by-one" else "faults"
    assert beside in {row["metric"] for row in result["comparisons"]}
    assert (result["estimate"] > 0) == (slow == "control")
    assert abs(result["estimate"]) > 0.2


def test_the_same_arm_twice_gives_no_false_verdict(here, modelled):
    """Both arms take equally long, and the margin of 20 % is far above the noise."""
    noise = random.Random(1)
    program = modelled(lambda _: {"wall_s": noise.gauss(0.03, 0.001), "user_s": 0.0})
    result = here("ab", "--control", "glibc", "--treatment", "glibc", "--margin", "20%", *FAST, "--", program).result()
    assert result["verdict"] in ("NEUTRAL", "INCONCLUSIVE")
    assert [arm["name"] for arm in result["arms"]] == ["glibc (control)", "glibc (treatment)"]


@pytest.mark.parametrize(("limit", "status", "verdict"), [("20%", "failed", "NO-GO"), ("90%", "held", "GO")])
def test_a_failed_guardrail_vetoes_a_go(here, modelled, limit, status, verdict):
    """The treatment is twice as fast and costs 1.5 times as much."""
    program = modelled(lambda run: {"stdout": f"ops {run.env['RATE']} cost {run.env['COST']}"})
    arms = ["--control", "glibc,RATE=1000,COST=100", "--treatment", "glibc,RATE=2000,COST=150"]
    words = ["ab", *arms, "--metric", RATE, "--higher-is-better", "--guardrail", rf"regex:cost (\d+)={limit}", *FAST]
    result = here(*words, "--", program).result()
    assert result["guardrails"][0]["status"] == status
    assert result["guardrails"][0]["estimate"] == pytest.approx(1 / 1.5 - 1)
    assert result["verdict"] == verdict


def test_a_guardrail_whose_pattern_holds_an_equals_sign(here, fakes):
    words = ["ab", "--control", "glibc", "--treatment", "glibc", "--guardrail", r"regex:cost=(\d+)=5%", *FAST]
    answer = here(*words, "--", fakes.program, "print", "cost=5")
    assert answer.status == 0, answer.err
    assert answer.result()["guardrails"][0]["metric"] == r"regex:cost=(\d+)"


def test_a_guardrail_on_the_rate_itself_reads_it_the_same_way(compare_two):
    """The rate doubles, which is better for the primary metric, so the guardrail on it must not call it worse."""
    answer = compare_two("glibc,RATE=2000", "--higher-is-better", "--guardrail", f"{RATE}=5%")
    assert answer.result()["verdict"] == "GO"


def test_every_run_and_block_is_in_the_store(compare_two, records):
    result = compare_two("glibc,RATE=1100", "--seed", "5").result()
    runs, blocks = records("run", phase="measure"), records("block")
    assert [b["block"] for b in blocks] == list(range(6))
    assert len(runs) == 24
    for block in blocks:
        inside = [r["arm"] for r in runs if r["block"] == block["block"]]
        assert inside == block["order"]
        assert sorted(inside) == sorted([arm["name"] for arm in result["arms"]] * 2)
    assert records("header")[0]["seed"] == 5
    assert records()[-1]["type"] == "result"
    assert len({r["pad_bytes"] for r in runs}) > 12


def test_the_same_seed_gives_the_same_schedule(here, counted, tmp_path):
    orders = []
    for name in ("one", "two"):
        words = ["ab", "--control", "glibc", "--treatment", "glibc,X=1", *FAST, "--seed", "9"]
        here(*words, "--store", tmp_path / name, "--", counted)
        (path,) = (tmp_path / name).glob("*.jsonl")
        lines = map(json.loads, path.read_text().splitlines())
        orders.append([(r["arm"], r["pad_bytes"]) for r in lines if r["type"] == "run" and r["phase"] == "measure"])
    assert orders[0] == orders[1]
    assert len({arm for arm, _ in orders[0][::4]}) == 2


def test_a_large_difference_ends_the_run_at_once(here, counted, records):
    words = ["ab", "--control", "glibc", "--treatment", "glibc,RATE=2000", "--higher-is-better", "--metric", RATE]
    flags = ["--repeat", "1", "--warm-up", "0", "--max-blocks", "60", "--looks", "3", "--quiet", "--json", "-"]
    result = here(*words, *flags, "--", counted).result()
    assert (result["verdict"], result["blocks"], result["final"]) == ("GO", 8, True)
    assert [row["blocks"] for row in result["looks"]] == [8]
    assert len(records("block")) == 8


@pytest.mark.parametrize("kind", ["compare", "matrix", "sweep", "aa"])
def test_other_kinds_see_the_same_effect(here, counted, tmp_path, kind):
    own = {
        "compare": 'allocators = ["glibc", "glibc,RATE=1200", "default"]',
        "matrix": 'base = "glibc"\n[factors]\nfast = "RATE=1200"\nother = "FAKE_OTHER=1"',
        "sweep": 'default = "glibc"\nselect-blocks = 3\n[candidates]\nslow = "glibc,RATE=800"'
        '\nfast = "glibc,RATE=1200"',
        "aa": "resamples = 200",
    }[kind]
    looks, blocks = ("looks = 1\n", 12) if kind != "aa" else ("", 12)
    spec = tmp_path / f"{kind}.toml"
    spec.write_text(
        f'kind = "{kind}"\ncommand = "{counted}"\nmetric = \'{RATE}\'\nhigher-is-better = true\n'
        f"{looks}max-blocks = {blocks}\nrepeat = 1\nwarm-up = 0\n{own}\n"
    )
    answer = here(kind, spec, "--quiet", "--json", "-")
    assert answer.status == 0, answer.err
    result = answer.result()
    if kind == "compare":
        assert [(r["treatment"], r["verdict"]) for r in result["comparisons"][:2]] == [
            ("glibc,RATE=1200", "GO"), ("default", "NEUTRAL")]  # fmt: skip
    elif kind == "matrix":
        effects = {(e["name"], e["kind"]): e["estimate"] for e in result["effects"]}
        assert effects["fast", "main"] == pytest.approx(0.2)
        assert effects["other", "main"] == pytest.approx(0.0, abs=1e-12)
    elif kind == "sweep":
        assert (result["selection"]["chosen"], result["verdict"]) == ("fast", "GO")
        assert result["estimate"] == pytest.approx(0.2)
    else:
        assert (result["aa"]["false_go"], result["aa"]["false_no_go"], result["aa"]["fit"]) == (0, 0, True)


def test_a_comparison_of_very_short_programs(here, fakes):
    """The programs end before their memory is sampled, so no arm has the mean memory, a standard metric."""
    words = ["compare", "--allocators", "glibc", "default", "glibc,X=1", "--max-blocks", "8", "--repeat", "1"]
    answer = here(*words, "--quiet", "--json", "-", "--", fakes.program, "exit", "0")
    assert answer.status == 0, answer.err
    assert {row["metric"] for row in answer.result()["comparisons"]} >= {"wall", "cpu", "rss"}
