"""Runs that go on after their verdict, runs planned for a given effect, and repeated runs of one question."""

import random

import pytest

RATE = r"regex:ops (\d+)"


@pytest.fixture
def ab(here, counted):
    """ab(treatment, flags…): an A/B of a program with deterministic rates."""

    def call(treatment, *flags):
        words = ["ab", "--control", "glibc", "--treatment", treatment, "--metric", RATE, "--higher-is-better"]
        fixed = ["--repeat", "1", "--warm-up", "0", "--json", "-"]
        return here(*words, *fixed, *flags, "--", counted)

    return call


@pytest.fixture
def noisy(here, modelled):
    """Like `ab`, with rates that vary by some per cent from run to run, identically in every test."""

    def varied(run):
        return {"stdout": f"ops {int(run.env.get('RATE', 10000)) + run.number * 7919 % 13 * 80}"}

    program = modelled(varied)

    def call(kind, *words):
        fixed = ["--metric", RATE, "--higher-is-better", "--repeat", "1", "--warm-up", "0", "--seed", "3", "--quiet"]
        return here(kind, *words, *fixed, "--json", "-", "--", program).result()

    return call


def test_more_blocks_than_planned_are_run_where_the_verdict_stands(ab, here, records):
    first = ab("glibc,RATE=1100", "--max-blocks", "20", "--quiet").result()
    assert (first["verdict"], first["blocks"]) == ("GO", 8)
    more = here("resume", "--more", "5", "--quiet", "--json", "-").result()
    assert (more["verdict"], more["blocks"], more["final"]) == ("GO", 13, True)
    assert [event["until"] for event in records("event", what="more")] == [13]
    again = here("show", "--json", "-").result()
    assert (again["blocks"], again["ci_low"]) == (13, more["ci_low"])


def test_more_blocks_go_beyond_the_plan_and_end_where_they_settle_it(noisy, here):
    arms = ["--control", "glibc", "--treatment", "glibc,RATE=10250"]
    first = noisy("ab", *arms, "--max-blocks", "8", "--looks", "1", "--margin", "0.1%")
    assert (first["verdict"], first["blocks"], first["final"]) == ("INCONCLUSIVE", 8, True)
    more = here("resume", "--more", "80", "--quiet", "--json", "-").result()
    assert more["verdict"] == "GO" and 8 < more["blocks"] < 88
    assert more["ci_low"] > 0


@pytest.mark.parametrize(
    ("kind", "more", "message"),
    [("aa", "5", "cannot be prolonged"), ("ab", "-1", "at least 1")],
)
def test_what_cannot_be_prolonged_is_refused(ab, here, counted, kind, more, message):
    if kind == "aa":
        here("aa", "--max-blocks", "12", "--quiet", "--repeat", "1", "--", counted)
    else:
        ab("glibc,RATE=1100", "--max-blocks", "8", "--quiet")
    answer = here("resume", "--more", more, "--quiet")
    assert answer.status == 2 and message in answer.message()


def test_earlier_runs_of_the_same_question_are_counted(ab, here):
    first = ab("glibc,RATE=1100", "--max-blocks", "8", "--quiet", "--seed", "1").result()
    other = ab("glibc,RATE=1200", "--max-blocks", "8", "--quiet").result()
    second = ab("glibc,RATE=1100", "--max-blocks", "10", "--margin", "2%", "--quiet").result()
    assert [first["earlier"], other["earlier"]] == [[], []]
    assert second["earlier"] == [{"id": first["run"], "verdict": "GO"}]
    assert any("asked once before" in text and first["run"] in text for text in second["warnings"])


def test_blocks_are_planned_for_an_effect_from_the_first_six(ab, records):
    answer = ab("glibc,RATE=1001", "--detect", "2%", "--margin", "0.01%", "--looks", "1")
    (plan,) = records("event", what="plan")
    assert plan["blocks"] == 7 and "by the first 6 blocks" in plan["text"]  # the fewest that can decide
    assert plan["text"] in answer.err
    assert answer.result()["blocks"] == 7


