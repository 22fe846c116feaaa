"""`{seed}` in a command: each block has one seed for both arms, which is recorded and follows from the run's seed."""

import pytest

FLAGS = ("--repeat", "1", "--warm-up", "1", "--looks", "1", "--max-blocks", "6", "--quiet", "--json", "-")
ECHO = ("sh", "-c", "echo ops $1", "sh", "{seed}")
RATE = r"regex:ops (\d+)"


@pytest.fixture
def measured(here, records):
    def call(*flags, store=None):
        where = ["--store", store] if store else []
        words = ["ab", "--control", "glibc", "--treatment", "glibc,X=1", "--metric", RATE, *FLAGS, *where, *flags]
        answer = here(*words, "--", *ECHO)
        assert answer.status == 0, answer.err
        return answer.result()

    return call


def test_both_arms_of_a_block_see_one_seed_and_the_next_block_another(measured, records):
    result = measured()
    runs = records("run", phase="measure")
    by_block = {}
    for run in runs:
        assert run["value"] == run["workload_seed"]
        by_block.setdefault(run["block"], set()).add(run["workload_seed"])
    assert [len(seeds) for seeds in by_block.values()] == [1] * 6
    assert len(set.union(*by_block.values())) == 6
    assert (result["verdict"], result["estimate"]) == ("NEUTRAL", 0.0)


def test_the_seed_of_the_run_decides_them(measured, here, tmp_path):
    drawn = []
    for name, seed in (("one", 7), ("two", 7), ("three", 8)):
        measured("--seed", seed, store=tmp_path / name)
        sql = "SELECT workload_seed AS s FROM runs WHERE phase = 'measure' ORDER BY block, position"
        drawn.append([row["s"] for row in here("export", "--sql", sql, "--store", tmp_path / name).result()])
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_program_without_a_seed_has_none_in_its_records(here, fakes, records):
    here("ab", "--control", "glibc", "--treatment", "glibc", *FLAGS, "--", fakes.program, "exit", "0")
    assert not any("workload_seed" in run for run in records("run"))


def test_a_server_and_its_clients_get_the_seed(fakes):
    from hakmem_lab.plan.model import build
    from hakmem_lab.plan.spec import AbSpec
    from hakmem_lab.run.runner import Runner
    from hakmem_lab.run.workload import Workload

    server = {"command": ["true", "{seed}", "{port}"], "warm-up": ["true", "{seed}"]}
    values = {"command": ["true"], "control": "glibc", "treatment": "glibc", "server": server}
    workload = Workload.of(build(AbSpec, values, "x"))
    assert workload.seeded()
    with Runner(workload, []) as runner:
        runner._seed = 42
        assert runner.filled_in(server["command"], 80) == ["true", "42", "80"]


def test_a_soak_has_no_blocks_and_refuses_it(here):
    message = here("soak", "--", "true", "{seed}")
    assert message.status == 2
    assert "{seed}" in message.message()