def test_blocks_are_planned_for_an_effect_from_the_last_aa(here, modelled, store):
    from hakmem_lab.store.runs import Store

    noise = random.Random(1)
    program = modelled(lambda _: {"wall_s": noise.gauss(0.006, 0.0002), "user_s": 0.0})
    words = ["--repeat", "1", "--quiet", "--", program]
    checked = here("aa", "--max-blocks", "12", "--margin", "50%", "--json", "-", *words).result()
    here("ab", "--control", "glibc", "--treatment", "glibc,A=1", "--detect", "30%", "--max-blocks", "7", *words)
    (run,) = [run for run in Store(store).runs() if "-ab-" in run.id]
    (plan,) = [record for record in run.records() if record.get("what") == "plan"]
    assert checked["run"] in plan["text"] and plan["blocks"] <= 7
    assert plan["text"].index("to show 30 %") == 0


def test_a_settled_arm_leaves_the_comparison(noisy, records):
    """One of two arms differs clearly and leaves after few blocks; the other one is measured to the end."""
    arms = ["glibc", "glibc,RATE=15000", "glibc,RATE=10100"]
    result = noisy("compare", "--allocators", *arms, "--max-blocks", "24")
    rows = {row["treatment"]: row for row in result["comparisons"] if row["verdict"]}
    assert rows["glibc,RATE=15000"]["verdict"] == "GO"
    assert rows["glibc,RATE=15000"]["blocks"] < rows["glibc,RATE=10100"]["blocks"] == result["blocks"]
    orders = [set(block["order"]) for block in records("block")]
    assert len(orders[0]) == 3 and orders[-1] == {"glibc", "glibc,RATE=10100"}


@pytest.fixture
def matrix(here, tmp_path, counted):
    """A design with a program of deterministic rates: one factor adds a fifth to the rate, the other nothing."""

    def call(*lines, flags=()):
        spec = tmp_path / "design.toml"
        own = '[factors]\nfast = "RATE=1200"\nother = "FAKE_OTHER=1"\n'
        top = f'kind = "matrix"\nbase = "glibc"\ncommand = "{counted}"\nmetric = \'{RATE}\'\n'
        fixed = "higher-is-better = true\nrepeat = 1\nwarm-up = 0\n"
        spec.write_text(top + fixed + "".join(f"{line}\n" for line in lines) + own)
        return here("matrix", spec, *flags, "--json", "-")

    return call


def test_a_matrix_ends_when_every_question_is_settled_and_goes_on_when_asked(matrix, here, records):
    answer = matrix("max-blocks = 20")
    first = answer.result()
    assert (first["final"], first["blocks"]) == (True, 11) and all(row["settled"] for row in first["effects"])
    assert "11 blocks: every question is settled" in answer.err
    more = here("resume", "--more", "3", "--quiet", "--json", "-").result()
    assert (more["final"], more["blocks"]) == (True, 14)
    assert len(records("block")) == 14


def test_the_confirmation_of_a_sweep_goes_on_when_asked_with_the_candidate_that_was_chosen(
    here, tmp_path, counted, records
):
    spec = tmp_path / "sweep.toml"
    spec.write_text(
        f'kind = "sweep"\ncommand = "{counted}"\nmetric = \'{RATE}\'\nhigher-is-better = true\n'
        f'max-blocks = 20\nrepeat = 1\nwarm-up = 0\ndefault = "glibc"\n'
        'select-blocks = 3\n[candidates]\nslow = "glibc,RATE=800"\nfast = "glibc,RATE=1200"\n'
    )
    first = here("sweep", spec, "--quiet", "--json", "-").result()
    assert (first["verdict"], first["blocks"], first["final"]) == ("GO", 8, True)
    more = here("resume", "--more", "4", "--quiet", "--json", "-").result()
    assert (more["verdict"], more["blocks"], more["final"]) == ("GO", 12, True)
    confirmed = [set(block["order"]) for block in records("block", phase="confirm")]
    assert confirmed == [{"default", "fast"}] * 12 and len(records("block", phase="select")) == 3


def test_the_blocks_of_a_matrix_are_planned_by_its_own_contrasts(matrix, records):
    matrix("max-blocks = 15", flags=("--detect", "2%"))
    (plan,) = records("event", what="plan")
    assert "by the first 6 blocks" in plan["text"] and 9 <= len(records("block")) <= plan["blocks"] <= 15
